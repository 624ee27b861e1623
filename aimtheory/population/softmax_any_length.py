"""The potential of row softmax attention for any number of tokens, at a cost that does not depend on it ("ours").

A softmax forgets what is common to its row. For tokens of exchangeable covariance, C_ij = γ + α δ_ij, the forms of a
row are then independent pairs over j: covariance Q = α(α+γ) q1 off the row's own token, D = Q + α² q2 and mean α m at
it (C = 1: Q = q1, D = q1 + q2). Mean squared errors between sums of softmax heads are sums of overlaps of two rows
(:mod:`aimtheory.population.softmax_overlap`); a cross entropy needs averages of one row alone (Stein's lemma):

    E Σ_j σ_j(h) g_j = Σ_j Cov(g_j, h_j) E[σ_j(h) − σ_j(h)²] + m_g E σ_own(h).

Students' logits add up to one Gaussian, and a mixture of teachers is linear in the teachers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aimtheory.model.losses import Loss
from aimtheory.population.gumbel_smoothing import COARSE, FINE, Resolution
from aimtheory.population.row_lengths import RowLengths
from aimtheory.population.softmax_overlap import row_overlap
from aimtheory.population.softmax_row import RowAverages, row_averages

FloatArray = NDArray[np.float64]

_cached_averages = lru_cache(maxsize=256)(row_averages)
"""A teacher's row stands still along a trajectory."""


@dataclass(frozen=True)
class SoftmaxExpectation:
    """Φ and its gradients over ordered pairs by (m, q1, q2), the mean Hessian, and the error of the largest entry."""

    value: float
    mean: FloatArray
    q1: FloatArray
    q2: FloatArray
    mean_hessian: FloatArray
    error: float = 0.0


def exchangeable(covariance: FloatArray | None) -> tuple[float, float] | None:
    """(α, γ) with C_ij = γ + α δ_ij, or None; no covariance is the identity.

    >>> exchangeable(np.array([[1.0, 0.25], [0.25, 1.0]]))
    (0.75, 0.25)
    """
    if covariance is None:
        return 1.0, 0.0
    diagonal = float(covariance[0, 0])
    off = float(covariance[0, 1]) if len(covariance) > 1 else 0.0
    expected = np.full_like(covariance, off)
    np.fill_diagonal(expected, diagonal)
    scale = max(abs(diagonal), abs(off))
    return (diagonal - off, off) if float(np.abs(covariance - expected).max()) <= 1e-13 * scale else None


