"""Gauss–Hermite rules for the standard normal law, tensor grids, and the discrete Hermite transform."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special, stats

from aimtheory.errors import NumericsError

LADDER = (8, 12, 18, 26, 38, 56, 80, 115, 165, 240, 340, 480)
"""Numbers of nodes a direction that adaptive rules climb."""


@dataclass(frozen=True)
class HermiteRule:
    """n nodes and weights with Σ w f(x) = E f(z), z ~ N(0, 1), exact for polynomials of degree 2n-1.

    ``transform[m, i] = h_m(x_i) w_i`` maps values to Hermite coefficients E f(z) h_m(z) for m < n; on the nodes the
    h_m are exactly orthonormal, so that Parseval holds within the rule.
    """

    nodes: np.ndarray
    weights: np.ndarray
    transform: np.ndarray


@lru_cache(maxsize=64)
def hermite_rule(count: int) -> HermiteRule:
    """The Gauss–Hermite rule with ``count`` nodes.

    >>> rule = hermite_rule(8)
    >>> bool(abs(rule.weights @ rule.nodes**4 - 3) < 1e-12)
    True
    """
    nodes, weights = special.roots_hermitenorm(count)
    weights = weights / weights.sum()
    table = np.empty((count, count))
    # The recurrence runs on h_m sqrt(w), which is of order one, so that nothing overflows at large n.
    previous, current = np.zeros(count), np.sqrt(weights)
    for m in range(count):
        table[m] = current
        previous, current = current, (nodes * current - math.sqrt(m) * previous) / math.sqrt(m + 1)
    return HermiteRule(nodes, weights, table * np.sqrt(weights))


def tensor_nodes(count: int, dimension: int) -> np.ndarray:
    """The tensor grid of nodes, shape (count**dimension, dimension), the first axis slowest."""
    if dimension == 0:
        return np.zeros((1, 0))
    axes = np.meshgrid(*[hermite_rule(count).nodes] * dimension, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def tensor_weights(count: int, dimension: int) -> np.ndarray:
    """The weights of :func:`tensor_nodes`."""
    weights = np.ones(1)
    for _ in range(dimension):
        weights = np.multiply.outer(weights, hermite_rule(count).weights).ravel()
    return weights


def hermite_coefficients(values: np.ndarray, count: int, dimension: int) -> np.ndarray:
    """Multi-index Hermite coefficients of values on the tensor grid: (count**dimension, channels) -> the same shape."""
    transform = hermite_rule(count).transform
    for _ in range(dimension):
        channels = values.shape[1]
        rotated = (transform @ values.reshape(count, -1)).reshape(count, -1, channels)
        values = rotated.transpose(1, 0, 2).reshape(-1, channels)
    return values


def sobol_normals(dimension: int, log2_points: int, seed: int) -> np.ndarray:
    """2**log2_points scrambled Sobol points mapped to N(0, 1), shape (points, dimension)."""
    sampler = stats.qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
    uniform = sampler.random_base2(log2_points)
    return np.asarray(special.ndtri(np.clip(uniform, 2.0**-60, 1 - 2.0**-53)))


def covariance_factor(covariance: np.ndarray) -> np.ndarray:
    """R with R R^T = covariance, one column per direction of nonzero variance; singular covariances are fine.

    Raises ``NumericsError`` when the covariance has an eigenvalue that is negative beyond rounding.
    """
    size = covariance.shape[0]
    if size == 0:
        return np.zeros((0, 0))
    eigenvalues, vectors = np.linalg.eigh(covariance)
    largest = max(float(eigenvalues[-1]), 0.0)
    if eigenvalues[0] < -1e-7 * max(largest, 1e-300) and eigenvalues[0] < -1e-14:
        raise NumericsError(
            f"the covariance of the forms has the eigenvalue {eigenvalues[0]:.3g} (largest {largest:.3g}); it must be "
            "positive semidefinite: project the order parameters with nearest_order_parameters first"
        )
    kept = eigenvalues > 1e-14 * largest
    return np.asarray(vectors[:, kept] * np.sqrt(eigenvalues[kept]))


__all__ = [
    "LADDER",
    "HermiteRule",
    "covariance_factor",
    "hermite_coefficients",
    "hermite_rule",
    "sobol_normals",
    "tensor_nodes",
    "tensor_weights",
]
