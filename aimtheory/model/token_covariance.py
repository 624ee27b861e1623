"""The token covariance C: E[x_ia x_jb] = C_ij delta_ab."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.arrays import real_array
from aimtheory.errors import InputError


def validate_token_covariance(matrix: ArrayLike, tokens: int) -> NDArray[np.float64]:
    """The L x L covariance as an array, after checking that it is finite, symmetric and positive semidefinite.

    Raises ``InputError`` naming the shape, the entry or the eigenvalue that is wrong. Eigenvalues down to -1e-12 of
    the largest are taken as rounding.

    >>> validate_token_covariance([[1, 0.5], [0.5, 1]], 2).shape
    (2, 2)
    """
    array = real_array(matrix, "token_covariance")
    if array.shape != (tokens, tokens):
        raise InputError(
            f"token_covariance has shape {array.shape}; with tokens = {tokens} it must be {tokens} x {tokens}"
        )
    gap = np.abs(array - array.T)
    if gap.max() > 1e-12 * max(1.0, np.abs(array).max()):
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise InputError(
            f"token_covariance is not symmetric: entry [{i}, {j}] = {array[i, j]} but [{j}, {i}] = {array[j, i]}; "
            "a covariance must equal its transpose"
        )
    array = (array + array.T) / 2
    smallest = _smallest_eigenvalue(array)
    if smallest < -1e-12 * max(1.0, np.abs(array).max()):
        raise InputError(
            f"token_covariance is not positive semidefinite: its smallest eigenvalue is {smallest:.6g}; "
            "it must be at least 0"
        )
    return array


def _smallest_eigenvalue(array: NDArray[np.float64]) -> float:
    """In closed form where all tokens are alike, whatever their number."""
    diagonal, off = float(array[0, 0]), float(array[0, -1]) if len(array) > 1 else 0.0
    alike = np.full_like(array, off)
    np.fill_diagonal(alike, diagonal)
    if np.array_equal(array, alike):
        return min(diagonal - off, diagonal + (len(array) - 1) * off) if len(array) > 1 else diagonal
    return float(np.linalg.eigvalsh(array)[0])


__all__ = ["validate_token_covariance"]
