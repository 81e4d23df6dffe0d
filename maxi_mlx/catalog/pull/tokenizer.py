"""The tokenizer, its settings and the chat template out of a GGUF's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from maxi_mlx.core.errors import SetupError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NORMAL, CONTROL = 1, 3  # GGUF's token types; the embedded model has no others


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """A byte-level BPE that splits numbers into digits."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind = (metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise SetupError(f"The file's tokenizer is of the kind {kind}, which is not known here.")
    types = set(metadata["tokenizer.ggml.token_type"])
    if not types <= {NORMAL, CONTROL}:
        raise SetupError(f"The file's tokens are of the types {sorted(types)}; only 1 and 3 known.")
    vocabulary = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for _, token in _control(metadata)]
    )
    return tokenizer


def tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """tokenizer_config.json. The chat template is a file of its own."""
    return {
        # Not GPT2Tokenizer: that class puts its own splitting in place of the file's.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _token(metadata, "bos"),
        "eos_token": _token(metadata, "eos"),
        "pad_token": _token(metadata, "padding"),
        "unk_token": _token(metadata, "unknown"),
        "model_max_length": metadata["llama.context_length"],
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "added_tokens_decoder": {
            str(i): {
                "content": token,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for i, token in _control(metadata)
        },
    }


def _token(metadata: Mapping[str, Any], role: str) -> str:
    token: str = metadata["tokenizer.ggml.tokens"][metadata[f"tokenizer.ggml.{role}_token_id"]]
    return token


def _control(metadata: Mapping[str, Any]) -> list[tuple[int, str]]:
    types = metadata["tokenizer.ggml.token_type"]
    tokens = enumerate(metadata["tokenizer.ggml.tokens"])
    return [(i, token) for i, token in tokens if types[i] == CONTROL]
