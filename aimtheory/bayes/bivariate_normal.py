"""Orthant probability of two standard normals, accurate in the tails and at any correlation, and its derivatives."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtr

from aimtheory.errors import InputError
from aimtheory.spectra.band_quadrature import gauss_legendre
from aimtheory.spectra.law import FloatArray

_TAIL_NODES, _ARC_NODES, _PANEL_NODES = 40, 20, 24
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_SMOOTH = 0.7
"""Largest |c| for the two fixed rules: beyond, their integrands turn within sqrt(1 - c^2), which takes panels."""

_FALL = 45.0
"""An integrand that has fallen by exp(-45) below its largest value is left out."""

_CERTAIN = 9.0
"""Above it a standard normal lies with probability 1e-19."""

_TURN = np.array([-7.0, -3.0, 0.0, 3.0, 7.0])
"""Where the panels split the turn of a normal distribution function, in its standard deviations."""


def log_orthant(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``log Phi_2(h, k; c) = log P(X <= h, Y <= k)`` at any -1 < c < 1; relative error of Phi_2 about 1e-13.

    With m <= M the two arguments and t^2 = 1 - c^2, ``Phi_2 = int_0^inf phi(m - s) Phi((M - c m + c s)/t) ds``: a sum
    of positive terms in every tail: no difference cancels. For |c| <= 0.7 one Gauss rule serves m < 0, and
    Plackett's integral over the correlation (the integral behind Owen's T) m >= 0. Nearer to |c| = 1 the integrand,
    whose logarithm is concave, is cut where it has died and divided into panels at its top and at its turn of width t.
    (Relative to what the arguments say: an error of one unit in the last place of h moves log Phi_2 by h^2 of them.)

    Raises ``InputError`` for |c| >= 1, where the law is degenerate, and for NaN; infinite arguments are limits.

    >>> round(float(np.exp(log_orthant(0.0, 0.0, 1 / 3))), 12)      # 1/4 + asin(1/3) / (2 pi)
    0.304086723985
    >>> round(float(np.exp(log_orthant(-1.0, -1.0, 0.999))), 12)
    0.154338195935
    """
    c = _check_correlation(correlation)
    h, k = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    if np.any(np.isnan(h)) or np.any(np.isnan(k)):
        raise InputError("an argument of the orthant probability is NaN; give numbers, or infinity for a limit")
    low, high = np.minimum(h, k), np.maximum(h, k)
    result = np.full(h.shape, -np.inf)
    alone = np.isposinf(high)
    result[alone] = log_ndtr(low[alone])
    near_one = ~alone & (low > _CERTAIN)
    result[near_one] = -ndtr(-low[near_one]) - ndtr(-high[near_one])
    open_ = ~alone & ~near_one & np.isfinite(low)
    if abs(c) > _SMOOTH:
        result[open_] = _panels(low[open_], high[open_], c)
        return result
    tail = open_ & (low < 0)
    result[tail] = _tail(low[tail], high[tail], c)
    central = open_ & (low >= 0)
    result[central] = np.log(_central(low[central], high[central], c))
    return result


