"""How many rows of each length a softmax has, as the generating function S(x) = Σ_rows x^{length − 1}.

A row of ℓ tokens enters an average over its tokens through powers of what one token adds: Λ^{ℓ−1} beside the row's own
token, and (ℓ−1)Λ^{ℓ−2} where one other token is singled out. With S the sum over all rows is S(Λ) and S'(Λ): L equal
rows and the L different rows of a causal mask cost the same. Rows of one token have the constant softmax 1 and are
counted apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError

FloatArray = NDArray[np.float64]

_SERIES_TERMS = 24


@dataclass(frozen=True)
class RowLengths:
    """``tokens`` rows: all of length ``tokens``, or of lengths 1, 2, …, ``tokens`` under a causal mask.

    >>> RowLengths(3).generating(np.array([0.5]))[0]  # 3 x² at x = 1/2
    array([0.75])
    >>> RowLengths(3, causal=True).generating(np.array([0.5]))[0]  # x + x²
    array([0.75])
    """

    tokens: int
    causal: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, (int, np.integer)) or self.tokens < 1:
            raise InputError(f"tokens = {self.tokens!r} must be an integer >= 1")

    @property
    def constant_rows(self) -> int:
        """Rows of one token."""
        return 1 if self.causal or self.tokens == 1 else 0

    @property
    def rows(self) -> int:
        """Rows of two tokens and more, S(1)."""
        return self.tokens - self.constant_rows

    @property
    def shortest(self) -> int:
        """The least length of two and more."""
        return 2 if self.causal else self.tokens

    def generating(self, missing: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """S, S', S'' at x = 1 − missing, rows of one token left out; accurate where x^L matters, near x = 1."""
        n = self.tokens - 1
        x = 1.0 - missing
        if self.causal:
            return self._geometric(missing, x)
        if n <= 3:
            one, zero = np.ones_like(x), np.zeros_like(x)
            powers = [x**k if k > 0 else one for k in (n, n - 1, n - 2)]
            first = self.tokens * n * powers[1]
            second = self.tokens * n * (n - 1) * powers[2] if n > 1 else zero
            return self.tokens * powers[0], first, second
        lowest = _power(missing, n - 2)
        middle = lowest * x
        return self.tokens * middle * x, self.tokens * n * middle, self.tokens * n * (n - 1) * lowest

    def _geometric(self, w: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σ_{k=1}^n x^k and derivatives: closed where n(1 − x) > 1, a Taylor series in 1 − x elsewhere."""
        n = self.tokens - 1
        if n == 0:
            return np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        near = n * w <= 1.0
        small = np.where(near, w, 0.0)
        large = np.where(near, 1.0, w)
        series = []
        for order in range(3):
            total, term = np.zeros_like(x), np.ones_like(x)
            for j in range(order, min(n, order + _SERIES_TERMS) + 1):
                total += math.comb(n + 1, j + 1) * math.perm(j, order) * term
                term = term * -small
            series.append(total)
        power = _power(large, n - 1)
        y = 1.0 - large
        closed = [
            (y - power * y * y) / large,
            (1.0 - power * y * (1.0 + n * large)) / large**2,
            (2.0 - power * (2.0 * y * y + 2.0 * (n + 1) * y * large + n * (n + 1) * large**2)) / large**3,
        ]
        # S leaves out the row of one token, the term k = 0 of the series.
        series[0] = series[0] - 1.0
        return tuple(np.where(near, s, c) for s, c in zip(series, closed, strict=True))  # type: ignore[return-value]


def _power(missing: FloatArray, exponent: int) -> FloatArray:
    """(1 − missing)^exponent, zero where negligible: subnormal numbers would be slow, and count for nothing."""
    with np.errstate(divide="ignore"):
        logarithm = exponent * np.log1p(-np.minimum(missing, 1.0)) if exponent else np.zeros_like(missing)
    result = np.exp(np.maximum(logarithm, -100.0))
    result[logarithm <= -100.0] = 0.0
    return np.asarray(result)


__all__ = ["RowLengths"]
