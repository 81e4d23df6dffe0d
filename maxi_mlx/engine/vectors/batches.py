"""Which inputs share a batch: those of about one length, of whatever request, requests in turn.

A batch is as long as its longest input, and padding is computed like text. Pure: knows nothing of
the device.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

# An input joins longer ones if it is at least this part of the longest. Very short ones join
# anyway: their padding costs less than a batch of their own.
_LEAST_PART = 0.6
_SHORT_TOKENS = 32

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

    def take(self, *, longest: int) -> int | None:
        """The longest input that may share a batch as long as that."""
        index = bisect_right(self._lengths, longest) - 1
        if index < 0 or not _may_share(self._lengths[index], longest):
            return None
        self._lengths.pop(index)
        return self._places.pop(index)


def _may_share(num_tokens: int, longest: int) -> bool:
    return longest <= _SHORT_TOKENS or num_tokens >= longest * _LEAST_PART


def pick(requests: Sequence[Inputs], fits: Fits) -> list[list[int]]:
    """Takes a batch out of the requests: of each the places of its inputs.

    The first one's longest input is in it in any case and sets the length. What the first one
    leaves free goes to the others, one input each in turn.
    """
    taken: list[list[int]] = [[] for _ in requests]
    longest = requests[0].longest
    num_inputs = 0
    for sharing in ((0,), range(1, len(requests))):
        open_ones = list(sharing)
        while open_ones:
            for index in list(open_ones):
                if num_inputs and not fits(num_inputs + 1, longest):
                    return taken
                place = requests[index].take(longest=longest)
                if place is None:
                    open_ones.remove(index)
                else:
                    taken[index].append(place)
                    num_inputs += 1
    return taken


class BatchSize:
    """How much fits into so many seconds and into memory, learnt from what batches took.

    Seconds grow with the tokens, and a little more with long texts, whose tokens all look at each
    other; what a batch costs whatever it holds is counted as so many tokens more.
    """

    _FIXED_TOKENS = 64
    _MOST_TOKENS = 16_384  # more fill no device better
    _FIRST_TOKENS = 256
    _MOST_GROWTH = 8  # times the largest batch so far
    _NEWS = 0.3

    def __init__(self, *, width: int, token_bytes: float = 0.0, pair_bytes: float = 0.0) -> None:
        self._width = width
        self._token_bytes = token_bytes
        self._pair_bytes = pair_bytes
        self._largest = float(self._FIRST_TOKENS) / self._MOST_GROWTH
        self._token_s: float | None = None

    def memory_bytes(self, num_inputs: int, num_tokens: int) -> int:
        """What a batch takes beside the weights, while it is computed."""
        return int(num_inputs * num_tokens * (self._token_bytes + self._pair_bytes * num_tokens))

    def fits(self, slice_s: float, *, most_bytes: int) -> Fits:
        most = min(self._largest * self._MOST_GROWTH, self._MOST_TOKENS)
        if self._token_s is not None:
            most = min(most, slice_s / self._token_s - self._FIXED_TOKENS)

        def fits(num_inputs: int, num_tokens: int) -> bool:
            if self._tokens(num_inputs, num_tokens) > max(most, self._FIXED_TOKENS):
                return False
            return self.memory_bytes(num_inputs, num_tokens) <= most_bytes

        return fits

    def learn(self, num_inputs: int, num_tokens: int, seconds: float) -> None:
        """A batch so large, padded to so many tokens, took so long."""
        tokens = self._tokens(num_inputs, num_tokens)
        self._largest = max(self._largest, tokens)
        token_s = seconds / (tokens + self._FIXED_TOKENS)
        known = self._token_s
        # The first batch may have compiled its kernels: a much faster one is the better guide.
        is_guide = known is not None and token_s > known / 4
        self._token_s = known + (token_s - known) * self._NEWS if known and is_guide else token_s

    def _tokens(self, num_inputs: int, num_tokens: int) -> float:
        # A token's layers cost 12 · width² products, a look at another token 2 · width.
        return num_inputs * num_tokens * (1 + num_tokens / (6 * self._width))
