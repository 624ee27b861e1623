"""Orthant probability of two standard normals, accurate in the tails, and its derivatives."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from aimtheory.errors import InputError
from aimtheory.spectra.band_quadrature import gauss_legendre
from aimtheory.spectra.law import FloatArray

_TAIL_NODES, _ARC_NODES = 40, 20
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def log_orthant(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``log Phi_2(h, k; c) = log P(X <= h, Y <= k)``, relative error of Phi_2 about 1e-13 for |c| <= 0.9, any tail.

    Where the smaller argument m is negative, ``Phi_2 = phi(m) int_0^inf exp(m s - s^2/2) Phi((M - c m + c s)/t) ds``,
    t^2 = 1 - c^2: a sum of positive terms, no difference that could cancel. Elsewhere Plackett's integral over the
    correlation (the integral behind Owen's T).

    >>> round(float(np.exp(log_orthant(0.0, 0.0, 1 / 3))), 12)      # 1/4 + asin(1/3) / (2 pi)
    0.304086723985
    """
    c = float(correlation)
    if not abs(c) < 1:
        raise InputError(f"correlation = {correlation} must lie strictly between -1 and 1")
    h, k = np.broadcast_arrays(np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64))
    low, high = np.minimum(h, k), np.maximum(h, k)
    result = np.empty(h.shape)
    tail = low < 0
    result[tail] = _tail(low[tail], high[tail], c)
    result[~tail] = np.log(_central(low[~tail], high[~tail], c))
    return result


def orthant(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``Phi_2(h, k; c)``: the exponential of :func:`log_orthant`."""
    return np.exp(log_orthant(first, second, correlation))


def log_orthant_derivative(first: ArrayLike, second: ArrayLike, correlation: float) -> FloatArray:
    """``log d Phi_2/dh = log phi(h) + log Phi((k - c h)/sqrt(1 - c^2))``."""
    h, k = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    t = math.sqrt(1 - correlation**2)
    return np.asarray(-0.5 * h**2 - _HALF_LOG_TWO_PI + log_ndtr((k - correlation * h) / t))


def _tail(low: FloatArray, high: FloatArray, c: float) -> FloatArray:
    nodes, weights = gauss_legendre(_TAIL_NODES)
    t = math.sqrt(1 - c * c)
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
