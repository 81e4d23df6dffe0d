"""Tokenizers of about 512 entries, trained in milliseconds, in the two forms that models come in.

Byte level, as GPT, Llama 3 and Qwen have it, and SentencePiece form with byte fall-back, as Llama 2
and Gemma have it. They differ in how a token turns back into bytes and in the leading space.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VOCABULARY_SIZE = 512
SPACE = "▁"


def byte_level_tokenizer(
    texts: Sequence[str], *, special_tokens: Sequence[str], size: int = VOCABULARY_SIZE
) -> Tokenizer:
    """A byte-level BPE: any text goes in, and every text comes back as it was."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def sentencepiece_tokenizer(
    texts: Sequence[str],
    *,
    special_tokens: Sequence[str],
    size: int = VOCABULARY_SIZE,
    strips_leading_space: bool,
) -> Tokenizer:
    """A BPE over characters with `▁` for a space; characters it lacks are spelt as `<0x..>` bytes.

    With ``strips_leading_space`` it puts a space before a text and takes it away again, as Llama 2
    does; without, it leaves both ends alone, as Gemma does.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    replace: Any = normalizers.Replace(" ", SPACE)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend(SPACE), replace])
        if strips_leading_space
        else replace
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f"{SPACE}|\n"), "merged_with_next")
    steps: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if strips_leading_space:
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    # Japanese and emoji are left to the byte tokens.
    letters = {letter for text in texts for letter in text if ord(letter) < 0x250}
    alphabet = sorted(letters - {" "} | {SPACE})
    byte_tokens = [f"<0x{value:02X}>" for value in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*special_tokens, *byte_tokens],
        # Of characters that are equally frequent the trainer would take now one, now another.
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _as_ordinary_tokens(tokenizer, byte_tokens)


def _as_ordinary_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """The trainer can only reserve ids for special tokens, and a special token is not decoded."""
    from tokenizers import Tokenizer

    document = json.loads(tokenizer.to_str())
    ordinary = frozenset(tokens)
    document["added_tokens"] = [
        token for token in document["added_tokens"] if token["content"] not in ordinary
    ]
    # Llama's and Gemma's own files split no words either, and a run of spaces stays together.
    document["pre_tokenizer"] = None
    return Tokenizer.from_str(json.dumps(document))


def add_beginning_token(tokenizer: Tokenizer, token: str) -> None:
    """Encoding a text as it is (not a rendered template) then puts ``token`` before it."""
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, tokenizer.token_to_id(token))]
    )
