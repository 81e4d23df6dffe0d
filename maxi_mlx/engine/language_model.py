"""A loaded language model: mlx-lm's model and tokenizer, and what we measured on them.

Made and used on the device thread; the tokenizer alone is also used by worker threads, one at a
time (`prompt.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.utils import load_config, load_model, load_tokenizer

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.models import ModelEntry
from maxi_mlx.engine.adapters import adapter_steps
from maxi_mlx.engine.batch_cache import can_batch
from maxi_mlx.engine.cache_form import CacheForm
from maxi_mlx.engine.grammar.compiler import GrammarCompiler
from maxi_mlx.engine.grammar.tokens import GrammarTokenizer, encoder_of
from maxi_mlx.engine.habits import Habits, read_habits
from maxi_mlx.engine.kv_cost import KVCost, measure
from maxi_mlx.engine.loading import Loading, Steps, finish, result_of
from maxi_mlx.engine.memory_need import num_heads
from maxi_mlx.engine.pass_cost import PassCost, measure_pass
from maxi_mlx.engine.read_ahead import evaluate_behind
from maxi_mlx.engine.vision.eyes import Eyes, SeeingFolder, make_eyes, seeing_folder
from maxi_mlx.kv_cache.layout import layout_of
from maxi_mlx.text.vocabulary import Vocabulary, piece_decoder, strips_first_space

# For a model that names no limit (a recurrent one): memory is the limit then.
UNLIMITED_CONTEXT = 1 << 20
_WEIGHT_FILES = "model*.safetensors"  # as mlx-lm has it

_SAMPLING_DEFAULTS: Mapping[str, Callable[[float], bool]] = {
    "temperature": lambda value: 0 <= value <= 2,
    "top_p": lambda value: 0 < value <= 1,
    "top_k": lambda value: 0 < value < 2**31 and value == int(value),
    "min_p": lambda value: 0 <= value <= 1,
    "repetition_penalty": lambda value: 0 < value <= 10,
}


@dataclass(slots=True, kw_only=True, eq=False)
class LanguageModel:
    """``vocabulary_size`` is the width of the logits, which is the bound for token ids."""

    entry: ModelEntry
    model: Any
    tokenizer: Any  # mlx-lm's TokenizerWrapper
    vocabulary: Vocabulary
    habits: Habits
    grammars: GrammarCompiler
    vocabulary_size: int
    context_length: int
    end_ids: frozenset[int]
    kv_cost: KVCost
    pass_cost: PassCost
    can_batch: bool
    keeps_states: bool  # some layers' caches can't be cut
    new_cache: Callable[[], list[Any]]  # the empty caches of one row
    sampling_defaults: Mapping[str, float]
    eyes: Eyes | None = None  # of a model that reads images
    # transformers' encode changes the tokenizer's own state for the time of a call.
    tokenizer_lock: Lock = field(default_factory=Lock)


def load_language_model(entry: ModelEntry, form: CacheForm) -> LanguageModel:
    """Loads a folder at once, with nobody else on the device."""
    return finish(language_model_steps(Loading(entry), form))


def language_model_steps(loading: Loading, form: CacheForm) -> Steps[LanguageModel]:
    """Loads a folder and runs it on one token, which measures it and compiles its kernels."""
    entry = loading.entry
    _check_files(entry.path)
    making_tokenizer = loading.begin(partial(_load_tokenizer, entry.path))
    seeing = yield from seeing_folder(loading)
    model = _unread_model(entry.path, seeing)
    yield None
    files = sorted(entry.path.glob(_WEIGHT_FILES))
    yield from evaluate_behind(loading, dict(tree_flatten(model.parameters())), files)
    if entry.adapter is not None:
        yield from adapter_steps(loading, model)
    cache = make_prompt_cache(model)
    vocabulary_size = int(_run_once(model, cache).shape[-1])
    yield None
    new_cache = form.maker(model, head_size=_head_size(cache))
    if not form.is_plain:
        cache = new_cache()
        _run_once(model, cache)
        yield None
    kv_cost = measure(cache)
    pass_cost = yield from measure_pass(
        model, cache, vocabulary_size=vocabulary_size, num_heads=num_heads(entry)
    )
    tokenizer = yield from result_of(making_tokenizer)
    texts = yield from loading.elsewhere(partial(_read_texts, entry, tokenizer, vocabulary_size))
    eyes = yield from make_eyes(loading, model, seeing)
    return LanguageModel(
        entry=entry,
        model=model,
        tokenizer=tokenizer,
        vocabulary=texts.vocabulary,
        habits=texts.habits,
        grammars=texts.grammars,
        vocabulary_size=vocabulary_size,
        context_length=entry.context_length or UNLIMITED_CONTEXT,
        end_ids=texts.end_ids,
        kv_cost=kv_cost,
        pass_cost=pass_cost,
        can_batch=can_batch(cache),
        keeps_states=layout_of(new_cache).has_states,
        new_cache=new_cache,
        sampling_defaults=_sampling_defaults(entry),
        eyes=eyes,
    )


def adapted_model_steps(
    loading: Loading, base: LanguageModel, form: CacheForm
) -> Steps[LanguageModel]:
    """The base's model a second time with an adapter over it: all arrays are the base's but for the
    adapter's own."""
    entry = loading.entry
    seeing = yield from seeing_folder(loading)
    model = _unread_model(entry.path, seeing)  # of its own weights nothing ever is
    model.update(base.model.parameters())
    yield None
    yield from adapter_steps(loading, model)
    cache = make_prompt_cache(model)
    _run_once(model, cache)
    yield None
    habits = yield from loading.elsewhere(partial(read_habits, entry, base.tokenizer))
    eyes = yield from make_eyes(loading, model, seeing)
    return replace(
        base,
        entry=entry,
        model=model,
        habits=habits,
        context_length=entry.context_length or UNLIMITED_CONTEXT,
        new_cache=form.maker(model, head_size=_head_size(cache)),
        sampling_defaults=_sampling_defaults(entry),
        eyes=eyes,
    )


