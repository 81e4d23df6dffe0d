"""How many tokens of a prompt the device reads in so many seconds, learnt from what it did.

A slice of n tokens takes about a + b·n seconds: a fixed cost and one a token. Both are fitted,
since with the rate alone a model whose fixed cost exceeds the slice would get ever smaller slices,
each as slow as the last. Pure: no clock, no MLX.
"""

from __future__ import annotations

_FORGETTING = 0.8  # what a measurement still counts for when the next one comes
_FIRST_TOKENS = 32  # until anything is known
_SMALLEST_TOKENS = 8


class SliceSize:
    """One model's speed at reading prompts: exponentially weighted least squares over (n, s)."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._weight = 0.0
        self._tokens = 0.0
        self._seconds = 0.0
        self._tokens_squared = 0.0
        self._tokens_seconds = 0.0

    def learn(self, num_tokens: int, seconds: float) -> None:
        """One slice was read. Tiny ones say nothing."""
        if num_tokens < _SMALLEST_TOKENS:
            return
        if self._weight:
            fixed_s, per_token_s = self._fit()
            if seconds < (fixed_s + per_token_s * num_tokens) / 2:
                # What went before was no guide: the first pass compiles its kernels.
                self._forget()
        self._weight = self._weight * _FORGETTING + 1
        self._tokens = self._tokens * _FORGETTING + num_tokens
        self._seconds = self._seconds * _FORGETTING + seconds
        self._tokens_squared = self._tokens_squared * _FORGETTING + num_tokens**2
        self._tokens_seconds = self._tokens_seconds * _FORGETTING + num_tokens * seconds

    def tokens_for(self, slice_s: float, *, most_tokens: int) -> int:
        """The slice for so many seconds. Never so small that most of its time is fixed cost:
        a smaller one would take hardly less time."""
        if not self._weight:
            return min(_FIRST_TOKENS, most_tokens)
        fixed_s, per_token_s = self._fit()
        wanted = max((slice_s - fixed_s) / per_token_s, fixed_s / per_token_s)
        return max(min(int(wanted), most_tokens), min(_SMALLEST_TOKENS, most_tokens))

    def _fit(self) -> tuple[float, float]:
        """Seconds fixed and seconds a token, the second above 0."""
        mean_tokens = self._tokens / self._weight
        mean_s = self._seconds / self._weight
        variance = self._tokens_squared / self._weight - mean_tokens**2
        covariance = self._tokens_seconds / self._weight - mean_tokens * mean_s
        # Slices all of one size tell nothing of the two parts.
        if variance > (0.05 * mean_tokens) ** 2 and covariance > 0:
            per_token_s = covariance / variance
            fixed_s = mean_s - per_token_s * mean_tokens
            if fixed_s >= 0:
                return fixed_s, per_token_s
        return 0.0, mean_s / mean_tokens
