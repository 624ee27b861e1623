"""Noise by name: Gaussian on the forms before the non-linearity, Gaussian on the outputs after it, flipped labels.

``noise`` is the variance Delta_ab of independent Gaussian noise on every form h_ab, a number for all pairs or a
symmetric (T, T) matrix; ``matrix_noise`` adds ``Delta (1 + delta_ab)``, the noise of a fresh GOE matrix of that
variance in S at every sample, which has the law of the forms themselves and acts like a larger V. ``flips`` is the
probability that a label is replaced by one of the others, all alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.bayes.token_pairs import pair_multiplicity, token_pairs
from aimtheory.errors import InputError


def pair_variances(noise: ArrayLike, matrix_noise: float, tokens: int) -> tuple[float, ...]:
    """``Delta_ab`` over the pairs a <= b; ``InputError`` for a variance that is negative or not finite.

    >>> pair_variances(0.5, 1.0, 2)
    (2.5, 1.5, 2.5)
    """
    values = _variances(noise, "noise")
    common = _variances(matrix_noise, "matrix_noise")
    if common.ndim:
        raise InputError(f"matrix_noise must be one variance; got an array of shape {common.shape}")
    if values.ndim == 0:
        flat = np.full(tokens * (tokens + 1) // 2, float(values))
    elif values.shape == (tokens, tokens):
        if not np.array_equal(values, values.T):
            raise InputError("the noise variances must be a symmetric matrix: h_ab = h_ba is observed once")
        flat = np.array([values[a, b] for a, b in token_pairs(tokens)])
    else:
        raise InputError(f"noise must be a number or a ({tokens}, {tokens}) matrix; got shape {values.shape}")
    return tuple((flat + float(common) * pair_multiplicity(tokens)).tolist())


def _variances(value: ArrayLike, name: str) -> np.ndarray:
    values = real_array(value, name)
    if np.any(values < 0):
        raise InputError(f"{name} variance {values[values < 0].ravel()[0]} must be >= 0")
    return values


def flip_probability(flips: float, labels: int) -> float:
    """A probability in [0, (L-1)/L) for L labels, else ``InputError``: at its end the label says nothing."""
    value = real_array(flips, "flips")
    most = (labels - 1) / labels
    if value.ndim or not 0 <= float(value) < most:
        raise InputError(f"flips = {flips!r} must be one probability in [0, {most:.6g}); there the labels say nothing")
    return float(value)


__all__ = ["flip_probability", "pair_variances"]
