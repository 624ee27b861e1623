"""The couplings of the drift as numbers: the gradients of the potential at the current order parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.branch import Branch
from aimtheory.dynamics.fast_mean import FastMean
from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.hierarchy import Coupling, Views
from aimtheory.hierarchy.initial_moments import initial_means
from aimtheory.hierarchy.observables import Moments, OverlapReader, TracePolynomial, trace_drift
from aimtheory.model import AttentionModel
from aimtheory.population import PopulationLoss, nearest_covariance, population_loss
from aimtheory.words import Word

_CHECK_SAMPLES = 1 << 15

_SLOWEST = 1e-8
"""Least speed t^A + t^B of a mean, below which it no longer relaxes faster than the moments."""


@dataclass(frozen=True)
class Diagnostics:
    """What was met while couplings were evaluated; ``worse`` keeps the worst of many evaluations.

    ``left_cone`` is the farthest that the overlaps left the covariance cone {q1 +- q2 >= 0}, ``cubature_error`` the
    largest error of the gradients relative to their size, ``slowest`` the least speed t^A + t^B of a mean.
    """

    left_cone: float = 0.0
    cubature_error: float = 0.0
    slowest: float = np.inf

    def worse(self, other: Diagnostics) -> Diagnostics:
        """The worst of both."""
        return Diagnostics(
            max(self.left_cone, other.left_cone),
            max(self.cubature_error, other.cubature_error),
            min(self.slowest, other.slowest),
        )


@dataclass(frozen=True)
class OrderParameters:
    """What the potential is a function of: means m (K,), q1_kl = tr(S_k S_l^T) and q2_kl = tr(S_k S_l), (K, K), and the
    explicit traces R.

    ``branch`` is that of the means, None where none is slaved; ``left_cone`` how far the overlaps were projected.
    """

    mean: FloatArray
    q1: FloatArray
    q2: FloatArray
    traces: FloatArray
    branch: Branch | None = None
    left_cone: float = 0.0


@dataclass(frozen=True)
class Evaluation:
    """The couplings at a state, in the order of ``views.couplings``, the branch there, and what was met."""

    couplings: FloatArray
    branch: Branch | None
    diagnostics: Diagnostics


class CouplingValues:
    """Evaluates g_kl, beta_k, gamma and the loss Phi from the moments of a state and the branch of its means.

    A function of its arguments alone: nothing is remembered from one call to the next. The second moments are read off
    the state and projected onto the cone {q1 +- q2 >= 0} on which the Gaussian law exists (a truncated state may leave
    it, [D] F.2). Centred forms have zero mean. Otherwise the trained means sit at m*(q), on the branch given (None: at
    the end of the fast flow from m(0)), and the bias beta is what keeps them there: tr S_k = O(d^{-1/2}) must not grow
    along any combination of means on which Phi depends, a linear equation for beta; for untied attention this is beta_k
    = -psi_k/(t^A_k + t^B_k) ([D] (30)).
    """

    def __init__(self, model: AttentionModel, views: Views, start_mean: FloatArray | None = None) -> None:
        self.model = model
        self.views = views
        self.potential: PopulationLoss = population_loss(model)
        self.count = len(views.matrices)
        self.symmetric = all(matrix.is_symmetric for matrix in views.matrices)
        reader = OverlapReader.of(views)
        pairs = [(k, l) for k in range(self.count) for l in range(self.count)]
        plain = [reader.plain[k][l] for k, l in pairs]
        transposed = [reader.transposed[k][l] for k, l in pairs]
        biased = [c for c in views.couplings if c.kind == "bias"]
        #: drift of tr S_k carried by each coupling, one row a trained index with a mean
        rows = {c: {other: trace_drift(views, views.matrices[c.k], other) for other in views.couplings} for c in biased}
        parts = [p for row in rows.values() for p in row.values()]
        explicit = [TracePolynomial.of(views.traces[name]) for name in model.loss.traces]
        needed = (*plain, *transposed, *parts, *explicit)
        self.words: tuple[Word, ...] = tuple(dict.fromkeys(word for p in needed for word in p.words))
        self._position = {word: n for n, word in enumerate(self.words)}
        self._plain = self._linear(plain)
        self._transposed = self._linear(transposed)
        self._explicit = self._linear(explicit)
        self._drifts = {c: {o: self._linear([p]) for o, p in row.items()} for c, row in rows.items()}
        self.start_mean = initial_means(model) if start_mean is None else np.asarray(start_mean, dtype=np.float64)
        trained = np.array([any(c.k == k for c in biased) for k in range(self.count)])
        # Explicit traces move with the state: the fast means are bound to their values where they are asked for.
        bound = self.potential.at(np.ones(len(explicit)))
        self.fast = None if model.centred else FastMean(bound, trained, self.start_mean)

    def _linear(self, polynomials: Sequence[TracePolynomial]) -> tuple[FloatArray, FloatArray]:
        matrix = np.zeros((len(polynomials), len(self.words)))
        for row, polynomial in enumerate(polynomials):
            for word, coefficient in zip(polynomial.words, polynomial.coefficients, strict=True):
                matrix[row, self._position[word]] += coefficient
        return matrix, np.array([p.constant for p in polynomials])

    @cached_property
    def _curved(self) -> FloatArray | None:
        """Directions of the trained means on which Phi depends, (trained, r), or None when it depends on all."""
        if self.fast is None or len(self.fast.moving) < 2:
            return None
        basis = self.fast.curved
        return None if basis.shape[0] == basis.shape[1] else basis

    def order_parameters(self, moments: Moments, branch: Branch | None = None) -> OrderParameters:
        """The order parameters at a state: overlaps projected onto the cone, means slaved to them on a branch."""
        return self._order_parameters(moments(self.words), branch)

    def _order_parameters(self, values: FloatArray, branch: Branch | None) -> OrderParameters:
        first, second, left = self._overlaps(values)
        traces = self._explicit[0] @ values + self._explicit[1]
        if self.fast is None:
            return OrderParameters(np.zeros(self.count), first, second, traces, None, left)
        fast = replace(self.fast, potential=self.potential.at(traces)) if len(traces) else self.fast
        if branch is None:
            there = fast.relax(first, second, self._speeds(values)).branch
        else:
            there = fast.follow(first, second, branch)
        return OrderParameters(there.mean, first, second, traces, there, left)

    def overlaps(self, moments: Moments) -> tuple[FloatArray, FloatArray]:
        """q1 and q2 at a state, (K, K), projected onto the cone."""
        return self._overlaps(moments(self.words))[:2]

    def _overlaps(self, values: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        plain = (self._plain[0] @ values + self._plain[1]).reshape(self.count, self.count)
        if self.symmetric:
            plain, left = _project(plain)
            return plain, plain, left
        transposed = (self._transposed[0] @ values + self._transposed[1]).reshape(self.count, self.count)
        (plus, left_plus), (minus, left_minus) = _project(transposed + plain), _project(transposed - plain)
        return (plus + minus) / 2, (plus - minus) / 2, max(left_plus, left_minus)

    def fast_from(self, mean: FloatArray) -> FastMean:
        """The fast means of forms that are not centred, from a start of their own, (K,)."""
        if self.fast is None:
            raise InputError("the forms of this model are centred; they have no mean")
        return replace(self.fast, start=mean)

    def speeds(self, moments: Moments) -> FloatArray:
        """-d tr S_k/dt per unit beta_k, t^A_k + t^B_k for untied attention, (K,); infinite for means that stay.

        Raises ``AssumptionError`` where one is too small for the means to be fast.
        """
        return self._speeds(moments(self.words))

    def _speeds(self, values: FloatArray) -> FloatArray:
        speeds = np.full(self.count, np.inf)
        for c, row in self._drifts.items():
            matrix, constant = row[c]
            speeds[c.k] = -float((matrix @ values + constant)[0])
        slowest = float(speeds.min())
        if slowest <= _SLOWEST:
            raise AssumptionError(
                f"t^A + t^B of index {int(speeds.argmin()) + 1} has fallen to {slowest:.3g}: the mean no longer "
                "relaxes faster than the moments, and the "
                "fast-slow limit (Theorem 3) does not hold past here"
            )
        return speeds

    def evaluate(self, moments: Moments, branch: Branch | None = None) -> Evaluation:
        """The couplings at a state on a branch, the branch there, and what was met."""
        values = moments(self.words)
        order = self._order_parameters(values, branch)
        if self.symmetric:
            gradient, by_trace, error = self.potential.tied_gradients(order.q1, order.traces)
            by_kind = {"gradient": gradient}
        else:
            result = self.potential.gradients(order.mean, order.q1, order.q2, order.traces)
            by_trace, error = result.traces, result.error
            by_kind = {"gradient_transposed": result.q1, "gradient_plain": result.q2}
        slopes = dict(zip(self.potential.names, by_trace.tolist(), strict=True))
        known: dict[Coupling, float] = {}
        for c in self.views.couplings:
            if c.kind == "decay":
                known[c] = float(self.model.weight_decay)
            elif c.kind == "trace":
                known[c] = slopes[c.trace]
            elif c.kind != "bias":
                known[c] = float(by_kind[c.kind][c.k, c.l])
        slowest = np.inf
        if self._drifts:
            slowest = float(self._speeds(values).min())
            known |= self._biases(known, values)
        size = max(float(np.abs(g).max()) for g in by_kind.values())
        relative = error / max(size, 1e-12) if error > 0 else 0.0
        couplings = np.array([known[c] for c in self.views.couplings], dtype=np.float64)
        return Evaluation(couplings, order.branch, Diagnostics(order.left_cone, relative, slowest))

    def _biases(self, known: dict[Coupling, float], values: FloatArray) -> dict[Coupling, float]:
        """beta from d tr S_k/dt = 0 over the trained indices with a mean.

        Where Phi does not depend on a combination of means, beta = sqrt(d) dPhi/dm has no part along it and nothing
        holds that combination of traces.
        """
        biases = list(self._drifts)
        matrix = np.zeros((len(biases), len(biases)))
        right = np.zeros(len(biases))
        for row, c in enumerate(biases):
            for other, (linear, constant) in self._drifts[c].items():
                value = float((linear @ values + constant)[0])
                if other.kind == "bias":
                    matrix[row, biases.index(other)] = value
                else:
                    right[row] -= known[other] * value
        basis = self._curved
        if basis is None:
            solution = np.linalg.solve(matrix, right)
        else:
            solution = basis @ np.linalg.solve(basis.T @ matrix @ basis, basis.T @ right)
        return dict(zip(biases, solution.tolist(), strict=True))

    def doubt(self, moments: Moments, branch: Branch | None = None) -> str | None:
        """Why the gradients at a state are not to be trusted, from Monte Carlo that shares nothing with the cubature.

        None when they agree within six standard errors (false alarm 1e-8 an entry), when they are closed forms, or
        when the overlaps are too singular for the likelihood ratio.
        """
        if self.potential.has_closed_form:
            return None
        order = self.order_parameters(moments, branch)
        sampled = self.potential.sampled(order.mean, order.q1, order.q2, order.traces, samples=_CHECK_SAMPLES)
        if sampled is None:
            return None
        if self.symmetric:
            gradient, _, error = self.potential.tied_gradients(order.q1, order.traces)
            pairs = [("g", gradient, 2 * sampled.plus, 2 * sampled.plus_error)]
        else:
            result = self.potential.gradients(order.mean, order.q1, order.q2, order.traces)
            error = result.error
            pairs = [
                ("g1 + g2", result.q1 + result.q2, 2 * sampled.plus, 2 * sampled.plus_error),
                ("g1 - g2", result.q1 - result.q2, 2 * sampled.minus, 2 * sampled.minus_error),
            ]
        for name, ours, theirs, spread in pairs:
            if not spread.any():
                continue
            away = np.abs(ours - theirs) - 6 * spread - 2 * error
            k, l = np.unravel_index(int(away.argmax()), away.shape)
            if away[k, l] > 0:
                return (
                    f"the cubature of {name}_{k + 1}{l + 1} gives {ours[k, l]:.4g} where Monte Carlo gives "
                    f"{theirs[k, l]:.4g} +- {spread[k, l]:.1g}: the loss has a "
                    "feature that the nodes do not resolve (too steep, as a softmax at a large inverse temperature)"
                )
        return None

    def loss(self, order: OrderParameters) -> float:
        """Phi at order parameters, the population loss without the weight decay term."""
        if self.symmetric:
            return float(self.potential.tied_value(order.q1, order.traces).value)
        return float(self.potential.value(order.mean, order.q1, order.q2, order.traces).value)


def _project(matrix: FloatArray) -> tuple[FloatArray, float]:
    """The nearest covariance and how far it is away."""
    if not np.isfinite(matrix).all():
        raise NumericsError("the overlaps of the state are not finite: the closed equations blew up")
    projected = nearest_covariance(matrix)
    distance = float(np.abs(projected - matrix).max())
    # Rounding moves a singular overlap slightly; only a true departure counts.
    return projected, distance if distance > 1e-10 * max(1.0, float(np.abs(matrix).max())) else 0.0


__all__ = ["CouplingValues", "Diagnostics", "Evaluation", "OrderParameters"]
