"""Answers that must follow a grammar: what a client sent becomes masks over the vocabulary.

    Constraint ─► compiler (lark, gbnf, schema) ─► CompiledGrammar ─► Matcher (one a row) ─► masks

Machines on the host, by llguidance; only `logits_mask.py` knows MLX. Compiling belongs on a worker
thread; a matcher belongs to its row, and lives on the device thread.
"""
