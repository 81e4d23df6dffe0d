"""Texts to token ids for embedding models and rerankers, with what each model puts around them.

Runs on worker threads, several at a time: the tokenizers library lets go of Python's lock, and
nothing of a tokenizer is changed once it is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxi_mlx.core.embedding import EmbeddingRequest, InputType, ScoreRequest
from maxi_mlx.core.errors import ContextTooLong, EngineFailed, InvalidRequest
from maxi_mlx.core.models import EmbeddingForm, ModelEntry

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# What sentence-transformers looks for, in this order.
_PROMPT_NAMES: dict[InputType, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
_TEXTS_PER_CALL = 64  # so that a cancelled request's thread is soon free


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """One input as the model reads it. ``start``: where pooling begins, behind a prompt that is
    not to count. ``segments`` tell a pair's texts apart, for models that take that."""

    ids: Sequence[int]
    segments: Sequence[int] | None = None
    start: int = 0


class Texts:
    """A model's tokenizer. ``limit`` is the most tokens an input may have, with all around it."""

    def __init__(
        self, tokenizer: Tokenizer, entry: ModelEntry, *, limit: int, num_ids: int
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._whole = tokenizer
        self._model = entry.id
        self.limit = limit
        self._num_ids = num_ids

    @cached_property
    def _cut(self) -> Tokenizer:
        """The same one, but for cutting what is too long before the closing tokens."""
        tokenizer = copy_of(self._whole)
        tokenizer.enable_truncation(self.limit)
        return tokenizer

    def encode(
        self,
        texts: Sequence[Any],
        *,
        truncate: bool,
        path: Callable[[int], str],
        too_long: Callable[[int, int], ContextTooLong] | None = None,
        adds_special: bool = True,
    ) -> list[Any]:
        """Texts, or pairs of texts, as the tokenizers library's encodings. ``too_long`` makes the
        refusal of the one at an index, with so many tokens."""
        encodings: list[Any] = []
        for begin in range(0, len(texts), _TEXTS_PER_CALL):
            some = list(texts[begin : begin + _TEXTS_PER_CALL])
            encodings += self._whole.encode_batch(some, add_special_tokens=adds_special)
        for index, encoding in enumerate(encodings):
            num_tokens = len(encoding.ids)
            if not num_tokens:
                raise InvalidRequest(f"'{path(index)}' has no tokens.", param=path(index))
            if num_tokens > self.limit:
                if not truncate and too_long is not None:
                    raise too_long(index, num_tokens)
                if not truncate:
                    raise self.too_long(path(index), num_tokens)
                encodings[index] = self._cut.encode_batch(
                    [texts[index]], add_special_tokens=adds_special
                )[0]
        return encodings

    def given(self, ids: Sequence[int], *, truncate: bool, path: str) -> Sequence[int]:
        """Token ids that the client made."""
        if max(ids) >= self._num_ids:
            raise InvalidRequest(
                f"'{path}' has token id {max(ids)}, but the vocabulary of {self._model} ends at "
                f"{self._num_ids - 1}.",
                param=path,
            )
        if len(ids) > self.limit and not truncate:
            raise self.too_long(path, len(ids))
        return ids[: self.limit]

    def too_long(self, path: str, num_tokens: int, *, beside: str = "") -> ContextTooLong:
        return ContextTooLong(
            f"'{path}' has {num_tokens} tokens{beside}, and {self._model} reads {self.limit} at "
            'most. Shorten it, or send "truncate": true to have it cut.',
            param=path,
        )

    def pair_too_long(self, request: ScoreRequest, index: int, num_tokens: int) -> ContextTooLong:
        """Names the query where that alone leaves a document no room."""
        query_field, document_field = request.fields
        place = index if len(request.queries) > 1 else 0
        num_query_tokens = len(self._whole.encode(request.queries[place]).ids)
        if num_query_tokens >= self.limit:
            return self.too_long(
                item_path(query_field, place, len(request.queries)), num_query_tokens
            )
        path = item_path(document_field, index, len(request.documents))
        return self.too_long(path, num_tokens, beside=" with its query")

    def num_prompt_tokens(self, prompt: str) -> int:
        """Those of a prompt by itself, without what closes a text."""
        encoding = self._whole.encode(prompt)
        closing = 0
        for is_special in reversed(encoding.special_tokens_mask):
            if not is_special:
                break
            closing += 1
        return len(encoding.ids) - closing


def read_tokenizer(folder: Path) -> tuple[Tokenizer, bool]:
    """The folder's tokenizer, by transformers, as sentence-transformers reads it, and whether it
    tells a pair's two texts apart by segments."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise EngineFailed("its tokenizer has no form that the tokenizers library reads")
    return copy_of(backend), "token_type_ids" in tokenizer.model_input_names


def copy_of(tokenizer: Tokenizer) -> Tokenizer:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(tokenizer.to_str())


class EmbeddingTexts:
    """An embedding model's inputs, with its prompts."""

    def __init__(self, texts: Texts, entry: ModelEntry, form: EmbeddingForm) -> None:
        self._texts = texts
        self._model = entry.id
        self._form = form
        self._prompts = dict(form.prompts)
        self._prompt_tokens = lru_cache(maxsize=64)(texts.num_prompt_tokens)

    def rows(self, request: EmbeddingRequest, *, field: str = "input") -> list[TokenRow]:
        """The inputs in order, all of them checked; ``field`` is what the client calls them."""

        def path(index: int) -> str:
            return item_path(field, index, len(request.inputs))

        prompt = self._prompt(request)
        start = 0
        if prompt and not self._form.pools_prompt:
            start = self._prompt_tokens(prompt)
        texts = [
            (index, self._text(prompt, item))
            for index, item in enumerate(request.inputs)
            if isinstance(item, str)
        ]
        encodings = self._texts.encode(
            [text for _, text in texts],
            truncate=request.truncate,
            path=lambda place: path(texts[place][0]),
        )
        rows: dict[int, TokenRow] = {
            index: TokenRow(ids=encoding.ids, start=min(start, len(encoding.ids) - 1))
            for (index, _), encoding in zip(texts, encodings, strict=True)
        }
        for index, item in enumerate(request.inputs):
            if not isinstance(item, str):
                ids = self._texts.given(item, truncate=request.truncate, path=path(index))
                rows[index] = TokenRow(ids=ids)
        return [rows[index] for index in range(len(request.inputs))]

    def _text(self, prompt: str, text: str) -> str:
        text = prompt + text
        return text.lower() if self._form.lowers_case else text

    def _prompt(self, request: EmbeddingRequest) -> str:
        if request.prompt_name is not None:
            if request.prompt_name in self._prompts:
                return self._prompts[request.prompt_name]
            known = ", ".join(map(repr, self._prompts)) or "none"
            raise InvalidRequest(
                f"{self._model} has no prompt {request.prompt_name[:100]!r}; it has {known}.",
                param="prompt_name",
            )
        if request.input_type is not None:
            names = _PROMPT_NAMES[request.input_type]
            return next((self._prompts[name] for name in names if name in self._prompts), "")
        return self._prompts.get(self._form.default_prompt or "", "")


class PairTexts:
    """Pairs for a cross-encoder: both texts in one input, with the tokens it has between them."""

    def __init__(self, texts: Texts, *, takes_segments: bool) -> None:
        self._texts = texts
        self._takes_segments = takes_segments

    def rows(self, request: ScoreRequest) -> list[TokenRow]:
        encodings = self._texts.encode(
            pairs(request),
            truncate=request.truncate,
            path=partial(_document, request),
            too_long=partial(self._texts.pair_too_long, request),
        )
        return [
            TokenRow(ids=each.ids, segments=each.type_ids if self._takes_segments else None)
            for each in encodings
        ]


class JudgedTexts:
    """Pairs for a language model that was trained to write its judgement, yes or no.

    Source of the form: Qwen3-Reranker's model card.
    """

    _TASK = "Given a web search query, retrieve relevant passages that answer the query"
    _BEFORE = (
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        'and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n"
    )
    _AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"

    def __init__(
        self, tokenizer: Tokenizer, entry: ModelEntry, *, limit: int, num_ids: int
    ) -> None:
        self._before = tokenizer.encode(self._BEFORE, add_special_tokens=False).ids
        self._after = tokenizer.encode(self._AFTER, add_special_tokens=False).ids
        room = limit - len(self._before) - len(self._after)
        if room < 1:
            raise EngineFailed(f"{limit} tokens are too few for what the model is asked.")
        self._texts = Texts(tokenizer, entry, limit=room, num_ids=num_ids)

    def rows(self, request: ScoreRequest) -> list[TokenRow]:
        asked = [
            f"<Instruct>: {self._TASK}\n<Query>: {query}\n<Document>: {document}"
            for query, document in pairs(request)
        ]
        encodings = self._texts.encode(
            asked,
            truncate=request.truncate,
            path=partial(_document, request),
            too_long=partial(self._texts.pair_too_long, request),
            adds_special=False,
        )
        return [TokenRow(ids=[*self._before, *each.ids, *self._after]) for each in encodings]


def pairs(request: ScoreRequest) -> list[tuple[str, str]]:
    queries = request.queries
    if len(queries) == 1:
        queries = queries * len(request.documents)
    return list(zip(queries, request.documents, strict=True))


def _document(request: ScoreRequest, index: int) -> str:
    return item_path(request.fields[1], index, len(request.documents))


def item_path(field: str, index: int, count: int) -> str:
    """What a client calls one of so many items."""
    return f"{field}[{index}]" if count > 1 else field


def token_id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    if found is None:
        raise EngineFailed(f"its vocabulary has no token {json.dumps(token)}")
    return int(found)
