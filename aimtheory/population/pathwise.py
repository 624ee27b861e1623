"""The population loss of composite losses: an average over sampled forms, one forward and one backward pass a sample.

A network of several layers has tens to thousands of forms and no pairwise structure, so that no cubature sees it. Its
loss is a short program, though: Φ = E 𝓛(G) is averaged over randomized quasi-Monte Carlo draws of the Gaussian forms,
and its derivatives by the order parameters follow from the gradient of 𝓛 alone by Stein's identity,

    dΦ = ½ Σ_rows Tr E[∂²𝓛/∂x∂xᵀ] dΣ,    E[∂²𝓛/∂x∂xᵀ] F = E[∂𝓛/∂x zᵀ],    x = μ + F z,  Σ = F Fᵀ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from aimtheory.model import Context
from aimtheory.model.losses import Loss
from aimtheory.population.covariance_cone import check_order_parameters
from aimtheory.population.estimate import Estimate, PotentialGradients
from aimtheory.population.quadrature import covariance_factor

FloatArray = np.ndarray

REPLICATES = 8
"""Independent scramblings, whose scatter is the error."""

_SOBOL = 256
"""Directions that get Sobol points; the others, of least influence, are pseudorandom."""

_BLOCK = 1 << 20
"""Numbers in the forms of one block of samples: they stay in the cache of a core."""

_EDGE = 2.0**-40
"""How far uniform numbers stay from 0 and 1."""

_PILOT = 512
"""Samples that order the directions by their influence."""


@dataclass(frozen=True, eq=False)
class _Moments:
    """Means over samples, one row a replicate: value, gradient by means and its product with the draws, traces."""

    value: FloatArray
    mean: FloatArray
    stein: FloatArray
    mean_stein: FloatArray
    traces: FloatArray


@dataclass(frozen=True, eq=False)
class PathwisePotential:
    """Φ(m, q1, q2; R) = E 𝓛(G; R) of one context by randomized quasi-Monte Carlo, for a loss of very many forms.

    Same conventions as ``Potential``. G = T Γ Tᵀ with C = T Tᵀ; Γ_ii and (Γ_ij ± Γ_ji)/√2 are independent rows of K
    forms each, of covariance q1 + q2 (diagonal, +) and q1 − q2 (−). Eight scrambled Sobol sequences of
    2**``log2_points`` points (values) or 2**``log2_gradient_points`` (derivatives, made for use inside an integrator),
    whose scatter gives ``error``: one standard error. The seed is fixed, so that Φ is a smooth function of the order
    parameters and the same at every call.

    Derivatives come from Stein's identity, and are those along the range of q1 ± q2: a direction v of forms with
    Σ_k v_k S_k = 0 is left out, which changes neither Φ nor the flow of any parameter, whose pull-back Σ_k ∇_lk S_k
    does not see it.
    """

    loss: Loss
    context: Context
    log2_points: int = 14
    log2_gradient_points: int = 11
    seed: int = 0

    @property
    def covariance(self) -> FloatArray:
        """C as an L x L array."""
        return self.context.covariance_matrix

    @property
    def has_closed_form(self) -> bool:
        """Never."""
        return False

    @property
    def terms(self) -> None:
        """None: it is no sum of potentials of plain losses."""
        return None

    def symbolic_value(self, mean: Any, q1: Any, q2: Any) -> None:  # noqa: ARG002
        """None: there is no formula."""
        return

    @property
    def _tokens(self) -> int:
        return self.context.tokens

    @cached_property
    def _mixing(self) -> FloatArray | None:
        """T with T Tᵀ = C; None for C = 1."""
        if self.context.token_covariance is None:
            return None
        return _lower_factor(self.covariance).astype(np.float32)

    @cached_property
    def _order(self) -> FloatArray:
        """The directions, row by row, by falling E(∂𝓛/∂z)² at uncorrelated forms of unit size.

        Early Sobol directions are the most even ones; they go to those that matter. Fixed once, whatever the order
        parameters are, so that Φ has no jumps.
        """
        k, rows = self.loss.indices, self._tokens**2
        unit = np.eye(k)
        traces = np.ones(len(self.loss.traces))
        loss = self.loss.at(traces.tolist(), self.covariance)
        rng = np.random.default_rng(self.seed)
        influence = np.zeros(rows * k)
        law = _RowLaw.of(np.zeros(k), unit, np.zeros((k, k)))
        step = min(_PILOT, max(1, _BLOCK // (rows * k)))
        for _ in range(0, _PILOT, step):
            z = rng.standard_normal((rows, k, step), dtype=np.float32)
            _, slopes = loss.value_and_gradient(self._forms(law, z))
            influence += (self._pull(slopes) ** 2).sum(axis=-1, dtype=np.float64).ravel()
        return np.argsort(-influence, kind="stable")

    def _draws(self, replicate: int, points: int) -> Iterator[FloatArray]:
        """Blocks of standard normal draws (rows, K, n) of one replicate."""
        from scipy.stats import qmc

        rows, k = self._tokens**2, self.loss.indices
        columns = rows * k
        smooth = min(columns, _SOBOL)
        first, rest = self._order[:smooth], self._order[smooth:]
        children = np.random.SeedSequence((self.seed, replicate)).spawn(2)
        sobol = qmc.Sobol(smooth, scramble=True, rng=np.random.default_rng(children[0]))
        rng = np.random.default_rng(children[1])
        step = min(points, 1 << max(4, (_BLOCK // columns).bit_length() - 1))
        for _ in range(0, points, step):
            block = np.empty((columns, step), dtype=np.float32)
            block[first] = ndtri(np.clip(sobol.random(step).T, _EDGE, 1 - _EDGE))
            block[rest] = rng.standard_normal((len(rest), step), dtype=np.float32)
            yield block.reshape(rows, k, step)

    # Rows are ordered: the L diagonal ones, then for each pair i < j the symmetric, then the antisymmetric ones.

    @cached_property
    def _pairs(self) -> tuple[FloatArray, FloatArray]:
        first, second = np.triu_indices(self._tokens, 1)
        return first, second

    def _forms(self, law: _RowLaw, z: FloatArray) -> FloatArray:
        """G (n, L, L, K) of draws (rows, K, n); samples are its fastest axis."""
        tokens = self._tokens
        first, second = self._pairs
        edges = len(first)
        plus = _times(law.plus, z[: tokens + edges])
        minus = _times(law.minus, z[tokens + edges :])
        gamma = np.empty((tokens, tokens, *z.shape[1:]), dtype=np.float32)
        inside = np.arange(tokens)
        gamma[inside, inside] = plus[:tokens] + law.mean[:, None]
        half = np.float32(np.sqrt(0.5))
        gamma[first, second] = half * (plus[tokens:] + minus)
        gamma[second, first] = half * (plus[tokens:] - minus)
        T = self._mixing
        if T is not None:
            gamma = np.einsum("ia,abkn,jb->ijkn", T, gamma, T, optimize=True)
        return np.moveaxis(gamma, -1, 0)

    def _pull(self, slopes: FloatArray) -> FloatArray:
        """∂𝓛/∂x (rows, K, n) of the rows, from ∂𝓛/∂G."""
        slopes = np.moveaxis(slopes, 0, -1)
        T = self._mixing
        if T is not None:
            slopes = np.einsum("ia,ijkn,jb->abkn", T, slopes, T, optimize=True)
        first, second = self._pairs
        inside = np.arange(self._tokens)
        half = np.float32(np.sqrt(0.5))
        upper, lower = slopes[first, second], slopes[second, first]
        return np.concatenate([slopes[inside, inside], half * (upper + lower), half * (upper - lower)])

    def _average(
        self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray, *, slopes: bool
    ) -> tuple[_RowLaw, _Moments]:
        k, tokens = self.loss.indices, self._tokens
        check_order_parameters(q1 + q2, "q1 + q2")
        if tokens > 1:
            check_order_parameters(q1 - q2, "q1 - q2")
        loss = self.loss.at(traces.tolist(), self.covariance)
        law = _RowLaw.of(mean, q1, q2)
        edges = tokens * (tokens - 1) // 2
        total = _Moments(
            np.zeros(REPLICATES),
            np.zeros((REPLICATES, k)),
            np.zeros((REPLICATES, 2, k, k)),
            np.zeros((REPLICATES, k, k)),
            np.zeros((REPLICATES, len(traces))),
        )
        points = 1 << (self.log2_gradient_points if slopes else self.log2_points)
        for replicate in range(REPLICATES):
            for z in self._draws(replicate, points):
                forms = self._forms(law, z)
                if not slopes:
                    total.value[replicate] += loss.value(forms).sum(dtype=np.float64)
                    continue
                value, gradient = loss.value_and_gradient(forms)
                total.value[replicate] += value.sum(dtype=np.float64)
                pulled = self._pull(gradient)
                by_mean = pulled[:tokens].sum(axis=0)
                total.mean[replicate] += by_mean.sum(axis=-1, dtype=np.float64)
                even, odd = slice(0, tokens + edges), slice(tokens + edges, None)
                total.stein[replicate, 0] += _outer(pulled[even], z[even])
                total.stein[replicate, 1] += _outer(pulled[odd], z[odd])
                total.mean_stein[replicate] += by_mean @ z[:tokens].sum(axis=0).T
                if len(traces):
                    found = self.loss.trace_gradient(forms, traces.tolist(), self.covariance)
                    total.traces[replicate] += found.sum(axis=0, dtype=np.float64)
        return law, _Moments(
            *(getattr(total, name) / points for name in ("value", "mean", "stein", "mean_stein", "traces"))
        )

    def value(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> Estimate:
        """Φ, with one standard error."""
        _, found = self._average(mean, q1, q2, traces, slopes=False)
        return Estimate(float(found.value.mean()), float(_standard_error(found.value)), "sobol")

    def gradients(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> PotentialGradients:
        """Gradients by means, overlaps and traces; ``error`` is the largest standard error of an entry."""
        law, found = self._average(mean, q1, q2, traces, slopes=True)
        plus = 0.5 * _symmetric(found.stein[:, 0] @ law.plus_inverse)
        minus = 0.5 * _symmetric(found.stein[:, 1] @ law.minus_inverse)
        columns = (found.mean, plus + minus, plus - minus, found.traces)
        error = max(float(_standard_error(each).max(initial=0.0)) for each in columns)
        by_mean, by_q1, by_q2, by_trace = (each.mean(axis=0) for each in columns)
        return PotentialGradients(by_mean, by_q1, by_q2, error, "sobol", by_trace)

    def mean_hessian(self, mean: FloatArray, q1: FloatArray, q2: FloatArray, traces: FloatArray) -> FloatArray:
        """∂²Φ/∂m∂m, along the range of q1 + q2."""
        law, found = self._average(mean, q1, q2, traces, slopes=True)
        return np.asarray(_symmetric(found.mean_stein @ law.plus_inverse).mean(axis=0))

    def tied_value(self, q: FloatArray, traces: FloatArray) -> Estimate:
        """Φ at q1 = q2 = q and zero mean."""
        return self.value(np.zeros(len(q)), q, q, traces)

    def tied_gradients(self, q: FloatArray, traces: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """(∇Φ by q, ∂Φ/∂R, error) on the tied line."""
        found = self.gradients(np.zeros(len(q)), q, q, traces)
        return found.tied, found.traces, found.error


@dataclass(frozen=True, eq=False)
class _RowLaw:
    """Factors of the covariances q1 ± q2 of a row, in the precision of the samples, and their pseudo-inverses."""

    mean: FloatArray
    plus: FloatArray
    minus: FloatArray
    plus_inverse: FloatArray
    minus_inverse: FloatArray

    @classmethod
    def of(cls, mean: FloatArray, q1: FloatArray, q2: FloatArray) -> _RowLaw:
        plus, minus = _lower_factor(q1 + q2), _lower_factor(q1 - q2)
        return cls(
            mean.astype(np.float32),
            plus.astype(np.float32),
            minus.astype(np.float32),
            np.linalg.pinv(plus, rcond=1e-5),
            np.linalg.pinv(minus, rcond=1e-5),
        )


def _times(factor: FloatArray, draws: FloatArray) -> FloatArray:
    """F z for draws (rows, K, n); a diagonal F scales."""
    diagonal = np.diagonal(factor)
    if np.count_nonzero(factor) == np.count_nonzero(diagonal):
        return np.asarray(diagonal[:, None] * draws)
    return np.asarray(factor @ draws)


def _outer(left: FloatArray, right: FloatArray) -> FloatArray:
    """Σ over rows and samples of left ⊗ right, (K, K)."""
    return np.asarray((left @ np.swapaxes(right, -1, -2)).sum(axis=0), dtype=np.float64)


def _symmetric(matrices: FloatArray) -> FloatArray:
    return (matrices + np.swapaxes(matrices, -1, -2)) / 2


def _standard_error(replicates: FloatArray) -> FloatArray:
    return np.asarray(replicates.std(axis=0, ddof=1) / np.sqrt(REPLICATES))


def _lower_factor(covariance: FloatArray) -> FloatArray:
    """A lower triangular F with F Fᵀ = Σ, (K, K), diagonal >= 0: unique, and so smooth, for regular Σ."""
    diagonal = np.diagonal(covariance)
    if not (covariance - np.diag(diagonal)).any() and (diagonal >= 0).all():
        return np.diag(np.sqrt(diagonal))
    try:
        return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        factor = covariance_factor(covariance)
        upper = np.asarray(np.linalg.qr(factor.T, mode="r"))
        full = np.zeros_like(covariance)
        full[: upper.shape[0]] = upper * np.where(np.diagonal(upper) < 0, -1.0, 1.0)[:, None]
        return np.asarray(full.T)


__all__ = ["PathwisePotential"]
