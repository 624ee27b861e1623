"""Expectations of pairs of functions of two correlated Gaussian vectors, by the Mehler (Hermite) expansion.

For u = μ_s + R_s x, v = μ_t + R_t y with x, y standard normal and E x yᵀ = diag(ρ) (canonical correlations: x and y
are rotated into this form),

    E ⟨F(u), F*(v)⟩ = Σ_ν ρ^ν ⟨F_ν, F*_ν⟩,    F_ν = E F(u) h_ν(x),

the bilinear form of equation (23) of [D]. A p-dimensional grid thus does the work of a 2p-dimensional integral. The
coefficients come from a tensor grid, and a function paired with itself (ρ = 1) is averaged on the grid directly.
Too many features for a grid: scrambled Sobol points, with a standard error from independent scramblings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aimtheory.errors import NumericsError
from aimtheory.population.features import FeatureFunction
from aimtheory.population.quadrature import (
    LADDER,
    NormalRule,
    covariance_factor,
    hermite_coefficients,
    needed_modes,
    normal_rule,
    sobol_normals,
    tensor_nodes,
    tensor_weights,
)
from aimtheory.population.sites import PairwiseSite

_LARGEST_GRID = 6_000_000
_SOBOL_REPLICAS = 8
_SOBOL_LOG2_POINTS = 12


@dataclass(frozen=True)
class SiteExpectation:
    """E f, E ∂f (P,), E ∂²f (P, P) over the P features of a site, with the error of the largest of them."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray
    error: float
    method: str


def site_expectation(
    site: PairwiseSite, mean: np.ndarray, covariance: np.ndarray, tolerance: float, seed: int, order: int = 2
) -> SiteExpectation:
    """The expectations of a pairwise site at a mean and covariance of its features.

    Climbs a ladder of rules until two successive ones agree to ``tolerance`` (relative to the size of the result, or
    absolute below one); the difference is the error reported, an upper estimate for the finer rule. ``order=0`` gives
    the value alone. Raises ``NumericsError`` on a NaN or infinity.
    """
    slots = range(len(site.functions))
    factors = [covariance_factor(covariance[site.block(s), site.block(s)]) for s in slots]
    channels = max(_channels(site, s, order) for s in slots)
    largest_rank = max(factor.shape[1] for factor in factors)
    previous: SiteExpectation | None = None
    for level, (count, _) in enumerate(LADDER):
        if count**largest_rank * channels > _LARGEST_GRID:
            break
        rule = normal_rule(level, site.polynomial)
        current = _on_grid(site, mean, covariance, factors, rule, tolerance, order)
        if largest_rank == 0:
            return current
        if previous is None:
            previous = current
            continue
        previous = replace(current, error=_difference(current, previous))
        scale = max(1.0, abs(current.value), float(np.abs(current.hessian).max(initial=0.0)))
        if previous.error <= tolerance * scale:
            return previous
    # A grid that stopped short of the tolerance may still beat sampling.
    if previous is not None and previous.error <= 1e-5:
        return previous
    sampled = _by_sobol(site, mean, covariance, seed, order)
    return sampled if previous is None or sampled.error < previous.error else previous


def _channels(site: PairwiseSite, slot: int, order: int) -> int:
    p = site.sizes[slot]
    outputs = site.functions[slot].value(np.zeros((1, p))).shape[1]
    return outputs * (1 if order == 0 else 1 + p + p * p)


def _difference(a: SiteExpectation, b: SiteExpectation) -> float:
    gaps = [abs(a.value - b.value)]
    gaps += [float(np.abs(x - y).max(initial=0.0)) for x, y in ((a.gradient, b.gradient), (a.hessian, b.hessian))]
    return max(gaps)


def _stack(function: FeatureFunction, points: np.ndarray, order: int) -> np.ndarray:
    """F, ∂_aF, ∂_a∂_bF stacked as (N, 1 + p + p², o)."""
    if order == 0:
        return function.value(points)[:, None, :]
    value, first, second = function.jet(points)
    size, p, outputs = first.shape
    return np.concatenate([value[:, None, :], first, second.reshape(size, p * p, outputs)], axis=1)


class _Accumulator:
    """Adds the pair moments E Z_s Z_tᵀ of the stacked jets into value, gradient and Hessian of the site."""

    def __init__(self, site: PairwiseSite, order: int) -> None:
        self.site, self.order = site, order
        total = sum(site.sizes)
        self.value, self.gradient, self.hessian = 0.0, np.zeros(total), np.zeros((total, total))

    def add(self, s: int, t: int, moments: np.ndarray) -> None:
        """moments[α, β] = E ⟨Z_s,α, Z_t,β⟩ for s ≤ t."""
        weight = float(self.site.coupling[s, t])
        self.value += weight * float(moments[0, 0]) * (0.5 if s == t else 1.0)
        if self.order == 0:
            return
        here, there = self.site.block(s), self.site.block(t)
        p, r = self.site.sizes[s], self.site.sizes[t]
        self.gradient[here] += weight * moments[1 : 1 + p, 0]
        self.hessian[here, there] += weight * moments[1 : 1 + p, 1 : 1 + r]
        self.hessian[here, here] += weight * moments[1 + p :, 0].reshape(p, p)
        if s != t:
            self.gradient[there] += weight * moments[0, 1 : 1 + r]
            self.hessian[there, here] += weight * moments[1 : 1 + p, 1 : 1 + r].T
            self.hessian[there, there] += weight * moments[0, 1 + r :].reshape(r, r)

    def result(self, error: float, method: str) -> SiteExpectation:
        finite = np.isfinite(self.value) and np.isfinite(self.gradient).all() and np.isfinite(self.hessian).all()
        if not finite:
            raise NumericsError(
                f"the expectation of {self.site.functions} is not finite; the order parameters may be too large"
            )
        return SiteExpectation(self.value, self.gradient, self.hessian, error, method)


