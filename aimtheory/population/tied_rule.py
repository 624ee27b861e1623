"""The fast path on the tied line q1 = q2 = q with zero mean: precomputed nodes, a few small products a call.

All slots of a site then share one base covariance B = T(C⊗C)(1+P)Tᵀ and Cov(u_s, u_t) = B q_st, so that the factor
R = B^{1/2}, the grid and the Hermite transform are fixed, and only the scales √q_ss and the correlations
ρ_st = q_st/√(q_ss q_tt) move:

    [∇Φ]_st = ½ W_st Σ_ν ρ^|ν| Σ_a ⟨(D_aF_s)_ν, (D_aF_t)_ν⟩,    s ≠ t,
    [∇Φ]_ss = ½ Σ_t W_st E⟨Δ_RF_s, F_t⟩ + ½ W_ss E|D_RF_s|²,

with D_a the derivative along column a of R and Δ_R the sum of second ones. This is equation (22) of [D] on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aimtheory.errors import InputError
from aimtheory.population.quadrature import (
    LADDER,
    covariance_factor,
    hermite_coefficients,
    tensor_nodes,
)
from aimtheory.population.sites import PairwiseSite

_LARGEST_WORK = 3_000_000


@dataclass
class _Grid:
    """Nodes of one rule in the features of a site, and the degree |ν| of every coefficient."""

    count: int
    points: np.ndarray
    degrees: np.ndarray


@dataclass
class TiedRule:
    """Gradients and values of one site as functions of the slots' q alone. Caches rules; results do not depend on them."""

    site: PairwiseSite
    tolerance: float
    factor: np.ndarray
    _rules: dict[int, tuple[int, float]] = field(default_factory=dict)
    _grids: dict[int, _Grid] = field(default_factory=dict)
    _jets: dict[int, tuple[float, int, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, site: PairwiseSite, tolerance: float) -> TiedRule | None:
        """The rule of a site, or None when its slots do not share their features."""
        base = site.law.first + site.law.second
        blocks = [base[site.block(s), site.block(t)] for s in range(len(site.sizes)) for t in range(len(site.sizes))]
        if any(size != site.sizes[0] for size in site.sizes):
            return None
        if any(np.abs(block - blocks[0]).max(initial=0.0) > 1e-12 * np.abs(base).max(initial=1.0) for block in blocks):
            return None
        return cls(site, tolerance, covariance_factor(blocks[0]))

    def _grid(self, count: int) -> _Grid:
        if count not in self._grids:
            rank = self.factor.shape[1]
            degrees = np.zeros(1)
            for _ in range(rank):
                degrees = np.add.outer(degrees, np.arange(count)).ravel()
            self._grids[count] = _Grid(count, tensor_nodes(count, rank) @ self.factor.T, degrees)
        return self._grids[count]

    def _jet(self, slot: int, variance: float, count: int) -> np.ndarray:
        """Hermite coefficients of F, D_aF, Δ_RF of a slot: (1 + r + 1, modes, outputs)."""
        known = self._jets.get(slot)
        if known is not None and known[0] == variance and known[1] == count:
            return known[2]
        grid = self._grid(count)
        rank = self.factor.shape[1]
        value, first, second = self.site.functions[slot].radial_jet(np.sqrt(variance) * grid.points, self.factor)
        size, outputs = value.shape
        stack = np.empty((size, rank + 2, outputs))
        stack[:, 0], stack[:, 1:-1], stack[:, -1] = value, first, second
        flat = hermite_coefficients(stack.reshape(size, -1), count, rank)
        jet = np.ascontiguousarray(flat.reshape(size, rank + 2, outputs).transpose(1, 0, 2))
        self._jets[slot] = (variance, count, jet)
        return jet

    def _evaluate(self, q: np.ndarray, count: int) -> tuple[float, np.ndarray]:
        slots = len(self.site.functions)
        coupling = self.site.coupling
        variances = [float(q[s, s]) for s in range(slots)]
        jets = [self._jet(s, variances[s], count) for s in range(slots)]
        degrees = self._grid(count).degrees
        value, gradient = 0.0, np.zeros((slots, slots))
        for s in range(slots):
            weight = coupling[s, s]
            mine = jets[s]
            if weight != 0.0:
                value += 0.5 * weight * float(np.vdot(mine[0], mine[0]))
                gradient[s, s] += 0.5 * weight * float(np.vdot(mine[0], mine[-1]) + np.vdot(mine[1:-1], mine[1:-1]))
            for t in range(s + 1, slots):
                weight = coupling[s, t]
                if weight == 0.0:
                    continue
                theirs = jets[t]
                scale = (variances[s] * variances[t]) ** 0.5
                correlation = min(1.0, max(-1.0, float(q[s, t]) / scale)) if scale > 0.0 else 0.0
                powers = (correlation**degrees)[:, None]
                weighted = theirs * powers
                value += weight * float(np.vdot(mine[0], weighted[0]))
                gradient[s, s] += 0.5 * weight * float(np.vdot(mine[-1], weighted[0]))
                gradient[t, t] += 0.5 * weight * float(np.vdot(mine[0], weighted[-1]))
                gradient[s, t] = gradient[t, s] = 0.5 * weight * float(np.vdot(mine[1:-1], weighted[1:-1]))
        return value, gradient

    def _rule(self, q: np.ndarray) -> tuple[int, float]:
        """The number of nodes and its error for the variances at hand, found once for every half octave of them."""
        largest = float(np.max(np.diag(q)))
        band = -20 if largest < 2.0**-10 else int(np.ceil(2 * np.log2(largest)))
        if band not in self._rules:
            self._rules[band] = self._search(2.0 ** (band / 2))
        return self._rules[band]

    def _search(self, variance: float) -> tuple[int, float]:
        slots = len(self.site.functions)
        # Full correlation is the hardest case: the Hermite series is then cut by the rule alone.
        hardest = np.full((slots, slots), variance)
        rank = self.factor.shape[1]
        if rank == 0:
            return LADDER[0], 0.0
        channels = (rank + 2) * self.site.functions[0].value(np.zeros((1, self.site.sizes[0]))).shape[1]
        previous: tuple[float, np.ndarray] | None = None
        count, error = LADDER[0], np.inf
        for size in LADDER:
            if size**rank * channels > _LARGEST_WORK:
                break
            self._jets.clear()
            current = self._evaluate(hardest, size)
            # At equal functions the contributions cancel; the Hermite norms of single slots are tested as well.
            norms = np.array([np.vdot(jet[2][c], jet[2][c]) for jet in self._jets.values() for c in range(rank + 2)])
            now = (current[0], np.concatenate([current[1].ravel(), norms]))
            if previous is not None:
                error = max(abs(now[0] - previous[0]), float(np.abs(now[1] - previous[1]).max()))
                count = size
                if error <= self.tolerance * max(1.0, float(np.abs(now[1]).max())):
                    break
            previous = now
        self._jets.clear()
        return count, error

    def evaluate(self, q: np.ndarray) -> tuple[float, np.ndarray, float]:
        """(value, gradient by the slots' q, error) of one copy of the site."""
        count, error = self._rule(q)
        value, gradient = self._evaluate(q, count)
        return value, gradient, error

    @property
    def usable(self) -> bool:
        """Whether a grid of this many dimensions is affordable at all."""
        return LADDER[2] ** self.factor.shape[1] * self.site.sizes[0] ** 2 <= _LARGEST_WORK


def check_tied(q: np.ndarray, count: int) -> np.ndarray:
    """The (K, K) matrix q, finite and symmetric; raises ``InputError`` naming the entry that is not."""
    q = np.asarray(q, dtype=float)
    if q.shape != (count, count):
        raise InputError(f"q has shape {q.shape}; with {count} indices it must be ({count}, {count})")
    if not np.isfinite(q).all():
        k, l = np.argwhere(~np.isfinite(q))[0]  # noqa: E741
        raise InputError(f"q[{k}, {l}] = {q[k, l]} is not finite")
    if np.abs(q - q.T).max() > 1e-9 * max(1.0, float(np.abs(q).max())):
        raise InputError(f"q is not symmetric: {q.tolist()}")
    return q


__all__ = ["TiedRule", "check_tied"]