def _unread_model(folder: Path, seeing: SeeingFolder | None) -> Any:
    classes = {} if seeing is None else {"get_model_classes": seeing.classes}
    return load_model(folder, lazy=True, **classes)[0]


def _load_tokenizer(folder: Path) -> Any:
    # Said outright, so that transformers refuses a tokenizer with code and asks nobody.
    settings = {"trust_remote_code": False}
    end_ids = load_config(folder).get("eos_token_id")
    return load_tokenizer(folder, settings, eos_token_ids=end_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """What is made of the tokenizer and of the folder's templates, without the model."""

    vocabulary: Vocabulary
    habits: Habits
    grammars: GrammarCompiler
    end_ids: frozenset[int]


def _read_texts(entry: ModelEntry, tokenizer: Any, vocabulary_size: int) -> _Texts:
    vocabulary = read_vocabulary(tokenizer, vocabulary_size)
    end_ids = frozenset(int(i) for i in tokenizer.eos_token_ids if i < vocabulary_size)

    def make_grammar_tokenizer() -> GrammarTokenizer:
        return GrammarTokenizer(
            vocabulary,
            size=vocabulary_size,
            end_ids=end_ids,
            encode=encoder_of(tokenizer._tokenizer),
        )

    return _Texts(
        vocabulary=vocabulary,
        habits=read_habits(entry, tokenizer),
        grammars=GrammarCompiler(make_grammar_tokenizer),
        end_ids=end_ids,
    )


def _check_files(folder: Path) -> None:
    """A pipe or a device in place of a file would hold the device thread for ever."""
    for path in folder.iterdir():
        if not path.is_file() and not path.is_dir():
            raise InvalidRequest(f"{folder.name} can't be loaded: {path.name} is no regular file.")


def _run_once(model: Any, cache: list[Any]) -> mx.array:
    # Token 0 is in every table; the model's own end may be named wrongly.
    logits: mx.array = model(mx.array([[0]]), cache=cache)
    mx.eval(logits, [layer.state for layer in cache])
    return logits


def _head_size(cache: Sequence[Any]) -> int | None:
    """How many values a key has, by a cache that holds one; None where none grows."""
    sizes = {int(entry.keys.shape[-1]) for entry in cache if type(entry) is KVCache}
    return min(sizes, default=None)


def read_vocabulary(tokenizer: Any, vocabulary_size: int) -> Vocabulary:
    """The bytes of every token that the model may draw, by the tokenizer's own decoder."""
    inner = getattr(tokenizer, "_tokenizer", tokenizer)
    backend = getattr(inner, "backend_tokenizer", None)
    decoder: Mapping[str, Any] | None = None
    if backend is not None and backend.decoder is not None:
        decoder = json.loads(backend.decoder.__getstate__())
    to_bytes = piece_decoder(decoder)
    # Ids may have holes, so that the count of them says nothing of the largest.
    num_ids = min(max(inner.get_vocab().values(), default=-1) + 1, vocabulary_size)
    pieces: Sequence[str | None] = inner.convert_ids_to_tokens(list(range(num_ids)))
    if to_bytes is None:
        data = [inner.decode([i]).encode("utf-8") for i in range(len(pieces))]
    else:
        data = [to_bytes(piece) if piece is not None else b"" for piece in pieces]
    special = set()
    for token_id, token in inner.added_tokens_decoder.items():
        if token_id < len(data):
            data[token_id] = token.content.encode("utf-8")
        if token.special:
            special.add(token_id)
    return Vocabulary(data, special_ids=special, strips_first_space=strips_first_space(decoder))


def _sampling_defaults(entry: ModelEntry) -> dict[str, float]:
    return read_sampling_defaults(entry.path) | dict(entry.settings.sampling)


def read_sampling_defaults(folder: Path) -> dict[str, float]:
    """What the model's authors recommend (generation_config.json), where they say anything.

    A value outside the range that a request may have is left out: some write -1 or 0 for "off".
    """
    path = folder / "generation_config.json"
    if not path.is_file():
        return {}
    config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        return {}
    if config.get("do_sample") is False:
        return {"temperature": 0.0}
    defaults = {}
    for name, is_allowed in _SAMPLING_DEFAULTS.items():
        value = config.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and is_allowed(value):
            defaults[name] = value
    return defaults
