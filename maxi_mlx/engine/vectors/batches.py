"""Which inputs share a batch: those of about one length, of whatever request, requests in turn.

A batch is as long as its longest input, and padding is computed like text. So inputs of other
lengths join until a batch's padding costs as much as another batch would, which is much on a GPU
that a small batch doesn't fill, and little on a CPU. Pure: knows nothing of the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

# Of the padding: what may be for the first request's own inputs, before those of others that are
# nearer to the batch's length.
_OWN_PART = 0.5
# A batch may have so many tokens, however short a slice is.
_LEAST_TOKENS = 32

# Whether so many inputs, as long as the longest, are still a batch: (inputs, tokens).
Fits = Callable[[int, int], bool]


class Inputs:
    """What is left to do of one request: places of inputs, by their lengths."""

    def __init__(self, lengths: Mapping[int, int]) -> None:
        """``lengths`` in tokens, by place."""
        self._places = sorted(lengths, key=lengths.__getitem__)
        self._lengths = [lengths[place] for place in self._places]

    def __len__(self) -> int:
        return len(self._places)

    @property
    def longest(self) -> int:
        return self._lengths[-1]

    def nearest(self, longest: int) -> int | None:
        """The length of the longest input that fits into a batch as long as that."""
        index = bisect_right(self._lengths, longest) - 1
        return self._lengths[index] if index >= 0 else None

    def take(self, longest: int) -> int:
        """That input."""
        index = bisect_right(self._lengths, longest) - 1
        self._lengths.pop(index)
        return self._places.pop(index)


def pick(requests: Sequence[Inputs], fits: Fits, *, most_padding: float) -> list[list[int]]:
    """Takes a batch out of the requests: of each the places of its inputs. ``most_padding`` is
    for all of them together.

    The first one's longest input is in it in any case and sets the length. Then come more of its
    own, and those of all that are the nearest in length.
    """
    taken: list[list[int]] = [[] for _ in requests]
    longest = requests[0].longest
    num_inputs = padding = 0
    for sharing, part in (((0,), _OWN_PART), (range(len(requests)), 1.0)):
        # By length, and of equal ones that of the request that is first in line.
        heads = [
            (longest - length, index)
            for index in sharing
            if (length := requests[index].nearest(longest)) is not None
        ]
        heapify(heads)
        while heads and (not num_inputs or fits(num_inputs + 1, longest)):
            shorter, index = heads[0]
            if padding + shorter > most_padding * part:
                break
            taken[index].append(requests[index].take(longest))
            num_inputs, padding = num_inputs + 1, padding + shorter
            length = requests[index].nearest(longest)
            if length is None:
                heappop(heads)
            else:
                heapreplace(heads, (longest - length, index))
    return taken


class BatchSize:
    """How much fits into so many seconds and into memory, learnt from what batches took.

    Seconds grow with the tokens, and a little more with long texts, whose tokens all look at each
    other. What a batch costs whatever it holds is counted as so many tokens more, which are where
    the line through what batches took begins.
    """

    _MOST_TOKENS = 16_384  # more fill no device better
    _FIRST_TOKENS = 256
    _MOST_GROWTH = 8  # times the largest batch so far
    _NEWS = 0.3

    def __init__(self, *, width: int, token_bytes: float = 0.0, pair_bytes: float = 0.0) -> None:
        self._width = width
        self._token_bytes = token_bytes
        self._pair_bytes = pair_bytes
        self._largest = float(self._FIRST_TOKENS) / self._MOST_GROWTH
        self._line = Line()
        self._token_s: float | None = None

    @property
    def fixed_tokens(self) -> float:
        """What a batch costs whatever it holds."""
        return self._line.fixed_tokens

    def memory_bytes(self, num_inputs: int, num_tokens: int) -> int:
        """What a batch takes beside the weights, while it is computed."""
        return int(num_inputs * num_tokens * (self._token_bytes + self._pair_bytes * num_tokens))

    def fits(self, slice_s: float, *, most_bytes: int) -> Fits:
        most = min(self._largest * self._MOST_GROWTH, self._MOST_TOKENS)
        if self._token_s is not None:
            most = min(most, slice_s / self._token_s - self.fixed_tokens)

        def fits(num_inputs: int, num_tokens: int) -> bool:
            if self._tokens(num_inputs, num_tokens) > max(most, _LEAST_TOKENS):
                return False
            return self.memory_bytes(num_inputs, num_tokens) <= most_bytes

        return fits

    def seconds(self, num_inputs: int, num_tokens: int) -> float:
        """What a batch is likely to take; nothing, before the first one."""
        return (self._token_s or 0.0) * (self._tokens(num_inputs, num_tokens) + self.fixed_tokens)

    def learn(self, num_inputs: int, num_tokens: int, seconds: float) -> None:
        """A batch so large, padded to so many tokens, took so long."""
        tokens = self._tokens(num_inputs, num_tokens)
        self._largest = max(self._largest, tokens)
        is_usual = self._token_s is not None and tokens >= self._line.mean_tokens / 2
        if is_usual and seconds < self.seconds(num_inputs, num_tokens) / 4:
            # The batches before compiled their kernels: a much faster one is the better guide.
            self._token_s = None
            self._line.forget()
        fixed_before = self.fixed_tokens
        self._line.learn(tokens, seconds)
        token_s = seconds / (tokens + self.fixed_tokens)
        known = self._token_s
        if known is None:
            self._token_s = token_s
        else:
            # What is known is of batches as large as they usually are.
            usual = self._line.mean_tokens
            known *= (usual + fixed_before) / (usual + self.fixed_tokens)
            self._token_s = known + (token_s - known) * self._NEWS

    def _tokens(self, num_inputs: int, num_tokens: int) -> float:
        # A token's layers cost 12 · width² products, a look at another token 2 · width.
        return num_inputs * num_tokens * (1 + num_tokens / (6 * self._width))


class Line:
    """A line through what batches took, by their tokens; old ones count less and less."""

    _FIRST = 64.0
    _LEAST, _MOST = 4.0, 2048.0
    _NEWS = 0.05
    # Of fewer batches, and of such as differ by less of their mean, the line could be any.
    _LEAST_BATCHES = 5
    _LEAST_SPREAD = 0.3

    def __init__(self) -> None:
        self.fixed_tokens = self._FIRST
        self.forget()

    def forget(self) -> None:
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    @property
    def mean_tokens(self) -> float:
        return self._x / self._weight

    def learn(self, tokens: float, seconds: float) -> None:
        keep = 1 - self._NEWS
        self._weight = self._weight * keep + 1
        self._x = self._x * keep + tokens
        self._y = self._y * keep + seconds
        self._xx = self._xx * keep + tokens * tokens
        self._xy = self._xy * keep + tokens * seconds
        mean_x, mean_y = self.mean_tokens, self._y / self._weight
        spread = self._xx / self._weight - mean_x * mean_x
        rise = self._xy / self._weight - mean_x * mean_y
        is_known = self._weight >= self._LEAST_BATCHES
        if is_known and spread > (self._LEAST_SPREAD * mean_x) ** 2:
            # Flat, where a batch takes no longer for what it holds.
            fixed = mean_y * spread / rise - mean_x if rise > 0 else self._MOST
            self.fixed_tokens = min(max(fixed, self._LEAST), self._MOST)
