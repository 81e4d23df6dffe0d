"""When each word was spoken, by what the decoder's attention follows in the sound.

Some heads of the decoder look, at each token, at the moment where it is heard. The cheapest way
through their attention, token by token and forward in time, is the alignment (dynamic time warping,
Sakoe and Chiba 1978). Runs on the device thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from maxi_mlx.engine.speech.segments import FRAMES_PER_STEP, STEP_S
from maxi_mlx.engine.speech.speech_model import SpeechModel
from maxi_mlx.engine.speech.voice import Flags
from maxi_mlx.engine.speech.window import Steps

_MEDIAN_REACH = 3  # of seven values along the time
# What surrounds a word belongs to it.
_OPENING = "\"'“¿([{-「『"
_CLOSING = "\"'.。,，!！?？:：;；”)]}、」』…"
_LONGEST_MEDIAN_S = 0.7


@dataclass(frozen=True, slots=True)
class HeardWord:
    """``text`` as the tokenizer has it, mostly with a space in front; seconds in the window."""

    text: str
    num_tokens: int
    start_s: float
    end_s: float


def align(
    speech: SpeechModel,
    encoded: mx.array,
    tokenizer: Any,
    text_tokens: Sequence[int],
    *,
    voiced: Flags,
) -> Steps[list[HeardWord]]:
    """The words of a window's text. ``voiced`` has a flag for each frame that the text covers."""
    num_steps = len(voiced) // FRAMES_PER_STEP
    if not text_tokens or not num_steps:
        return []
    before = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
    tokens = [*before, *text_tokens, tokenizer.eot]
    _, _, attention = speech.model.decoder(mx.array([tokens]), encoded)
    heads = mx.stack([attention[layer][0, head] for layer, head in speech.alignment_heads])
    costs = -np.array(_followed(heads[:, :, :num_steps])).astype(np.float64)
    yield
    # What is attended to where nobody speaks tells nothing.
    by_step = voiced[: num_steps * FRAMES_PER_STEP].reshape(-1, FRAMES_PER_STEP)
    is_heard: Flags = np.logical_or.reduce(by_step, axis=1)
    costs[:, ~is_heard] = 0.0
    # What is attended to while a token is read tells of the token that comes next.
    starts = _first_steps(costs[len(before) - 1 : -1])
    words, groups = tokenizer.split_to_word_tokens([*text_tokens, tokenizer.eot])
    heard = []
    place = 0
    for word, group in zip(words[:-1], groups[:-1], strict=True):
        end = place + len(group)
        first, last = _heard_part(is_heard, starts[place], starts[end])
        heard.append(HeardWord(word, len(group), first * STEP_S, last * STEP_S))
        place = end
    return _without_long_words(_with_punctuation(heard))


def _heard_part(is_heard: Flags, start: int, end: int) -> tuple[int, int]:
    """What a word's steps are without the silence before and after it; all of them where that
    leaves nothing."""
    steps = np.flatnonzero(is_heard[start:end])
    return (start + int(steps[0]), start + int(steps[-1]) + 1) if len(steps) else (start, end)


def _followed(heads: mx.array) -> mx.array:
    """How much each token's heads follow each moment, beyond what is usual there. Shape (tokens,
    steps) of (heads, tokens, steps)."""
    weights = mx.softmax(heads.astype(mx.float32), axis=-1, precise=True)
    mean = mx.mean(weights, axis=-2, keepdims=True)
    spread = mx.sqrt(mx.var(weights, axis=-2, keepdims=True))
    return mx.mean(_median((weights - mean) / (spread + 1e-9)), axis=0)


def _median(values: mx.array) -> mx.array:
    """Of each value and its three neighbours on both sides, along the last axis."""
    length = values.shape[-1]
    if length <= _MEDIAN_REACH:
        return values
    # What is beyond an end is its mirror image.
    places = np.abs(np.arange(-_MEDIAN_REACH, length + _MEDIAN_REACH))
    places = np.minimum(places, 2 * (length - 1) - places)
    padded = mx.take(values, mx.array(places), axis=-1)
    size = 2 * _MEDIAN_REACH + 1
    columns = [padded[..., shift : shift + length] for shift in range(size)]
    # Bubbling the largest up, four times: what is on top then is the median.
    for top in range(size - 1, _MEDIAN_REACH - 1, -1):
        for low in range(top):
            smaller = mx.minimum(columns[low], columns[low + 1])
            columns[low + 1] = mx.maximum(columns[low], columns[low + 1])
            columns[low] = smaller
    return columns[_MEDIAN_REACH]