def _on_grid(
    site: PairwiseSite,
    mean: np.ndarray,
    covariance: np.ndarray,
    factors: list[np.ndarray],
    rule: NormalRule,
    tolerance: float,
    order: int,
) -> SiteExpectation:
    total = _Accumulator(site, order)
    sides = [(f, mean[site.block(s)], factors[s]) for s, f in enumerate(site.functions)]
    for s, side in enumerate(sides):
        if site.coupling[s, s] != 0.0:
            total.add(s, s, _self_moments(side, rule, order))
        for t in range(s + 1, len(sides)):
            if site.coupling[s, t] != 0.0:
                cross = covariance[site.block(s), site.block(t)]
                total.add(s, t, _mehler(side, sides[t], cross, rule, tolerance, order))
    return total.result(np.inf if any(f.shape[1] for f in factors) else 0.0, "grid")


_Side = tuple[FeatureFunction, np.ndarray, np.ndarray]
"""A function with the mean and the factor of its features."""


def _self_moments(side: _Side, rule: NormalRule, order: int) -> np.ndarray:
    function, mean, factor = side
    rank = factor.shape[1]
    stack = _stack(function, mean + tensor_nodes(rule, rank) @ factor.T, order)
    size, channels, outputs = stack.shape
    weights = tensor_weights(rule, rank)
    moments = np.zeros((channels, channels))
    moments[0, :] = moments[:, 0] = np.einsum("nco,no->c", stack, stack[:, 0, :] * weights[:, None])
    if order:
        p = len(mean)
        rows = stack[:, 1 : 1 + p].transpose(1, 0, 2).reshape(p, size * outputs)
        moments[1 : 1 + p, 1 : 1 + p] = (rows * np.repeat(weights, outputs)) @ rows.T
    return moments


def canonical_correlations(
    left: np.ndarray, right: np.ndarray, cross: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotated factors (R_s, R_t) and correlations ρ of their paired columns, from factors and Cov(u, v).

    u = R_s x, v = R_t y, E x yᵀ = diag(ρ), ρ clipped to [0, 1] against rounding.
    """
    whitened = np.linalg.pinv(left, rcond=1e-14) @ cross @ np.linalg.pinv(right, rcond=1e-14).T
    if 0 in whitened.shape:
        return left, right, np.zeros(0)
    rotation_left, correlations, rotation_right = np.linalg.svd(whitened)
    return left @ rotation_left, right @ rotation_right.T, np.clip(correlations, 0.0, 1.0)


def _mehler(left: _Side, right: _Side, cross: np.ndarray, rule: NormalRule, tolerance: float, order: int) -> np.ndarray:
    factor_left, factor_right, correlations = canonical_correlations(left[2], right[2], cross)
    paired = len(correlations)
    modes = needed_modes(rule, float(correlations.max(initial=0.0)), tolerance)
    coefficients = []
    for function, mean, factor in ((left[0], left[1], factor_left), (right[0], right[1], factor_right)):
        rank = factor.shape[1]
        stack = _stack(function, mean + tensor_nodes(rule, rank) @ factor.T, order)
        flat = hermite_coefficients(stack.reshape(stack.shape[0], -1), rule, rank, modes)
        # Directions without a partner are integrated out: their degree is zero. They come last.
        kept = flat.reshape(modes**paired, modes ** (rank - paired), *stack.shape[1:])[:, 0]
        coefficients.append(kept.transpose(1, 0, 2).reshape(stack.shape[1], -1))
    outputs = coefficients[0].shape[1] // modes**paired
    powers = np.ones(1)
    for correlation in correlations:
        powers = np.multiply.outer(powers, correlation ** np.arange(modes)).ravel()
    return np.asarray((coefficients[0] * np.repeat(powers, outputs)) @ coefficients[1].T)


def _by_sobol(site: PairwiseSite, mean: np.ndarray, covariance: np.ndarray, seed: int, order: int) -> SiteExpectation:
    factor = covariance_factor(covariance)
    replicas = []
    for replica in range(_SOBOL_REPLICAS):
        normals = sobol_normals(factor.shape[1], _SOBOL_LOG2_POINTS, seed * 1000 + replica)
        points = mean + normals @ factor.T
        stacks = [_stack(f, points[:, site.block(s)], order) for s, f in enumerate(site.functions)]
        total = _Accumulator(site, order)
        for s in range(len(stacks)):
            for t in range(s, len(stacks)):
                if site.coupling[s, t] != 0.0:
                    left = stacks[s].transpose(1, 0, 2).reshape(stacks[s].shape[1], -1)
                    right = stacks[t].transpose(1, 0, 2).reshape(stacks[t].shape[1], -1)
                    total.add(s, t, left @ right.T / len(points))
        replicas.append(total.result(0.0, "sobol"))
    return combine_replicas(replicas)


def combine_replicas(replicas: list[SiteExpectation]) -> SiteExpectation:
    """The mean of independent randomizations; the error is the largest standard error of the mean."""
    count = len(replicas)
    values = np.array([r.value for r in replicas])
    gradients = np.array([r.gradient for r in replicas])
    hessians = np.array([r.hessian for r in replicas])
    spread = max(float(array.std(axis=0, ddof=1).max(initial=0.0)) for array in (values, gradients, hessians))
    return SiteExpectation(
        float(values.mean()), gradients.mean(axis=0), hessians.mean(axis=0), spread / np.sqrt(count), "sobol"
    )


__all__ = ["SiteExpectation", "canonical_correlations", "combine_replicas", "site_expectation"]
