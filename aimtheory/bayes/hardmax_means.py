"""Where to sample the means omega of hardmax: on the double ties, where the rows of an answer know of each other.

At V << q two rows a, b are coupled only where the form they share is tied with the largest others of both,
``h_ab = h_ac = h_bd`` up to O(1) while omega has size sqrt(r). A share of the points is drawn with these two gaps
shrunk to O(1), for one representative of each class of (c, d) under permutations of the tokens, the rest from the law
of omega; the weight of a point is the true density by that of the whole mixture, all permutations of it included, which
is right for functions symmetric under permutations.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from aimtheory.bayes.hardmax_rows import uniform_points
from aimtheory.bayes.token_pairs import pair_index, pair_multiplicity
from aimtheory.spectra.law import FloatArray

_GAP = 1.2
"""Size of the shrunk gaps in units of what the noise of the forms gives them."""


@lru_cache(maxsize=16)
def _double_ties(tokens: int) -> tuple[NDArray[np.int64], ...]:
    """Per class of double ties, the pairs (ab, ac, bd) of all its members, shape (members, 3)."""
    index = pair_index(tokens)
    classes: dict[tuple[bool, ...], list[tuple[int, int, int]]] = {}
    for a in range(tokens):
        for b in range(tokens):
            for c in range(tokens):
                for d in range(tokens):
                    if a == b or c == b or d == a:
                        continue
                    # Exchanging the rows turns (a, b, c, d) into (b, a, d, c).
                    kind = (*sorted((c == a, d == b)), c == d)
                    classes.setdefault(kind, []).append((int(index[a, b]), int(index[a, c]), int(index[b, d])))
    return tuple(np.array(sorted(set(members))) for members in classes.values())


def draw_means(tokens: int, ratio: float, count: int, seed: int, further: int = 0) -> tuple[FloatArray, ...]:
    """``omega`` (N, P), ``weight`` (N,) of mean 1, and ``further`` standard normals a point (N, further).

    ``count`` Sobol points for each component, N = count * strata; one set of them while V is not below q.
    """
    multiplicity = pair_multiplicity(tokens)
    pairs = len(multiplicity)
    classes = _double_ties(tokens)
    shrink = min(1.0, _GAP / np.sqrt(ratio)) if ratio > 0 else 1.0
    if shrink == 1:
        normal = ndtri(uniform_points(pairs + further, 4 * count, seed))
        return np.sqrt(ratio * multiplicity) * normal[:, :pairs], np.ones(4 * count), normal[:, pairs:]
    parts = []
    for n in range(1 + len(classes)):
        normal = ndtri(uniform_points(pairs + further, count, seed + 7919 * n))
        omega = np.sqrt(ratio * multiplicity) * normal[:, :pairs]
        if n > 0:
            shared, one, two = classes[n - 1][0]
            move = (shrink - 1) * _solved(omega, classes[n - 1][:1], multiplicity)[0]
            omega[:, one] += multiplicity[one] * move[0]
            omega[:, two] += multiplicity[two] * move[1]
            omega[:, shared] -= move.sum(axis=0)
        parts.append((omega, normal[:, pairs:]))
    omega, rest = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    weight = np.empty(len(omega))
    for chunk in np.array_split(np.arange(len(omega)), max(1, len(omega) * tokens**4 // 4_000_000)):
        density = np.ones(len(chunk))
        for members in classes:
            solved = _solved(omega[chunk], members, multiplicity)
            gaps = _gaps(omega[chunk], members)
            form = (solved * gaps).sum(axis=1) / ratio
            density += (np.exp(-0.5 * form * (1 / shrink**2 - 1)) / shrink**2).mean(axis=0)
        weight[chunk] = (1 + len(classes)) / density
    return omega, weight, rest


def _gaps(omega: FloatArray, members: NDArray[np.int64]) -> FloatArray:
    """``(omega_ac - omega_ab, omega_bd - omega_ab)``, shape (members, 2, N)."""
    shared, one, two = members.T
    columns = omega.T
    return np.stack([columns[one] - columns[shared], columns[two] - columns[shared]], axis=1)


def _solved(omega: FloatArray, members: NDArray[np.int64], multiplicity: FloatArray) -> FloatArray:
    """r times the inverse covariance of the two gaps, on the gaps."""
    _, one, two = members.T
    first, second = multiplicity[one] + 1, multiplicity[two] + 1
    gaps = _gaps(omega, members)
    determinant = (first * second - 1)[:, None]
    return np.stack(
        [
            (second[:, None] * gaps[:, 0] - gaps[:, 1]) / determinant,
            (first[:, None] * gaps[:, 1] - gaps[:, 0]) / determinant,
        ],
        axis=1,
    )


__all__ = ["draw_means"]