@dataclass(frozen=True, eq=False)
class SoftmaxRows:
    """A loss between row softmaxes, as overlaps and averages of rows of independent tokens.

    Slots are combinations of the indices (``combination``, slots × K) with inverse temperatures ``gains``. A squared
    error is ½ Σ_st W_st E Σ σσ with W = ``coupling``; a cross entropy (``surprise``) has the students' logits in slot 0
    and in ``coupling[0]`` the weights of the teachers. Make one with :meth:`of`.
    """

    lengths: RowLengths
    alpha: float
    gamma: float
    combination: FloatArray
    gains: FloatArray
    coupling: FloatArray
    surprise: bool
    _errors: dict[tuple[int, ...], float] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, loss: Loss, tokens: int, covariance: FloatArray | None) -> SoftmaxRows | None:
        """The rule of a loss, or None where it does not apply: other activations, or C not exchangeable."""
        law = exchangeable(covariance)
        if law is None or law[0] == 0:  # equal tokens leave nothing to average: the cubature is exact there
            return None
        products = loss.output_products
        if products is None or (products.mixed and law != (1.0, 0.0)):
            return None
        softmaxes = [function.row_softmax for function in products.functions if function.row_softmax is not None]
        masks = {function.mask for function in softmaxes}
        if len(softmaxes) < len(products.functions) or len(masks) > 1:
            return None
        return cls(
            RowLengths(tokens, causal=masks == {"causal"}),
            *law,
            np.array(products.combination, dtype=np.float64),
            np.array([float(function.inverse_temperature) for function in softmaxes]),
            np.array(products.coupling, dtype=np.float64),
            products.surprise,
        )

    def _covariances(
        self, mean: FloatArray, q1: FloatArray, q2: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(m, Q, D) of the slots, with their gains."""
        a, scale = self.combination, np.outer(self.gains, self.gains)
        first = scale * (a @ q1 @ a.T) * (self.alpha * (self.alpha + self.gamma))
        own = first + scale * (a @ q2 @ a.T) * self.alpha**2
        return self.gains * (a @ mean) * self.alpha, first, own

    def covers(self, q1: FloatArray, q2: FloatArray) -> bool:
        """Whether D is a covariance; negatively correlated tokens with q2 near −q1 are the exception."""
        if self.gamma >= 0:
            return True
        own = self._covariances(np.zeros(len(q1)), q1, q2)[2]
        return bool(np.linalg.eigvalsh(own)[0] >= -1e-12 * max(float(np.abs(own).max()), 1e-300))

    def expectation(
        self, mean: FloatArray, q1: FloatArray, q2: FloatArray, order: int, resolution: Resolution = FINE
    ) -> SoftmaxExpectation:
        """Φ and, for ``order`` 1 or 2, its gradients; ``order`` 2 has those by the mean too. No error is estimated."""
        m, first, own = self._covariances(mean, q1, q2)
        slots = len(m)
        grad_mean, by_off, by_own = np.zeros(slots), np.zeros((slots, slots)), np.zeros((slots, slots))
        gradients = grad_mean, by_off, by_own
        if self.surprise:
            value = self._cross_entropy(m, first, own, resolution, gradients)
        else:
            value = self._squared_error(m, first, own, order, resolution, gradients)
        a, scale = self.combination, np.outer(self.gains, self.gains)
        by_off, by_own = a.T @ (scale * by_off) @ a, a.T @ (scale * by_own) @ a
        return SoftmaxExpectation(
            value,
            self.alpha * (a.T @ (self.gains * grad_mean)),
            self.alpha * (self.alpha + self.gamma) * (by_off + by_own),
            self.alpha**2 * by_own,
            # A mean sits at the own token alone, where ∂²/∂m_s∂m_t = ∂/∂D_st by the heat equation.
            2 * self.alpha**2 * by_own,
        )

    def with_error(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, order: int) -> SoftmaxExpectation:
        """:meth:`expectation` with an error: the distance to a coarser grid, whose own error is the larger one."""
        fine = self.expectation(mean, q1, q2, order)
        return _with_gap(fine, self.expectation(mean, q1, q2, order, COARSE))

    def tied(self, q: FloatArray) -> tuple[float, FloatArray, float]:
        """(Φ, ∇Φ, error) at q1 = q2 = q and zero mean; the relative error is measured once for every band of q."""
        zero = np.zeros(len(q))
        found = self.expectation(zero, q, q, 1)
        key, representative = self._band(q)
        if key not in self._errors:
            there = self.with_error(zero, representative, representative, 1)
            size = max(abs(there.value), float(np.abs(there.q1 + there.q2).max()), 1e-300)
            self._errors[key] = there.error / size
        gradient = found.q1 + found.q2
        return found.value, gradient, self._errors[key] * max(abs(found.value), float(np.abs(gradient).max()))

    def _band(self, q: FloatArray) -> tuple[tuple[int, ...], FloatArray]:
        """Half octaves of the variances and tenths of the correlations, and the q in their middle."""
        count = len(q)
        octaves = [max(-60, round(2 * math.log2(max(q.item(k, k), 1e-9)))) for k in range(count)]
        deviations = np.array([2.0 ** (n / 4) for n in octaves])
        true = np.sqrt(np.maximum(np.diagonal(q), 0.0))
        tenths = [
            round(10 * q.item(k, l) / (true.item(k) * true.item(l))) if true.item(k) * true.item(l) > 0 else 0
            for k in range(count)
            for l in range(k)
        ]
        correlation = np.eye(count)
        correlation[np.tril_indices(count, -1)] = np.array(tenths) / 10
        correlation = np.tril(correlation) + np.tril(correlation, -1).T
        if count > 2:
            # Rounded correlations of several heads may not be a covariance.
            lowest = float(np.linalg.eigvalsh(correlation)[0])
            correlation = (correlation + max(0.0, -lowest) * np.eye(count)) / (1 + max(0.0, -lowest))
        return (*octaves, *tenths), np.clip(correlation, -1.0, 1.0) * np.outer(deviations, deviations)

    def _averages(
        self, s: int, m: FloatArray, first: FloatArray, own: FloatArray, resolution: Resolution
    ) -> RowAverages:
        off, diagonal = max(first.item(s, s), 0.0), max(own.item(s, s), 0.0)
        return _cached_averages(self.lengths, off, diagonal, m.item(s), resolution)

    def _squared_error(
        self,
        m: FloatArray,
        first: FloatArray,
        own: FloatArray,
        order: int,
        resolution: Resolution,
        gradients: tuple[FloatArray, FloatArray, FloatArray],
    ) -> float:
        grad_mean, by_off, by_own = gradients
        weights = self.coupling
        # A row of one token gives every head the output 1.
        value = 0.5 * float(weights.sum()) * self.lengths.constant_rows
        if self.lengths.rows == 0:
            return value
        for s in range(len(m)):
            if weights.item(s, s) != 0.0:
                square = self._averages(s, m, first, own, resolution).square
                value += 0.5 * weights.item(s, s) * square.item(0)
                by_off[s, s] += 0.5 * weights.item(s, s) * square.item(1)
                by_own[s, s] += 0.5 * weights.item(s, s) * square.item(2)
                grad_mean[s] += 0.5 * weights.item(s, s) * square.item(3)
            for t in range(s):
                weight = weights.item(s, t)
                if weight == 0.0:
                    continue
                pair = [t, s]
                block = np.ix_(pair, pair)
                found = row_overlap(
                    self.lengths, _covariance(first[block]), _covariance(own[block]), m[pair], resolution, order
                )
                value += weight * found.value
                for target, parts in ((by_off, found.off), (by_own, found.own)):
                    target[t, t] += weight * parts.item(0)
                    target[s, s] += weight * parts.item(2)
                    target[s, t] = target[t, s] = 0.5 * weight * parts.item(1)
                grad_mean[pair] += weight * found.mean
        return value

    def _cross_entropy(
        self,
        m: FloatArray,
        first: FloatArray,
        own: FloatArray,
        resolution: Resolution,
        gradients: tuple[FloatArray, FloatArray, FloatArray],
    ) -> float:
        grad_mean, by_off, by_own = gradients
        if self.lengths.rows == 0:
            return 0.0
        partition = self._averages(0, m, first, own, resolution).log_partition
        value = partition.item(0)
        by_off[0, 0], by_own[0, 0], grad_mean[0] = partition.item(1), partition.item(2), partition.item(3)
        rows = np.array([float(self.lengths.rows), 0.0, 0.0, 0.0])
        for t in range(1, len(m)):
            weight = self.coupling.item(0, t)
            if weight == 0.0:
                continue
            teacher = self._averages(t, m, first, own, resolution)
            elsewhere = rows - teacher.own - teacher.others_square
            here = teacher.own - teacher.own_square
            # (value, ∂Q_tt, ∂D_tt, ∂m_t) of E Σ_j σ_j(h) g_j.
            aligned = first.item(0, t) * elsewhere + own.item(0, t) * here + m.item(0) * teacher.own
            value -= weight * aligned.item(0)
            by_off[t, t] -= weight * aligned.item(1)
            by_own[t, t] -= weight * aligned.item(2)
            grad_mean[t] -= weight * aligned.item(3)
            by_off[0, t] = by_off[t, 0] = -0.5 * weight * elsewhere.item(0)
            by_own[0, t] = by_own[t, 0] = -0.5 * weight * here.item(0)
            grad_mean[0] -= weight * teacher.own.item(0)
        return value


def _covariance(block: FloatArray) -> FloatArray:
    """A 2 × 2 block with its rounding cut off: variances ≥ 0 and a correlation within ±1."""
    a, b = max(block.item(0), 0.0), max(block.item(3), 0.0)
    bound = math.sqrt(a * b)
    c = min(bound, max(-bound, block.item(1)))
    return np.array([[a, c], [c, b]])


def _with_gap(fine: SoftmaxExpectation, coarse: SoftmaxExpectation) -> SoftmaxExpectation:
    gaps = [abs(fine.value - coarse.value)]
    for name in ("mean", "q1", "q2"):
        gaps.append(float(np.abs(getattr(fine, name) - getattr(coarse, name)).max()))
    return SoftmaxExpectation(fine.value, fine.mean, fine.q1, fine.q2, fine.mean_hessian, max(gaps))


__all__ = ["SoftmaxExpectation", "SoftmaxRows", "exchangeable"]
