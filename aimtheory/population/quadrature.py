"""Rules for the standard normal law, tensor grids of them, and the discrete Hermite transform.

Two families. The *trapezoid* rule, nodes −R..R with weights ∝ exp(−x²/2), is the better one for activations with poles
off the real axis: with poles at distance y its error falls like exp(−2πyn/2R), where Gauss–Hermite falls like
exp(−2y√n) (softmax at q = 2, 80 nodes: 1e-12 against 1e-7). The *Gauss–Hermite* rule is exact for polynomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from aimtheory.errors import NumericsError

LADDER: tuple[tuple[int, float], ...] = (
    (8, 3.3), (12, 4.0), (16, 4.6), (22, 5.1), (30, 5.6), (40, 6.1), (52, 6.5), (66, 6.9), (84, 7.2),
    (108, 7.5), (140, 7.9), (180, 8.3), (240, 8.8), (320, 9.4), (440, 10.0),
)  # fmt: skip
"""(nodes, reach R) of successive rules. R grows too, so that two rules that agree have no tail left outside either."""

_MOST_MODES = 512


@dataclass(frozen=True)
class NormalRule:
    """Nodes and weights with Σ w f(x) = E f(z), z ~ N(0, 1).

    ``transform[m, i] = h_m(x_i) w_i`` maps values to the Hermite coefficients E f(z) h_m(z), m < ``modes``.
    """

    nodes: np.ndarray
    weights: np.ndarray
    transform: np.ndarray

    @property
    def modes(self) -> int:
        """The number of Hermite degrees that the nodes resolve."""
        return len(self.transform)


@lru_cache(maxsize=64)
def normal_rule(level: int, gauss: bool = False) -> NormalRule:
    """The rule of a level of :data:`LADDER`, of the trapezoid family or (``gauss``) of the Gauss–Hermite one.

    >>> rule = normal_rule(4, gauss=True)
    >>> bool(abs(rule.weights @ rule.nodes**4 - 3) < 1e-12)
    True
    """
    count, reach = LADDER[level]
    if gauss:
        nodes, weights = special.roots_hermitenorm(count)
        modes = count
    else:
        nodes = np.linspace(-reach, reach, count)
        weights = np.exp(-(nodes**2) / 2)
        # h_m exp(-x²/4) oscillates with frequency up to √m: a third of the sampling frequency leaves room for f.
        modes = min(_MOST_MODES, 4 + int((math.pi * count / (3 * reach)) ** 2))
    weights = weights / weights.sum()
    table = np.empty((modes, count))
    # The recurrence runs on h_m √w, which stays of order one, so that nothing overflows at large m.
    previous, current = np.zeros(count), np.sqrt(weights)
    for m in range(modes):
        table[m] = current
        previous, current = current, (nodes * current - math.sqrt(m) * previous) / math.sqrt(m + 1)
    return NormalRule(nodes, weights, table * np.sqrt(weights))


def tensor_nodes(rule: NormalRule, dimension: int) -> np.ndarray:
    """The tensor grid, shape (nodes**dimension, dimension), the first axis slowest."""
    if dimension == 0:
        return np.zeros((1, 0))
    axes = np.meshgrid(*[rule.nodes] * dimension, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def tensor_weights(rule: NormalRule, dimension: int) -> np.ndarray:
    """The weights of :func:`tensor_nodes`."""
    weights = np.ones(1)
    for _ in range(dimension):
        weights = np.multiply.outer(weights, rule.weights).ravel()
    return weights


def hermite_coefficients(values: np.ndarray, rule: NormalRule, dimension: int, modes: int) -> np.ndarray:
    """Multi-index Hermite coefficients of values on the grid: (nodes**p, channels) -> (modes**p, channels)."""
    transform = rule.transform[:modes]
    channels = values.shape[1]
    for _ in range(dimension):
        rotated = transform @ values.reshape(len(rule.nodes), -1)
        if dimension == 1:
            return rotated
        values = rotated.reshape(modes, -1, channels).transpose(1, 0, 2).reshape(-1, channels)
    return values


def needed_modes(rule: NormalRule, correlation: float, tolerance: float) -> int:
    """How many degrees matter at a correlation: ρ^m below a tenth of the tolerance does not (multiples of 8)."""
    if correlation >= 1.0:
        return rule.modes
    if correlation <= 0.0:
        return min(rule.modes, 8)
    needed = math.log(0.1 * tolerance) / math.log(correlation)
    return min(rule.modes, 8 * (1 + int(min(needed, 1e6) / 8)))


def sobol_normals(dimension: int, log2_points: int, seed: int) -> np.ndarray:
    """2**log2_points scrambled Sobol points mapped to N(0, 1), shape (points, dimension)."""
    from scipy.stats import qmc

    sampler = qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(seed))
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
    "NormalRule",
    "covariance_factor",
    "hermite_coefficients",
    "needed_modes",
    "normal_rule",
    "sobol_normals",
    "tensor_nodes",
    "tensor_weights",
]
