"""The fast path on the tied line q1 = q2 = q with zero mean: precomputed nodes, a few small products a call.

All slots of a site then share one base covariance B = T(C⊗C)(1+P)Tᵀ and Cov(u_s, u_t) = B q_st, so that the factor
R = B^{1/2}, the grid and the Hermite transform are fixed, and only the scales √q_ss and the correlations
ρ_st = q_st/√(q_ss q_tt) move:

    [∇Φ]_st = ½ W_st Σ_ν ρ^|ν| Σ_a ⟨(D_aF_s)_ν, (D_aF_t)_ν⟩,    s ≠ t,
    [∇Φ]_ss = ½ Σ_t W_st E⟨Δ_RF_s, F_t⟩ + ½ W_ss E|D_RF_s|²,

with D_a the derivative along column a of R and Δ_R the sum of second ones. This is equation (22) of [D] on a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from aimtheory.population.quadrature import (
    LADDER,
    NormalRule,
    covariance_factor,
    hermite_coefficients,
    needed_modes,
    normal_rule,
    tensor_nodes,
    tensor_weights,
)
from aimtheory.population.sites import PairwiseSite

_LARGEST_WORK = 1_500_000


@dataclass(frozen=True)
class _Grid:
    """One rule in the features of a site."""

    rule: NormalRule
    points: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class _Jet:
    """F, D_aF, Δ_RF of a slot at one variance: Hermite coefficients (r + 2, modes, outputs), and the self terms."""

    variance: float
    level: int
    modes: int
    coefficients: np.ndarray
    square: float
    slope: float


@dataclass
class TiedRule:
    """Gradients and values of one site as functions of the slots' q alone.

    It caches rules and the jets of slots whose variance did not change (a teacher's); results do not depend on that.
    """

    site: PairwiseSite
    tolerance: float
    factor: np.ndarray
    _levels: dict[int, tuple[int, float]] = field(default_factory=dict)
    _grids: dict[int, _Grid] = field(default_factory=dict)
    _degrees: dict[int, np.ndarray] = field(default_factory=dict)
    _jets: dict[int, _Jet] = field(default_factory=dict)

    @classmethod
    def of(cls, site: PairwiseSite, tolerance: float) -> TiedRule | None:
        """The rule of a site, or None when its slots do not share their features or there are too many of them."""
        if any(size != site.sizes[0] for size in site.sizes):
            return None
        base = site.law.first + site.law.second
        slots = range(len(site.sizes))
        blocks = [base[site.block(s), site.block(t)] for s in slots for t in slots]
        scale = float(np.abs(base).max(initial=0.0))
        if any(np.abs(block - blocks[0]).max(initial=0.0) > 1e-12 * scale for block in blocks):
            return None
        rule = cls(site, tolerance, covariance_factor(blocks[0]))
        return rule if rule._work(3) <= _LARGEST_WORK else None

    def _work(self, level: int) -> int:
        rank = self.factor.shape[1]
        outputs = self.site.functions[0].value(np.zeros((1, self.site.sizes[0]))).shape[1]
        return int(LADDER[level][0] ** rank) * (rank + 2) * outputs

    def _grid(self, level: int) -> _Grid:
        if level not in self._grids:
            rule, rank = normal_rule(level, self.site.polynomial), self.factor.shape[1]
            self._grids[level] = _Grid(rule, tensor_nodes(rule, rank) @ self.factor.T, tensor_weights(rule, rank))
        return self._grids[level]

    def _total_degrees(self, modes: int) -> np.ndarray:
        """|ν| of every coefficient, as a column."""
        if modes not in self._degrees:
            degrees = np.zeros(1)
            for _ in range(self.factor.shape[1]):
                degrees = np.add.outer(degrees, np.arange(modes)).ravel()
            self._degrees[modes] = degrees[:, None]
        return self._degrees[modes]

    def _jet(self, slot: int, variance: float, level: int, modes: int) -> _Jet:
        known = self._jets.get(slot)
        if known is not None and known.variance == variance and known.level == level and known.modes == modes:
            return known
        grid, rank = self._grid(level), self.factor.shape[1]
        value, first, second = self.site.functions[slot].radial_jet(math.sqrt(variance) * grid.points, self.factor)
        size, outputs = value.shape
        stack = np.empty((size, rank + 2, outputs))
        stack[:, 0], stack[:, 1:-1], stack[:, -1] = value, first, second
        flat = hermite_coefficients(stack.reshape(size, -1), grid.rule, rank, modes)
        coefficients = np.ascontiguousarray(flat.reshape(-1, rank + 2, outputs).transpose(1, 0, 2))
        weighted = value * grid.weights[:, None]
        # The terms of a slot with itself have full correlation; the grid gives them without the Hermite series.
        slope = np.vdot(weighted, second) + grid.weights @ np.einsum("nao,nao->n", first, first)
        jet = _Jet(variance, level, modes, coefficients, float(np.vdot(weighted, value)), float(slope))
        self._jets[slot] = jet
        return jet

    def _evaluate(self, q: np.ndarray, level: int, modes: int | None = None) -> tuple[float, np.ndarray]:
        coupling = self.site.coupling
        slots = len(coupling)
        variances = [max(q.item(s, s), 0.0) for s in range(slots)]
        correlations: dict[tuple[int, int], float] = {}
        for s in range(slots):
            for t in range(s + 1, slots):
                scale = math.sqrt(variances[s] * variances[t])
                ratio = q.item(s, t) / scale if scale > 0.0 else 0.0
                correlations[s, t] = min(1.0, max(-1.0, ratio))
        rule = self._grid(level).rule
        if modes is None:
            modes = needed_modes(rule, max((abs(c) for c in correlations.values()), default=0.0), self.tolerance)
        degrees = self._total_degrees(modes)
        jets = [self._jet(s, variances[s], level, modes) for s in range(slots)]
        value, gradient = 0.0, np.zeros((slots, slots))
        for s, mine in enumerate(jets):
            weight = 0.5 * coupling.item(s, s)
            value += weight * mine.square
            gradient[s, s] += weight * mine.slope
        for (s, t), correlation in correlations.items():
            weight = coupling.item(s, t)
            if weight == 0.0:
                continue
            left = jets[s].coefficients
            right = jets[t].coefficients * correlation**degrees
            value += weight * float(np.vdot(left[0], right[0]))
            gradient[s, s] += 0.5 * weight * float(np.vdot(left[-1], right[0]))
            gradient[t, t] += 0.5 * weight * float(np.vdot(left[0], right[-1]))
            gradient[s, t] = gradient[t, s] = 0.5 * weight * float(np.vdot(left[1:-1], right[1:-1]))
        return value, gradient

    def _level(self, q: np.ndarray) -> tuple[int, float]:
        """The level of the rule and its error for the variances at hand, found once for every half octave of them."""
        largest = max(q.item(s, s) for s in range(len(q)))
        band = -20 if largest < 2.0**-10 else math.ceil(2 * math.log2(largest))
        if band not in self._levels:
            self._levels[band] = self._search(2.0 ** (band / 2))
        return self._levels[band]

    def _search(self, variance: float) -> tuple[int, float]:
        if self.factor.shape[1] == 0:
            return 0, 0.0
        slots = len(self.site.coupling)
        # Full correlation is the hardest case for the Hermite series, none for the terms of a slot with itself, whose
        # errors would cancel there.
        cases = [np.full((slots, slots), variance), np.eye(slots) * variance]
        previous: np.ndarray | None = None
        best, error = 0, math.inf
        for level in range(len(LADDER)):
            if self._work(level) > _LARGEST_WORK:
                break
            found = []
            for q in cases:
                value, gradient = self._evaluate(q, level, self._grid(level).rule.modes)
                found += [np.array([value]), gradient.ravel()]
            now = np.concatenate(found)
            if previous is not None:
                best, error = level, float(np.abs(now - previous).max())
                if error <= self.tolerance * max(1.0, float(np.abs(now).max())):
                    break
            previous = now
        return best, error

    def evaluate(self, q: np.ndarray) -> tuple[float, np.ndarray, float]:
        """(value, gradient by the slots' q, error) of one copy of the site."""
        level, error = self._level(q)
        value, gradient = self._evaluate(q, level)
        return value, gradient, error


__all__ = ["TiedRule"]