def orthant(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``Phi_2(h, k; c)``: the exponential of :func:`log_orthant`.

    >>> round(float(orthant(0.3, 0.31, 1 - 1e-9)), 9)
    0.617911422
    """
    return np.exp(log_orthant(first, second, correlation))


def log_orthant_derivative(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``log d Phi_2/dh = log phi(h) + log Phi((k - c h)/sqrt(1 - c^2))``; refused as :func:`log_orthant` for |c| >= 1.

    >>> round(float(log_orthant_derivative(0.0, 0.0, 0.5)), 12)          # log(1/(2 sqrt(2 pi)))
    -1.612085713765
    """
    c = _check_correlation(correlation)
    h, k = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return np.asarray(-0.5 * h**2 - _HALF_LOG_TWO_PI + log_ndtr(_offset(h, k, c) / _root(c)))


def _check_correlation(correlation: float) -> float:
    c = float(correlation)
    if not abs(c) < 1:
        raise InputError(f"correlation = {correlation} must lie strictly between -1 and 1")
    return c


def _root(c: float) -> float:
    """``sqrt(1 - c^2)``, with its digits near |c| = 1."""
    return math.sqrt((1 - c) * (1 + c))


def _offset(h: FloatArray, k: FloatArray, c: float) -> FloatArray:
    """``k - c h`` as a difference of the arguments and a small multiple of one."""
    return (k - h) + (1 - c) * h if c > 0 else (k + h) - (1 + c) * h


def _panels(low: FloatArray, high: FloatArray, c: float) -> FloatArray:
    """By Gauss panels on the interval where the integrand lives; low <= 9."""
    t = _root(c)
    level, slope = _offset(low, high, c) / t, c / t

    def log_integrand(s: FloatArray) -> FloatArray:
        shape = (...,) + (None,) * (s.ndim - low.ndim)
        return np.asarray(s * (low[shape] - 0.5 * s) + log_ndtr(level[shape] + slope * s))

    def rises(s: FloatArray) -> FloatArray:
        hazard = math.sqrt(2 / math.pi) / erfcx(-(level + slope * s) / math.sqrt(2))
        return np.asarray(low - s + slope * hazard > 0)

    # Above 0 the hazard is below 0.8, below 0 it is at most 0.8 + |z|.
    reach = np.maximum(low, 0) + max(slope, 0.0) * (0.8 + np.maximum(-level, 0)) + 1e-3
    top = _bisect(rises, np.zeros(low.shape), reach)
    peak = log_integrand(top)
    # The curvature is at most -1: within sqrt(90) of the top the integrand has fallen far enough.
    width = np.full(low.shape, math.sqrt(2 * _FALL))
    right = top + _bisect(lambda s: log_integrand(top + s) > peak - _FALL, np.zeros(low.shape), width)
    left_reach = np.minimum(width, top)
    left = top - _bisect(lambda s: log_integrand(top - s) > peak - _FALL, np.zeros(low.shape), left_reach)
    turn = (_TURN - level[..., None]) / slope
    marks = np.concatenate([left[..., None], top[..., None], right[..., None], turn], axis=-1)
    marks = np.sort(np.clip(marks, left[..., None], right[..., None]), axis=-1)
    nodes, weights = gauss_legendre(_PANEL_NODES)
    total = np.zeros(low.shape)
    for start, end in zip(np.moveaxis(marks, -1, 0)[:-1], np.moveaxis(marks, -1, 0)[1:], strict=True):
        s = start[..., None] + (end - start)[..., None] * nodes
        total += (end - start) * (np.exp(log_integrand(s) - peak[..., None]) @ weights)
    return np.asarray(np.log(total) + peak - 0.5 * low**2 - _HALF_LOG_TWO_PI)


def _bisect(condition: object, low: FloatArray, high: FloatArray) -> FloatArray:
    """The end of the interval from ``low`` on which a condition holds, or ``high``."""
    for _ in range(90):
        middle = 0.5 * (low + high)
        holds = condition(middle)  # type: ignore[operator]
        low, high = np.where(holds, middle, low), np.where(holds, high, middle)
    return high


def _tail(low: FloatArray, high: FloatArray, c: float) -> FloatArray:
    nodes, weights = gauss_legendre(_TAIL_NODES)
    t = _root(c)
    # Beyond this length exp(m s - s^2/2) is below exp(-40).
    length = 80 / (-low + np.sqrt(low**2 + 80))
    total = np.zeros(low.shape)
    offset = high - c * low
    for node, weight in zip(nodes, weights, strict=True):
        s = length * node
        total += weight * np.exp(low * s - 0.5 * s * s) * ndtr((offset + c * s) / t)
    lost = total < 1e-290
    with np.errstate(divide="ignore"):
        log_total = np.log(total)
    if np.any(lost):
        s = length[lost, None] * nodes
        terms = low[lost, None] * s - 0.5 * s * s + log_ndtr((offset[lost, None] + c * s) / t) + np.log(weights)
        top = terms.max(axis=-1)
        log_total[lost] = top + np.log(np.exp(terms - top[:, None]).sum(axis=-1))
    return np.asarray(log_total + np.log(length) - 0.5 * low**2 - _HALF_LOG_TWO_PI)


def _central(h: FloatArray, k: FloatArray, c: float) -> FloatArray:
    nodes, weights = gauss_legendre(_ARC_NODES)
    arc = math.asin(c)
    total = np.zeros(h.shape)
    squares, product = h**2 + k**2, 2 * h * k
    for node, weight in zip(nodes, weights, strict=True):
        sine = math.sin(arc * node)
        total += weight * np.exp(-(squares - product * sine) / (2 * (1 - sine * sine)))
    return np.asarray(ndtr(h) * ndtr(k) + total * arc / (2 * math.pi))


__all__ = ["log_orthant", "log_orthant_derivative", "orthant"]
