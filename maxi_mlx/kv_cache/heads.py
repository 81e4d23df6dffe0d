"""Puts what a disk tells of its pieces into the order in which a tree can take it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from maxi_mlx.kv_cache.pieces import PieceHead, encode_tokens, key_of_tokens


def parents_first(heads: Iterable[PieceHead], root: str) -> list[tuple[PieceHead, bytes]]:
    """The heads that hang together with the root and are named rightly, with their tokens encoded.
    Of siblings the longer comes first, since it may be what a shorter one has grown to."""
    children: dict[str, list[tuple[PieceHead, bytes]]] = {}
    for head in heads:
        tokens = encode_tokens(head.token_ids)
        if head.key == key_of_tokens(head.parent, head.kind, tokens, start=head.start):
            children.setdefault(head.parent, []).append((head, tokens))
    for siblings in children.values():
        siblings.sort(key=lambda pair: len(pair[1]), reverse=True)
    ordered = list(children.pop(root, ()))
    for head, _ in ordered:  # grows as it goes
        ordered.extend(children.pop(head.key, ()))
    return ordered
