"""The overlap E Σ_j σ_j(g) σ_j(h) of two softmax rows over any number of tokens ("ours").

The pairs (g_j, h_j) are independent over the tokens j: covariance Q off the row's own token, covariance D and mean m at
it. With 1/Σ = ∫ ds e^{−sΣ} and Λ_C(u, v) = E exp(−e^{u+g} − e^{v+h}), (g, h) ~ N(0, C),

    Σ_rows E Σ_j σ_j(g) σ_j(h) = ∬ du dv [ S'(Λ_Q) ∂_u∂_vΛ_Q Λ_D + S(Λ_Q) ∂_u∂_vΛ_D ],   S(x) = Σ_rows x^{length−1},

Λ_D taken at (u + m_1, v + m_2). A Gaussian law turns ∂/∂C_12 into ∂_u∂_v and ∂/∂C_11 into ½∂_u², so that the gradients
are integrals over derivatives of the same fields, exactly. The fields come from one of two factorizations:

- modes, Λ_C = Σ_n ρⁿ φ_n(u) ψ_n(v) with the Hermite coefficients φ_n of exp(−e^{u+√a z}): few are needed while the
  correlation ρ is small or one of the variances is;
- the ridge, for strongly correlated wide laws: a common part (κ, 1)r ξ is split off so that the rest is independent,
  Λ_C = E_ξ λ_{a'}(u + κrξ) λ_{b'}(v + rξ), on a lattice along and across the ridge u = κv. Its nodes follow the ridge,
  whose width is that of the rest, whatever its length √a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import NumericsError
from aimtheory.population.gumbel_smoothing import Resolution, gumbel_modes
from aimtheory.population.row_lengths import RowLengths
from aimtheory.population.softmax_ridge import RidgeFields, ridge_direction, ridge_nodes
from aimtheory.population.softmax_row import graded_nodes

FloatArray = NDArray[np.float64]

_FEW_MODES = 48
_MOST_MODES = 1500
_MOST_NODES = 1500


@dataclass(frozen=True)
class RowOverlap:
    """Σ_rows E Σ_j σ_j(g)σ_j(h) over rows of two tokens and more, with its derivatives.

    ``off`` and ``own`` are (∂/∂C_11, ∂/∂C_12, ∂/∂C_22) of Q and of D, C_12 one shared variable; ``mean`` is by m.
    """

    value: float
    off: FloatArray
    own: FloatArray
    mean: FloatArray


def row_overlap(
    lengths: RowLengths, off: FloatArray, own: FloatArray, mean: FloatArray, resolution: Resolution, order: int = 1
) -> RowOverlap:
    """The overlap at Q = ``off``, D = ``own`` (2, 2) and mean (2,).

    ``order`` 0 is the value alone, 1 adds the derivatives by Q and D, 2 those by the mean; what is left out is zero.

    Raises ``NumericsError`` where neither factorization is affordable (nearly deterministic and steep at once).

    >>> from aimtheory.population.gumbel_smoothing import FINE
    >>> q = np.array([[1.5, 0.7], [0.7, 2.0]])
    >>> found = row_overlap(RowLengths(1024), q, 2 * q, np.zeros(2), FINE)  # 1024 rows
    >>> round(found.value, 6)
    2.004605
    """
    needed = [modes_needed(c, resolution.tail) for c in (off, own)]
    direction = None if max(needed) <= _FEW_MODES else ridge_direction(off, own, resolution)
    if direction is not None:
        nodes = ridge_nodes(lengths, off, own, mean, direction, resolution)
        ridge = [nodes.fields(c, m, order, resolution) for c, m in ((off, np.zeros(2)), (own, mean))]
        return _integrate(lengths, ridge[0], ridge[1], nodes.along, nodes.across, order)
    if max(needed) > _MOST_MODES:
        raise NumericsError(
            f"two softmax rows with the covariances {off.tolist()} and {own.tolist()} need {max(needed)} modes, more "
            f"than {_MOST_MODES}: the inverse temperature is too large for so strong a correlation"
        )
    u, wu = graded_nodes(lengths, off.item(0), own.item(0), mean.item(0), resolution)
    v, wv = graded_nodes(lengths, off.item(3), own.item(3), mean.item(1), resolution)
    if max(len(u), len(v)) > _MOST_NODES:
        raise NumericsError(
            f"two softmax rows with the covariances {off.tolist()} and {own.tolist()} need {len(u)} x {len(v)} nodes; "
            "the inverse temperature is too large for one of the order parameters"
        )
    at_q = ModeFields.of(u, v, off, needed[0], order, resolution)
    at_d = ModeFields.of(u + mean.item(0), v + mean.item(1), own, needed[1], order, resolution)
    return _integrate(lengths, at_q, at_d, wu, wv, order)


def modes_needed(covariance: FloatArray, tail: float) -> int:
    """How many Hermite modes matter: ρⁿ times the decay exp(−π√(n/a)/2) that a strip of half width π/2 gives each side.

    >>> modes_needed(np.array([[1.0, 0.0], [0.0, 1.0]]), 1e-12)
    1
    """
    a, b, c = covariance.item(0), covariance.item(3), covariance.item(1)
    if a <= 0 or b <= 0 or c == 0:
        return 1
    correlation = min(1.0, abs(c) / math.sqrt(a * b))
    rate = -math.log(correlation)
    slope = (math.pi / 2) * (1 / math.sqrt(a) + 1 / math.sqrt(b))
    target = 2.0 - math.log(tail)
    # x = √n solves rate x² + slope x = target.
    root = 2 * target / (slope + math.sqrt(slope * slope + 4 * rate * target))
    return 3 + math.ceil(root * root)


@dataclass(frozen=True)
class ModeFields:
    """``missing`` = 1 − Λ and ``uv`` = ∂_u∂_vΛ on the grid u × v, and the modes of Λ and its derivatives by u and v."""

    missing: FloatArray
    uv: FloatArray
    powers: FloatArray
    left: list[FloatArray]
    right: list[FloatArray]

    @classmethod
    def of(
        cls, u: FloatArray, v: FloatArray, covariance: FloatArray, count: int, order: int, resolution: Resolution
    ) -> ModeFields:
        """Λ_C = Σ_n ρⁿ φ_n(u) ψ_n(v) with ``count`` modes; ``order`` 0 makes no derivatives."""
        a, b, c = max(covariance.item(0), 0.0), max(covariance.item(3), 0.0), covariance.item(1)
        correlation = max(-1.0, min(1.0, c / math.sqrt(a * b))) if a * b > 0 else 0.0
        orders = 3 if order else 1
        gone_u, left = gumbel_modes(u, a, count, orders, resolution)
        gone_v, right = gumbel_modes(v, b, count, orders, resolution)
        left, right = [_zeroth(gone_u, left[0], a), *left], [_zeroth(gone_v, right[0], b), *right]
        powers: FloatArray = np.asarray(correlation ** np.arange(count), dtype=np.float64)
        powers[np.abs(powers) < 1e-40] = 0.0
        # 1 − λ_a λ_b − Σ_{n≥1}, without the cancellation of 1 − Λ.
        series = (left[0][:, 1:] * powers[1:]) @ right[0][:, 1:].T
        missing = gone_u[:, None] + (1.0 - gone_u)[:, None] * gone_v - series
        return cls(missing, (left[1] * powers) @ right[1].T, powers, left, right)

    def pull(self, by_field: FloatArray, by_mixed: FloatArray, means: bool) -> tuple[FloatArray, FloatArray]:
        """Derivatives by (C_11, C_12, C_22) and by the mean of Σ by_field Λ + Σ by_mixed ∂_u∂_vΛ."""
        left, right = self.left, self.right
        # c ψ and φᵀ c, each against the modes of the other side.
        field = by_field @ np.concatenate(right[:2], axis=1), left[0].T @ by_field
        mixed = by_mixed @ np.concatenate(right[1:3], axis=1), left[1].T @ by_mixed
        count = len(self.powers)

        def at(product: FloatArray, modes: FloatArray) -> float:
            return float(np.einsum("un,un,n->", product, modes, self.powers))

        def across(product: FloatArray, modes: FloatArray) -> float:
            return float(np.einsum("nv,vn,n->", product, modes, self.powers))

        by_covariance = np.array([
            0.5 * (at(field[0][:, :count], left[2]) + at(mixed[0][:, :count], left[3])),
            at(field[0][:, count:], left[1]) + at(mixed[0][:, count:], left[2]),
            0.5 * (across(field[1], right[2]) + across(mixed[1], right[3])),
        ])  # fmt: skip
        by_mean = np.zeros(2)
        if means:
            by_mean[0] = at(field[0][:, :count], left[1]) + at(mixed[0][:, :count], left[2])
            by_mean[1] = across(field[1], right[1]) + across(mixed[1], right[2])
        return by_covariance, by_mean


def _zeroth(gone: FloatArray, first: FloatArray, variance: float) -> FloatArray:
    """The modes of F from those of F': E F h_n = √(a/n) E F' h_{n−1}."""
    result = np.empty_like(first)
    result[:, 0] = 1.0 - gone
    count = first.shape[1]
    result[:, 1:] = first[:, : count - 1] * np.sqrt(max(variance, 0.0) / np.arange(1, count))
    return result


def _integrate(
    lengths: RowLengths,
    q: ModeFields | RidgeFields,
    d: ModeFields | RidgeFields,
    first: FloatArray,
    second: FloatArray,
    order: int,
) -> RowOverlap:
    s0, s1, s2 = lengths.generating(np.clip(q.missing, 0.0, 1.0))
    kept = 1.0 - d.missing
    weights = np.multiply.outer(first, second)
    by_mixed, by_own_mixed = s1 * kept * weights, s0 * weights
    value = float(np.vdot(by_mixed, q.uv) + np.vdot(by_own_mixed, d.uv))
    if order == 0:
        return RowOverlap(value, np.zeros(3), np.zeros(3), np.zeros(2))
    off, _ = q.pull((s2 * q.uv * kept + s1 * d.uv) * weights, by_mixed, False)
    own, mean = d.pull(s1 * q.uv * weights, by_own_mixed, order > 1)
    return RowOverlap(value, off, own, mean)


__all__ = ["ModeFields", "RowOverlap", "modes_needed", "row_overlap"]
