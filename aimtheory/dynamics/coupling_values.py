"""The couplings of the drift as numbers: the gradients of the potential at the current order parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.dynamics.fast_mean import FastMean
from aimtheory.errors import AssumptionError, NumericsError
from aimtheory.hierarchy import Coupling, Views
from aimtheory.hierarchy.closed_system import ClosedSystem
from aimtheory.hierarchy.initial_moments import initial_means
from aimtheory.hierarchy.observables import OverlapReader, TracePolynomial, mean_index, named_observable, trace_drift
from aimtheory.model import AttentionModel
from aimtheory.population import Potential, nearest_covariance, potential, sampled_potential
from aimtheory.words import Word

FloatArray = NDArray[np.float64]
Moments = Callable[[Sequence[Word]], FloatArray]

_CHECK_SAMPLES = 1 << 15

_SLOWEST = 1e-8
"""Least speed t^A + t^B of a mean, below which it no longer relaxes faster than the moments."""


@dataclass(frozen=True)
class OrderParameters:
    """What the potential is a function of: means m (K,), q1_kl = tr(S_k S_l^T) and q2_kl = tr(S_k S_l), (K, K)."""

    mean: FloatArray
    q1: FloatArray
    q2: FloatArray


class CouplingValues:
    """Evaluates g_kl, beta_k, gamma and the loss Phi from the moments of a state.

    The second moments are read off the state and projected onto the cone {q1 +- q2 >= 0} on which the Gaussian law
    exists (a truncated state may leave it, [D] F.2; ``left_cone`` remembers the farthest). Centred forms have zero
    mean. Otherwise the trained means sit at m*(q), and the bias beta_k is what keeps them there: tr S_k = O(d^{-1/2})
    must not grow, so that d tr S_k/dt = 0 as a linear equation for beta; for untied attention this is beta_k =
    -psi_k/(t^A_k + t^B_k) ([D] (30)).
    """

    def __init__(self, model: AttentionModel, views: Views, start_mean: FloatArray | None = None) -> None:
        self.model = model
        self.views = views
        self.potential: Potential = potential(model.loss, model.tokens, model.covariance_matrix)
        self.count = len(model.indices)
        self.symmetric = all(matrix.is_symmetric for matrix in views.matrices)
        reader = OverlapReader.of(views)
        pairs = [(k, l) for k in range(self.count) for l in range(self.count)]
        plain = [reader.plain[k][l] for k, l in pairs]
        transposed = [reader.transposed[k][l] for k, l in pairs]
        biased = [c for c in views.couplings if c.kind == "bias"]
        #: drift of tr S_k carried by each coupling, one row a trained index with a mean
        self._bias = {
            c: {other: trace_drift(views, views.matrices[c.k], other) for other in views.couplings} for c in biased
        }
        parts = [p for row in self._bias.values() for p in row.values()]
        self.words: tuple[Word, ...] = tuple(dict.fromkeys(w for p in (*plain, *transposed, *parts) for w in p.words))
        self._position = {word: n for n, word in enumerate(self.words)}
        self._plain = self._linear(plain)
        self._transposed = self._linear(transposed)
        self._drifts = {c: {o: self._linear([p]) for o, p in row.items()} for c, row in self._bias.items()}
        self.left_cone = 0.0
        self.cubature_error = 0.0
        self.slowest = np.inf
        self.fast: FastMean | None = None
        start = initial_means(model) if start_mean is None else np.asarray(start_mean, dtype=np.float64)
        self.start_mean = start
        if not model.centred:
            trained = np.array([any(c.k == k for c in biased) for k in range(self.count)])
            self.fast = FastMean(self.potential, trained, start)

    def _linear(self, polynomials: Sequence[TracePolynomial]) -> tuple[FloatArray, FloatArray]:
        matrix = np.zeros((len(polynomials), len(self.words)))
        for row, polynomial in enumerate(polynomials):
            for word, coefficient in zip(polynomial.words, polynomial.coefficients, strict=True):
                matrix[row, self._position[word]] += coefficient
        return matrix, np.array([p.constant for p in polynomials])

    def restart(self, mean: FloatArray | None = None) -> None:
        """Forget the branch of means followed so far: start at ``mean``, or let the fast flow find it."""
        if self.fast is not None:
            self.fast.restart(mean)

    def order_parameters(self, moments: Moments) -> OrderParameters:
        """The order parameters at a state: overlaps projected onto the cone, means slaved to them."""
        return self._order_parameters(moments(self.words))

    def _order_parameters(self, values: FloatArray) -> OrderParameters:
        plain = (self._plain[0] @ values + self._plain[1]).reshape(self.count, self.count)
        if self.symmetric:
            plain = self._project(plain)
            return OrderParameters(np.zeros(self.count), plain, plain)
        transposed = (self._transposed[0] @ values + self._transposed[1]).reshape(self.count, self.count)
        plus, minus = self._project(transposed + plain), self._project(transposed - plain)
        first, second = (plus + minus) / 2, (plus - minus) / 2
        mean = np.zeros(self.count)
        if self.fast is not None:
            mean = self.fast.follow(first, second, lambda: self._speeds(values))
        return OrderParameters(mean, first, second)

    def _speeds(self, values: FloatArray) -> FloatArray:
        """-d tr S_k/dt per unit beta_k, t^A_k + t^B_k for untied attention; infinite for means that stay."""
        speeds = np.full(self.count, np.inf)
        for c, row in self._drifts.items():
            matrix, constant = row[c]
            speeds[c.k] = -float((matrix @ values + constant)[0])
        slowest = float(speeds.min())
        self.slowest = min(self.slowest, slowest)
        if slowest <= _SLOWEST:
            raise AssumptionError(
                f"t^A + t^B of index {int(speeds.argmin()) + 1} has fallen to {slowest:.3g}: the mean no longer "
                "relaxes faster than the moments, and the "
                "fast-slow limit (Theorem 3) does not hold past here"
            )
        return speeds

    def _project(self, matrix: FloatArray) -> FloatArray:
        if not np.isfinite(matrix).all():
            raise NumericsError("the overlaps of the state are not finite: the closed equations blew up")
        projected = nearest_covariance(matrix)
        distance = float(np.abs(projected - matrix).max())
        # Rounding moves a singular overlap slightly; only a true departure is remembered.
        if distance > 1e-10 * max(1.0, float(np.abs(matrix).max())):
            self.left_cone = max(self.left_cone, distance)
        return projected

    def __call__(self, moments: Moments) -> FloatArray:
        """The couplings in the order of ``views.couplings``."""
        values = moments(self.words)
        order = self._order_parameters(values)
        if self.symmetric:
            gradient, error = self.potential.tied_gradient(order.q1)
            self._remember(error, gradient)
            by_kind = {"gradient": gradient}
        else:
            result = self.potential.gradients(order.mean, order.q1, order.q2)
            self._remember(result.error, result.q1, result.q2)
            by_kind = {"gradient_transposed": result.q1, "gradient_plain": result.q2}
        decay = float(self.model.weight_decay)
        known = {
            c: decay if c.kind == "decay" else float(by_kind[c.kind][c.k, c.l])
            for c in self.views.couplings
            if c.kind != "bias"
        }
        known |= self._biases(known, values)
        return np.array([known[c] for c in self.views.couplings], dtype=np.float64)

    def _remember(self, error: float, *gradients: FloatArray) -> None:
        """Keep the largest error of the cubature, relative to the gradients it is an error of."""
        size = max(float(np.abs(g).max()) for g in gradients)
        self.cubature_error = max(self.cubature_error, error / max(size, 1e-12) if error > 0 else 0.0)

    def doubt(self, moments: Moments) -> str | None:
        """Why the gradients at a state are not to be trusted, from Monte Carlo that shares nothing with the cubature.

        None when they agree within six standard errors (false alarm 1e-8 an entry), when they are closed forms, or
        when the overlaps are too singular for the likelihood ratio.
        """
        if self.potential.has_closed_form:
            return None
        order = self.order_parameters(moments)
        sampled = sampled_potential(
            self.model.loss, self.model.covariance_matrix, order.mean, order.q1, order.q2, samples=_CHECK_SAMPLES
        )
        if sampled is None:
            return None
        if self.symmetric:
            gradient, error = self.potential.tied_gradient(order.q1)
            pairs = [("g", gradient, 2 * sampled.plus, 2 * sampled.plus_error)]
        else:
            result = self.potential.gradients(order.mean, order.q1, order.q2)
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

    def _biases(self, known: dict[Coupling, float], values: FloatArray) -> dict[Coupling, float]:
        """beta from d tr S_k/dt = 0 over the trained indices with a mean."""
        if not self._drifts:
            return {}
        self._speeds(values)
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
        return dict(zip(biases, np.linalg.solve(matrix, right).tolist(), strict=True))

    def loss(self, moments: Moments) -> float:
        """Phi at the state, the population loss without the weight decay term."""
        order = self.order_parameters(moments)
        if self.symmetric:
            return float(self.potential.tied_value(order.q1).value)
        return float(self.potential.value(order.mean, order.q1, order.q2).value)

    def mean(self, moments: Moments) -> FloatArray:
        """The means m_k at the state, shape (K,)."""
        return self.order_parameters(moments).mean


def read_observables(
    system: ClosedSystem, couplings: CouplingValues, names: Sequence[str], states: FloatArray
) -> dict[str, FloatArray]:
    """Named observables at the states of a closed system, each of shape (number of states,)."""
    readers = {
        name: None
        if name == "loss" or mean_index(name, couplings.model) is not None
        else named_observable(name, couplings.model, couplings.views)
        for name in names
    }
    values = {name: np.empty(len(states)) for name in names}
    for row, state in enumerate(states):

        def moments(words: Sequence[Word], state: FloatArray = state) -> FloatArray:
            return system.moments(words, state)

        for name, reader in readers.items():
            if reader is not None:
                values[name][row] = reader(moments)
            elif name == "loss":
                values[name][row] = couplings.loss(moments)
            else:
                values[name][row] = couplings.mean(moments)[mean_index(name, couplings.model)]
    return values


__all__ = ["CouplingValues", "OrderParameters", "read_observables"]