def _first_steps(costs: NDArray[np.float64]) -> list[int]:
    """The step at which the cheapest way reaches each row."""
    rows, _ = costs.shape
    came_from = _ways(costs)
    row, step = costs.shape
    first = [0] * rows
    while row > 0 and step > 0:
        first[row - 1] = step - 1
        way = came_from[row, step]
        if way != _FROM_EARLIER_STEP:
            row -= 1
        if way != _FROM_ROW_BEFORE:
            step -= 1
    return first


_FROM_BOTH, _FROM_ROW_BEFORE, _FROM_EARLIER_STEP = 0, 1, 2


def _ways(costs: NDArray[np.float64]) -> NDArray[np.int8]:
    """Where the cheapest way to each cell comes from. All cells of a falling diagonal depend on the
    two diagonals before it alone, so that each is one step of numpy."""
    rows, steps = costs.shape
    came_from = np.full((rows + 1, steps + 1), _FROM_EARLIER_STEP, np.int8)
    came_from[1:, 0] = _FROM_ROW_BEFORE
    # By row; entry 0 stands for what is before the first row.
    last = np.full(rows + 1, np.inf)  # the diagonal before
    second_last = last.copy()
    second_last[0] = 0.0  # the corner where every way begins
    for diagonal in range(2, rows + steps + 1):
        i = np.arange(max(1, diagonal - steps), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, row_before, earlier = second_last[i - 1], last[i - 1], last[i]
        way = np.where(
            (both < row_before) & (both < earlier),
            _FROM_BOTH,
            np.where((row_before < both) & (row_before < earlier), _FROM_ROW_BEFORE, 2),
        )
        came_from[i, j] = way
        now = np.full(rows + 1, np.inf)
        now[i] = costs[i - 1, j - 1] + np.minimum(np.minimum(both, row_before), earlier)
        last, second_last = now, last
    return came_from


def _with_punctuation(words: list[HeardWord]) -> list[HeardWord]:
    """Signs join the word that they open or close."""
    joined: list[HeardWord] = []
    opening: HeardWord | None = None
    for word in words:
        if opening is not None:
            word = _joined(opening, word, start_s=word.start_s, end_s=word.end_s)
            opening = None
        sign = word.text.strip()
        if word.text.startswith(" ") and sign and all(char in _OPENING for char in sign):
            opening = word
        elif joined and not word.text.startswith(" ") and sign and sign in _CLOSING:
            last = joined.pop()
            joined.append(_joined(last, word, start_s=last.start_s, end_s=last.end_s))
        else:
            joined.append(word)
    if opening is not None:
        joined.append(opening)
    return joined


def _joined(first: HeardWord, second: HeardWord, *, start_s: float, end_s: float) -> HeardWord:
    return HeardWord(first.text + second.text, first.num_tokens + second.num_tokens, start_s, end_s)


def _without_long_words(words: list[HeardWord]) -> list[HeardWord]:
    """A word that seems to last more than twice as long as is usual began after a pause, or ended
    before one."""
    lengths = [word.end_s - word.start_s for word in words if word.end_s > word.start_s]
    if not lengths:
        return words
    longest_s = 2 * min(_LONGEST_MEDIAN_S, float(np.median(lengths)))
    shortened = []
    for word in words:
        start_s, end_s = word.start_s, word.end_s
        if end_s - start_s > longest_s:
            if word.text.rstrip()[-1:] in ".。!！?？":
                end_s = start_s + longest_s
            else:
                start_s = end_s - longest_s
        shortened.append(HeardWord(word.text, word.num_tokens, start_s, end_s))
    return shortened
