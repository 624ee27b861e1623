"""The independent entries of a symmetric matrix of forms h_ab, a <= b."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray


def check_tokens(tokens: object) -> int:
    """The number of tokens as an int >= 2, else ``InputError``."""
    if isinstance(tokens, bool) or not isinstance(tokens, int | np.integer) or tokens < 2:
        raise InputError(f"tokens = {tokens!r} must be an integer >= 2: with one token nothing is compared")
    return int(tokens)


def token_pairs(tokens: int) -> tuple[tuple[int, int], ...]:
    """Pairs (a, b), a <= b, row by row: the order of the last axis of every array of forms.

    >>> token_pairs(2)
    ((0, 0), (0, 1), (1, 1))
    """
    return tuple((a, b) for a in range(tokens) for b in range(a, tokens))


def pair_multiplicity(tokens: int) -> FloatArray:
    """``D_ab = 1 + delta_ab``, shape (T(T+1)/2,): Var h_ab = D_ab tr S^2.

    >>> pair_multiplicity(2)
    array([2., 1., 2.])
    """
    return np.array([2.0 if a == b else 1.0 for a, b in token_pairs(tokens)])


def pair_index(tokens: int) -> NDArray[np.int64]:
    """The (T, T) symmetric table of positions of the pair {a, b} in ``token_pairs``."""
    table = np.zeros((tokens, tokens), dtype=np.int64)
    for place, (a, b) in enumerate(token_pairs(tokens)):
        table[a, b] = table[b, a] = place
    return table


def as_matrix(forms: FloatArray, tokens: int) -> FloatArray:
    """Forms (..., P) as symmetric matrices (..., T, T)."""
    return np.asarray(forms[..., pair_index(tokens)])


def check_forms(forms: object, tokens: int, name: str) -> FloatArray:
    """A float64 array of shape (..., T(T+1)/2) with finite entries, else ``InputError``."""
    array = np.asarray(forms, dtype=np.float64)
    count = tokens * (tokens + 1) // 2
    if array.ndim == 0 or array.shape[-1] != count:
        raise InputError(f"{name} must have last axis {count} (pairs a <= b of {tokens} tokens); got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name} has a NaN or infinite entry")
    return array


__all__ = ["as_matrix", "check_forms", "check_tokens", "pair_index", "pair_multiplicity", "token_pairs"]
