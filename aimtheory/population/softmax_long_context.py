"""Softmax attention of very many tokens at fixed order parameters: the leading terms in 1/L ("ours").

With weights x_j = e^{g_j − a/2} of mean 1, the sums over a row concentrate, Σ_j x_j = L(1 + O(L^{-1/2})), and attention
is spread: σ_j ≈ x_j/L. Expanding the ratio in the fluctuations of the sums, for pairs (g, h) of covariance Q = [[a, c],
[c, b]] off the row's own token and D, m at it,

    L E Σ_j σ_j(g)σ_j(h) = p + [P + p(e^a + e^b + p − p e^a − p e^b − X − Y)]/L + O(L^{-2}),    p = e^c,

with the own token's X = exp((D_11 − a)/2 + m_1), Y likewise and P = XY e^{D_12}; and

    E log Σ_j e^{g_j} = log L + a/2 + [X − ½ − e^a/2]/L + O(L^{-2}).

The expansion needs e^a ≪ L: near a = 2 log L attention condenses on few tokens, and every term is as large as the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class LongContext:
    """``leading`` + ``correction``/L + ``logarithm`` log L, up to O(1/L²)."""

    leading: float
    correction: float
    logarithm: float = 0.0

    def at(self, tokens: int) -> float:
        """The two terms at L tokens.

        >>> LongContext(2.0, 10.0).at(100)
        2.1
        """
        if isinstance(tokens, bool) or not isinstance(tokens, (int, np.integer)) or tokens < 1:
            raise InputError(f"tokens = {tokens!r} must be an integer >= 1")
        return self.leading + self.correction / tokens + self.logarithm * math.log(tokens)


def long_context_overlap(off: ArrayLike, own: ArrayLike, mean: ArrayLike = (0.0, 0.0)) -> LongContext:
    """L E Σ_j σ_j(g)σ_j(h) of one row, Q = ``off`` and D = ``own`` (2, 2), to first order in 1/L.

    >>> long_context_overlap(np.zeros((2, 2)), np.zeros((2, 2)))
    LongContext(leading=1.0, correction=0.0, logarithm=0.0)
    """
    q, d, m = _checked(off, own, mean)
    a, b, c = q.item(0), q.item(3), q.item(1)
    p, x, y = math.exp(c), math.exp((d.item(0) - a) / 2 + m.item(0)), math.exp((d.item(3) - b) / 2 + m.item(1))
    both = x * y * math.exp(d.item(1))
    correction = both + p * (math.exp(a) + math.exp(b) + p - p * math.exp(a) - p * math.exp(b) - x - y)
    return LongContext(p, correction)


def long_context_squared_error(off: ArrayLike, own: ArrayLike, mean: ArrayLike = (0.0, 0.0)) -> LongContext:
    """½ Σ_rows E|σ(g) − σ(h)|² over L rows: (e^a + e^b)/2 − e^c at leading order, a loss that does not grow with L.

    Its derivative by the shared variable q_12 is −e^{q_12}: the speed of learning does not grow with L either.

    >>> q = np.array([[1.5, 0.7], [0.7, 2.0]])
    >>> round(long_context_squared_error(q, 2 * q).leading, 6)
    3.92162
    """
    q, d, m = _checked(off, own, mean)
    cross = long_context_overlap(q, d, m)
    same = [
        long_context_overlap(np.full((2, 2), q[k, k]), np.full((2, 2), d[k, k]), np.full(2, m[k])) for k in range(2)
    ]
    return LongContext(
        0.5 * (same[0].leading + same[1].leading) - cross.leading,
        0.5 * (same[0].correction + same[1].correction) - cross.correction,
    )


def long_context_cross_entropy(off: ArrayLike, own: ArrayLike, mean: ArrayLike = (0.0, 0.0)) -> LongContext:
    """−E Σ_j σ_j(h) log σ_j(g) of one row, student g and teacher h, to first order in 1/L.

    >>> long_context_cross_entropy(np.zeros((2, 2)), np.zeros((2, 2)))
    LongContext(leading=0.0, correction=0.0, logarithm=1.0)
    """
    q, d, m = _checked(off, own, mean)
    a, b, c = q.item(0), q.item(3), q.item(1)
    x, y = math.exp((d.item(0) - a) / 2 + m.item(0)), math.exp((d.item(3) - b) / 2 + m.item(1))
    correction = x - 0.5 - 0.5 * math.exp(a) + c * (y + math.exp(b)) - (d.item(1) + m.item(0)) * y
    return LongContext(a / 2 - c, correction, 1.0)


def _checked(off: ArrayLike, own: ArrayLike, mean: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    arrays = [np.asarray(value, dtype=np.float64) for value in (off, own, mean)]
    for name, array, shape in zip(("off", "own", "mean"), arrays, ((2, 2), (2, 2), (2,)), strict=True):
        if array.shape != shape or not np.isfinite(array).all():
            raise InputError(f"{name} = {array.tolist()} must be a finite array of shape {shape}")
    return arrays[0], arrays[1], arrays[2]


__all__ = ["LongContext", "long_context_cross_entropy", "long_context_overlap", "long_context_squared_error"]
