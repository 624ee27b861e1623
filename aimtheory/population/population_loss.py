"""The population loss of a whole model: explicit traces beside the forms, and a mixture of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.errors import InputError
from aimtheory.model import AttentionModel, Context
from aimtheory.model.losses import Loss, trace_symbol
from aimtheory.population.estimate import Estimate, PotentialGradients
from aimtheory.population.likelihood_ratio import SampledPotential, sampled_potential
from aimtheory.population.pathwise import PathwisePotential
from aimtheory.population.potential import Potential, potential

FloatArray = np.ndarray


@dataclass(frozen=True, eq=False)
class ContextPotential:
    """Φ(m, q1, q2; R) = E 𝓛(G; R) for the tokens of one context.

    ``parts`` are potentials of losses of the forms alone. A loss that is a sum of R_r times a term has one part a term;
    any other is one part in which every trace is an index whose form has the mean R_r and no spread (``shift`` of them,
    as forms of the token ``token``).
    """

    loss: Loss
    context: Context
    parts: tuple[Potential, ...]
    linear: bool
    token: int

    @classmethod
    def of(cls, loss: Loss, context: Context, tolerance: float) -> ContextPotential:
        """The potential of a loss in one context."""
        terms = loss.trace_terms() if loss.traces else None
        variances = [1.0] if context.token_covariance is None else np.diagonal(context.token_covariance)
        token = int(np.argmax(variances))
        losses = (loss.traces_as_indices(token),) if terms is None else terms
        parts = tuple(potential(each, context.tokens, context.token_covariance, tolerance=tolerance) for each in losses)
        return cls(loss, context, parts, terms is not None, token)

    @cached_property
    def covariance(self) -> FloatArray:
        """C as an L x L array."""
        return self.context.covariance_matrix

    @property
    def has_closed_form(self) -> bool:
        """True when every part is closed for all order parameters."""
        return all(part.has_closed_form for part in self.parts)

    @property
    def terms(self) -> tuple[tuple[str | None, Potential], ...] | None:
        """Potentials that add up to Φ, each with the trace that multiplies it; None where traces enter otherwise."""
        if not self.linear:
            return None if self.loss.traces else ((None, self.parts[0]),)
        return tuple(zip(self.loss.traces, self.parts, strict=True))

    @property
    def _scale(self) -> float:
        """E G of the form of a trace per unit of its mean."""
        covariance = self.context.token_covariance
        return 1.0 if covariance is None else float(covariance[self.token][self.token])

    def _extended(
        self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        extra = len(traces)
        if not extra:
            return mean, q1, q2
        pad = ((0, extra), (0, extra))
        return np.concatenate([mean, traces / self._scale]), np.pad(q1, pad), np.pad(q2, pad)

    def value(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> Estimate:
        """Φ."""
        if not self.linear:
            return self.parts[0].value(*self._extended(mean, q1, q2, traces))
        found = [part.value(mean, q1, q2) for part in self.parts]
        return _combined(found, traces)

    def gradients(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> PotentialGradients:
        """Gradients by means, overlaps and traces."""
        k = len(mean)
        if not self.linear:
            found = self.parts[0].gradients(*self._extended(mean, q1, q2, traces))
            by_trace = found.mean[k:] / self._scale
            return PotentialGradients(
                found.mean[:k], found.q1[:k, :k], found.q2[:k, :k], found.error, found.method, by_trace
            )
        slopes = [part.gradients(mean, q1, q2) for part in self.parts]
        values = [part.value(mean, q1, q2) for part in self.parts]
        error = sum(abs(r) * slope.error for r, slope in zip(traces, slopes, strict=True))
        return PotentialGradients(
            sum((r * slope.mean for r, slope in zip(traces, slopes, strict=True)), np.zeros(k)),
            sum((r * slope.q1 for r, slope in zip(traces, slopes, strict=True)), np.zeros((k, k))),
            sum((r * slope.q2 for r, slope in zip(traces, slopes, strict=True)), np.zeros((k, k))),
            max([float(error), *(value.error for value in values)]),
            slopes[0].method,
            np.array([value.value for value in values]),
        )

    def mean_hessian(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> FloatArray:
        """∂²Φ/∂m∂m."""
        k = len(mean)
        if not self.linear:
            return self.parts[0].mean_hessian(*self._extended(mean, q1, q2, traces))[:k, :k]
        parts = zip(traces, self.parts, strict=True)
        return np.asarray(sum((r * part.mean_hessian(mean, q1, q2) for r, part in parts), np.zeros((k, k))))

    def tied_value(self, q: FloatArray, traces: FloatArray) -> Estimate:
        """Φ at q1 = q2 = q and zero mean."""
        if not len(traces):
            return self.parts[0].tied_value(q)
        if not self.linear:
            return self.value(np.zeros(len(q)), q, q, traces)
        return _combined([part.tied_value(q) for part in self.parts], traces)

    def tied_gradients(self, q: FloatArray, traces: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """(∇Φ by q, ∂Φ/∂R, error) on the tied line."""
        if not len(traces):
            gradient, error = self.parts[0].tied_gradient(q)
            return gradient, np.zeros(0), error
        if not self.linear:
            found = self.gradients(np.zeros(len(q)), q, q, traces)
            return found.tied, found.traces, found.error
        slopes = [part.tied_gradient(q) for part in self.parts]
        values = [part.tied_value(q) for part in self.parts]
        gradient = sum((r * slope for r, (slope, _) in zip(traces, slopes, strict=True)), np.zeros_like(q))
        error = sum(abs(r) * gap for r, (_, gap) in zip(traces, slopes, strict=True))
        return gradient, np.array([value.value for value in values]), max(float(error), *(v.error for v in values))

    def symbolic_value(self, mean: Any, q1: Any, q2: Any) -> sp.Expr | None:
        """Φ as a sympy expression, the traces as symbols of their names; None without a closed form."""
        names = [trace_symbol(name) for name in self.loss.traces]
        if self.linear:
            terms = [part.symbolic_value(mean, q1, q2) for part in self.parts]
            return (
                None if any(t is None for t in terms) else sp.Add(*(r * t for r, t in zip(names, terms, strict=True)))
            )
        if not names:
            return self.parts[0].symbolic_value(mean, q1, q2)
        scale = sp.nsimplify(self._scale)
        first, second = (sp.diag(sp.Matrix(q), sp.zeros(len(names))) for q in (q1, q2))
        return self.parts[0].symbolic_value([*mean, *(r / scale for r in names)], first, second)


def _combined(found: Sequence[Estimate], traces: FloatArray) -> Estimate:
    value = sum(float(r) * each.value for r, each in zip(traces, found, strict=True))
    error = sum(abs(float(r)) * each.error for r, each in zip(traces, found, strict=True))
    return Estimate(float(value), float(error), found[0].method)


@dataclass(frozen=True, eq=False)
class PopulationLoss:
    """Φ(m, q1, q2; R) of a model: the weighted sum over its contexts, with gradients by every order parameter.

    Same conventions as ``Potential``: off-diagonal gradients are half the derivative by the shared variable. ``traces``
    are the values of the explicit order parameters that the loss reads, in the order of ``names``. Make one with
    :func:`population_loss`.
    """

    indices: int
    names: tuple[str, ...]
    contexts: tuple[tuple[float, ContextPotential | PathwisePotential], ...]

    @property
    def has_closed_form(self) -> bool:
        """True when Φ is closed for all order parameters."""
        return all(part.has_closed_form for _, part in self.contexts)

    @property
    def terms(self) -> tuple[tuple[float, tuple[tuple[str | None, Potential], ...] | None], ...]:
        """The weight of every context, with the potentials that add up to its part and the traces they multiply."""
        return tuple((weight, part.terms) for weight, part in self.contexts)

    def _traces(self, traces: ArrayLike) -> FloatArray:
        array = np.asarray(traces, dtype=np.float64)
        if array.shape != (len(self.names),):
            raise InputError(f"traces = {traces!r} must be {len(self.names)} numbers, the values of {self.names}")
        return array

    def value(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike, traces: ArrayLike = ()) -> Estimate:
        """Φ(m, q1, q2; R); ``mean=None`` is zero mean."""
        m, a, b = self._order(mean, q1, q2)
        R = self._traces(traces)
        return self._sum([(w, part.value(m, a, b, R)) for w, part in self.contexts])

    def _order(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        m = np.zeros(self.indices) if mean is None else np.asarray(mean, dtype=np.float64)
        return m, np.asarray(q1, dtype=np.float64), np.asarray(q2, dtype=np.float64)

    @staticmethod
    def _sum(found: Sequence[tuple[float, Estimate]]) -> Estimate:
        if len(found) == 1:
            return found[0][1]
        value = sum(w * each.value for w, each in found)
        return Estimate(float(value), float(sum(w * each.error for w, each in found)), found[0][1].method)

    def gradients(
        self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike, traces: ArrayLike = ()
    ) -> PotentialGradients:
        """Gradients by means (K,), overlaps (K, K) and traces (R,)."""
        m, a, b = self._order(mean, q1, q2)
        R = self._traces(traces)
        found = [(w, part.gradients(m, a, b, R)) for w, part in self.contexts]
        if len(found) == 1:
            return found[0][1]
        return PotentialGradients(
            np.sum([w * g.mean for w, g in found], axis=0),
            np.sum([w * g.q1 for w, g in found], axis=0),
            np.sum([w * g.q2 for w, g in found], axis=0),
            float(sum(w * g.error for w, g in found)),
            found[0][1].method,
            np.sum([w * g.traces for w, g in found], axis=0),
        )

    def mean_hessian(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike, traces: ArrayLike = ()) -> FloatArray:
        """∂²Φ/∂m_k∂m_l, (K, K)."""
        m, a, b = self._order(mean, q1, q2)
        R = self._traces(traces)
        return np.asarray(np.sum([w * part.mean_hessian(m, a, b, R) for w, part in self.contexts], axis=0))

    def tied_value(self, q: ArrayLike, traces: ArrayLike = ()) -> Estimate:
        """Φ(q; R) at q1 = q2 = q and zero mean."""
        matrix, R = np.asarray(q, dtype=np.float64), self._traces(traces)
        return self._sum([(w, part.tied_value(matrix, R)) for w, part in self.contexts])

    def tied_gradients(self, q: ArrayLike, traces: ArrayLike = ()) -> tuple[FloatArray, FloatArray, float]:
        """(∇Φ by q (K, K), ∂Φ/∂R (R,), error) on the tied line."""
        matrix, R = np.asarray(q, dtype=np.float64), self._traces(traces)
        found = [(w, part.tied_gradients(matrix, R)) for w, part in self.contexts]
        if len(found) == 1:
            return found[0][1]
        return (
            np.sum([w * g for w, (g, _, _) in found], axis=0),
            np.sum([w * t for w, (_, t, _) in found], axis=0),
            float(sum(w * e for w, (_, _, e) in found)),
        )

    def symbolic_value(self, mean: Any, q1: Any, q2: Any) -> sp.Expr | None:
        """Φ as a sympy expression of order parameters and symbols named as the traces; None without a closed form."""
        found = [(w, part.symbolic_value(mean, q1, q2)) for w, part in self.contexts]
        if any(value is None for _, value in found):
            return None
        if len(found) == 1:
            return found[0][1]
        return sp.Add(*(sp.nsimplify(w) * value for w, value in found))

    def at(self, traces: ArrayLike) -> BoundLoss:
        """The same function of means and overlaps alone, at values of the explicit traces."""
        return BoundLoss(self, self._traces(traces))

    def sampled(
        self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: ArrayLike = (), *, samples: int
    ) -> SampledPotential | None:
        """Φ and its gradients by q1 ± q2 by Monte Carlo, free of any cubature; None where overlaps are singular."""
        R = self._traces(traces)
        parts = []
        for weight, part in self.contexts:
            loss = part.loss.at(R.tolist(), part.covariance)
            found = sampled_potential(loss, part.covariance, mean, q1, q2, samples=samples)
            if found is None:
                return None
            parts.append((weight, found))
        if len(parts) == 1:
            return parts[0][1]

        def total(name: str) -> Any:
            return sum(w * getattr(found, name) for w, found in parts)

        def spread(name: str) -> Any:
            return np.sqrt(sum((w * getattr(found, name)) ** 2 for w, found in parts))

        return SampledPotential(
            float(total("value")),
            float(spread("value_error")),
            total("plus"),
            spread("plus_error"),
            total("minus"),
            spread("minus_error"),
        )


@dataclass(frozen=True, eq=False)
class BoundLoss:
    """A population loss at fixed values of the explicit traces: a function of means and overlaps alone."""

    whole: PopulationLoss
    traces: FloatArray

    def value(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> Estimate:
        """Φ."""
        return self.whole.value(mean, q1, q2, self.traces)

    def gradients(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> PotentialGradients:
        """Gradients by means and overlaps."""
        return self.whole.gradients(mean, q1, q2, self.traces)

    def mean_hessian(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> FloatArray:
        """∂²Φ/∂m∂m."""
        return self.whole.mean_hessian(mean, q1, q2, self.traces)


def population_loss(model: AttentionModel, *, tolerance: float = 1e-10) -> PopulationLoss:
    """The population loss of a model as a function of its order parameters.

    Cubature or closed forms to ``tolerance`` where the loss allows; a composite loss (networks of several layers) is
    averaged over sampled forms, its error one standard error, see :class:`PathwisePotential`.

    >>> import aimtheory as aim
    >>> phi = population_loss(aim.models.load("tied-linear"))
    >>> phi.tied_gradients([[1.0, 0.2], [0.2, 1.0]])[0]
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    contexts = tuple(
        (
            float(context.weight),
            PathwisePotential(model.loss, context)
            if model.loss.is_composite
            else ContextPotential.of(model.loss, context, tolerance),
        )
        for context in model.contexts
    )
    return PopulationLoss(len(model.forms), model.loss.traces, contexts)


__all__ = ["BoundLoss", "PopulationLoss", "population_loss"]
