"""The potential Φ(m, q1, q2) = E 𝓛(G), the population loss as a function of the order parameters, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from aimtheory.errors import InputError, NumericsError
from aimtheory.model.losses import Loss, OutputProducts, is_loss
from aimtheory.model.token_covariance import validate_token_covariance
from aimtheory.population.closed_forms import (
    closed_form,
    gradient_by_pairs,
    is_arcsine,
    is_polynomial,
    order_symbols,
    tied_symbols,
)
from aimtheory.population.covariance_cone import check_order_parameters
from aimtheory.population.estimate import Estimate, PotentialGradients
from aimtheory.population.expression_sites import ExpressionSite, expression_sites
from aimtheory.population.pair_expectation import SiteExpectation, site_expectation
from aimtheory.population.sites import PairwiseSite, SlotMap, pairwise_sites
from aimtheory.population.softmax_any_length import SoftmaxRows
from aimtheory.population.tied_rule import TiedRule

_ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Potential:
    """Φ(m, q1, q2) = E 𝓛(G) for Gaussian forms.

    E G_ijk = C_ij m_k and Cov(G_ijk, G_i'j'l) = C_ii'C_jj' q1_kl + C_ij'C_ji' q2_kl, equation (4) of [D]. The centred
    forms of tied and direct models have m = 0, and tied ones q1 = q2 = q. Closed forms are used where they exist
    (:meth:`symbolic_value`). Losses between row softmaxes of any number of tokens, C the identity or exchangeable,
    are integrals whose cost does not depend on L (:class:`SoftmaxRows`). Elsewhere Price's theorem turns every gradient
    into an expectation, ∂Φ/∂Cov_ab = ½E ∂²𝓛/∂G_a∂G_b, computed by cubature. Every number has its error.

    Make one with :func:`potential`.
    """

    loss: Loss
    tokens: int
    token_covariance: np.ndarray | None
    tolerance: float = 1e-10
    seed: int = 0

    @property
    def indices(self) -> int:
        """K."""
        return self.loss.indices

    @cached_property
    def _covariance(self) -> np.ndarray:
        """C as an array; ``token_covariance`` is None for the identity, which may be large."""
        return np.eye(self.tokens) if self.token_covariance is None else self.token_covariance

    # Closed forms.

    def symbolic_value(
        self,
        mean: Sequence[Any] | None = None,
        q1: Any = None,
        q2: Any = None,
    ) -> sp.Expr | None:
        """Φ as a sympy expression of (m, q1, q2), or None without a closed form.

        Unset arguments become the symbols m_k, q1_kl, q2_kl (named from 1). Exact in exact arguments.

        >>> from aimtheory.model.losses import MeanSquaredError
        >>> potential(MeanSquaredError("linear"), 1).symbolic_value(mean=(0, 0))
        q1_11/2 - q1_12 + q1_22/2 + q2_11/2 - q2_12 + q2_22/2
        """
        symbols = order_symbols(self.indices)
        values = [symbols[0] if mean is None else list(mean)]
        values += [s if q is None else sp.Matrix(q) for s, q in zip(symbols[1:], (q1, q2), strict=True)]
        return closed_form(self.loss, self.tokens, self.token_covariance, *values)

    def symbolic_tied_value(self, q: Any = None) -> sp.Expr | None:
        """Φ(q) on the tied line (q1 = q2 = q, m = 0) as a sympy expression of q_kl, or None without a closed form.

        >>> from aimtheory.model.losses import MeanSquaredError
        >>> potential(MeanSquaredError("linear"), 1).symbolic_tied_value()
        q_11 - 2*q_12 + q_22
        """
        matrix = tied_symbols(self.indices) if q is None else sp.Matrix(q)
        return self.symbolic_value([sp.S.Zero] * self.indices, matrix, matrix)

    @property
    def has_closed_form(self) -> bool:
        """Whether Φ is closed for every (m, q1, q2)."""
        return is_polynomial(self.loss)

    @cached_property
    def _closed(self) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        """Compiled (value, gradients + mean Hessian) of the flattened (m, q1, q2)."""
        if not is_polynomial(self.loss):
            return None
        return self._compile(*order_symbols(self.indices))

    @cached_property
    def _closed_centred(self) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        """The same at m = 0, for losses closed only there."""
        if not is_arcsine(self.loss):
            return None
        return self._compile((sp.S.Zero,) * self.indices, *order_symbols(self.indices)[1:])

    def _compile(
        self, mean: Sequence[sp.Expr], q1: sp.Matrix, q2: sp.Matrix
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        value = self.symbolic_value(mean, q1, q2)
        assert value is not None
        by_mean = [sp.diff(value, m) if m != 0 else sp.S.Zero for m in mean]
        hessian = [sp.diff(g, m) if m != 0 else sp.S.Zero for g in by_mean for m in mean]
        gradients = [*by_mean, *gradient_by_pairs(value, q1), *gradient_by_pairs(value, q2), *hessian]
        arguments = [sp.Symbol(f"m_{k + 1}", real=True) for k in range(self.indices)]
        arguments += [q[k, l] for q in (q1, q2) for k in range(self.indices) for l in range(k, self.indices)]
        compiled = [sp.lambdify([arguments], e, modules=["scipy", "numpy"], cse=True) for e in ([value], gradients)]
        return compiled[0], compiled[1]

    @cached_property
    def _closed_tied(self) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        symbols = tied_symbols(self.indices)
        value = self.symbolic_tied_value()
        if value is None:
            return None
        arguments = [symbols[k, l] for k in range(self.indices) for l in range(k, self.indices)]
        gradient = list(gradient_by_pairs(value, symbols))
        compiled = [sp.lambdify(arguments, e, modules="math", cse=True) for e in ([value], gradient)]
        return compiled[0], compiled[1]

    # Softmax rows of any length.

    @cached_property
    def _softmax_rows(self) -> SoftmaxRows | None:
        return SoftmaxRows.of(self.loss, self.tokens, self.token_covariance)

    # Cubature.

    @property
    def _feature_products(self) -> OutputProducts | None:
        """The loss as products of functions of few features, where its outputs are entrywise or rows of softmax."""
        products = self.loss.output_products
        if products is None or not all(f.entrywise or f.row_softmax for f in products.functions):
            return None
        return products

    @cached_property
    def _sites(self) -> tuple[SlotMap, tuple[PairwiseSite | ExpressionSite, ...]]:
        products = self._feature_products
        if products is not None:
            return pairwise_sites(products, self._covariance)
        return SlotMap(np.eye(self.indices)), expression_sites(self.loss.as_expression(self.tokens), self._covariance)

    @cached_property
    def single_feature_sites(self) -> tuple[SlotMap, tuple[PairwiseSite, ...]] | None:
        """The pieces of Φ when all are products of functions of one Gaussian feature each: E f(u) g(v); else None."""
        products = self._feature_products
        if products is None or (self.tokens > 2 and not all(f.entrywise for f in products.functions)):
            return None  # rows of many features
        slots, sites = pairwise_sites(products, self._covariance)
        return (slots, sites) if all(size == 1 for site in sites for size in site.sizes) else None

    def _expect(
        self, mean: np.ndarray, q1: np.ndarray, q2: np.ndarray, order: int
    ) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray, float, str]:
        rows = self._softmax_rows
        if rows is not None and rows.covers(q1, q2):
            exact = rows.with_error(mean, q1, q2, order)
            return exact.value, exact.mean, exact.q1, exact.q2, exact.mean_hessian, exact.error, "rows"
        slots, sites = self._sites
        slot_mean, slot_q1, slot_q2 = slots.push(mean, q1, q2)
        count = len(slot_mean)
        value, error, method = 0.0, 0.0, "grid"
        grad_mean, grad_q1, grad_q2 = np.zeros(count), np.zeros((count, count)), np.zeros((count, count))
        mean_hessian = np.zeros((count, count))
        for site in sites:
            feature_mean, covariance = site.law.moments(slot_mean, slot_q1, slot_q2)
            found: SiteExpectation
            if isinstance(site, PairwiseSite):
                found = site_expectation(site, feature_mean, covariance, self.tolerance, self.seed, order)
            else:
                found = site.expectation(feature_mean, covariance, self.tolerance, self.seed, order)
            times, law = site.multiplicity, site.law
            value += times * found.value
            owner = np.zeros((count, len(law.slots)))
            owner[law.slots, np.arange(len(law.slots))] = 1.0
            # The entries of the gradients are sums over features, whose errors add at worst.
            spread = 1.0
            if order:
                sums = [0.5 * owner @ np.abs(law.first) @ owner.T, 0.5 * owner @ np.abs(law.second) @ owner.T]
                spread = max(1.0, *[float(total.max()) for total in sums], float((owner @ np.abs(law.mean)).max()))
            error += times * found.error * spread
            if found.method == "sobol":
                method = "sobol"
            if order:
                grad_mean += times * owner @ (law.mean * found.gradient)
                grad_q1 += 0.5 * times * owner @ (law.first * found.hessian) @ owner.T
                grad_q2 += 0.5 * times * owner @ (law.second * found.hessian) @ owner.T
                mean_hessian += times * owner @ (np.outer(law.mean, law.mean) * found.hessian) @ owner.T
        pulled = slots.pull(grad_mean, grad_q1, grad_q2)
        mean_hessian = slots.combination.T @ mean_hessian @ slots.combination
        return value, *pulled, mean_hessian, error, method

    def _arguments(
        self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        k = self.indices
        mean_array = np.zeros(k) if mean is None else np.asarray(mean, dtype=float)
        if mean_array.shape != (k,):
            raise InputError(f"mean has shape {mean_array.shape}; with {k} indices it must be ({k},)")
        if not np.isfinite(mean_array).all():
            raise InputError(f"mean = {mean_array.tolist()} is not finite")
        first, second = self._matrix(q1, "q1"), self._matrix(q2, "q2")
        return mean_array, first, second

    def _matrix(self, q: ArrayLike, name: str) -> np.ndarray:
        k = self.indices
        q = np.asarray(q, dtype=float)
        if q.shape != (k, k):
            raise InputError(f"{name} has shape {q.shape}; with {k} indices it must be ({k}, {k})")
        total = float(np.abs(q).sum())
        if not total < np.inf:
            raise InputError(f"{name} = {q.tolist()} is not finite")
        if float(np.abs(q - q.T).max()) > 1e-9 * max(1e-300, total):
            raise InputError(f"{name} = {q.tolist()} is not symmetric")
        return q

    def _check_cone(self, q1: np.ndarray, q2: np.ndarray) -> None:
        check_order_parameters(q1 + q2, "q1 + q2")
        if self.tokens > 1:
            check_order_parameters(q1 - q2, "q1 - q2")

    def _flat(self, mean: np.ndarray, q1: np.ndarray, q2: np.ndarray) -> np.ndarray:
        return np.concatenate([mean, q1[self._upper], q2[self._upper]])

    @cached_property
    def _upper(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.indices)

    def _closed_at(self, mean: np.ndarray) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        if self._closed is not None:
            return self._closed
        return self._closed_centred if not mean.any() else None

    def value(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> Estimate:
        """Φ(m, q1, q2); ``mean=None`` is zero mean.

        Raises ``InputError`` when q1 ± q2 is not positive semidefinite (polynomial potentials are defined everywhere).
        """
        m, a, b = self._arguments(mean, q1, q2)
        closed = self._closed_at(m)
        if self._closed is None:
            self._check_cone(a, b)
        if closed is not None:
            value = float(closed[0](self._flat(m, a, b))[0])
            return Estimate(self._finite(value), _ROUNDING * max(1.0, abs(value)), "closed form")
        found = self._expect(m, a, b, 0)
        return Estimate(found[0], found[5], found[6])

    def gradients(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> PotentialGradients:
        """∂Φ/∂m (K,), ∂Φ/∂q1 and ∂Φ/∂q2 (K, K), over ordered pairs (off-diagonal = half the shared derivative).

        Raises ``InputError`` when q1 ± q2 is not positive semidefinite (polynomial potentials are defined everywhere).
        """
        m, a, b = self._arguments(mean, q1, q2)
        k = self.indices
        closed = self._closed_at(m)
        if self._closed is None:
            self._check_cone(a, b)
        if closed is not None and (self._closed is not None or self._mean_gradient_vanishes):
            flat = np.array(closed[1](self._flat(m, a, b)), dtype=float)
            blocks = flat[:k], flat[k : k + k * k].reshape(k, k), flat[k + k * k : k + 2 * k * k].reshape(k, k)
            return PotentialGradients(*blocks, _ROUNDING * max(1.0, float(np.abs(flat).max())), "closed form")
        found = self._expect(m, a, b, 2)
        return PotentialGradients(found[1], found[2], found[3], found[5], found[6])

    @property
    def _mean_gradient_vanishes(self) -> bool:
        # erf is odd: E erf(u) f(v) has no part linear in the mean, since erf'(u) f(v) is odd.
        return is_arcsine(self.loss)

    def mean_hessian(self, mean: ArrayLike | None, q1: ArrayLike, q2: ArrayLike) -> np.ndarray:
        """∂²Φ/∂m_k∂m_l (K, K): local strong convexity in the mean, and Newton steps to the critical point m*(q)."""
        m, a, b = self._arguments(mean, q1, q2)
        if self._closed is not None:
            k = self.indices
            return np.array(self._closed[1](self._flat(m, a, b)), dtype=float)[k + 2 * k * k :].reshape(k, k)
        self._check_cone(a, b)
        return self._expect(m, a, b, 2)[4]

    # The tied line.

    @cached_property
    def _tied_rules(self) -> tuple[TiedRule, ...] | None:
        sites = self._sites[1]
        rules = [TiedRule.of(site, self.tolerance) for site in sites if isinstance(site, PairwiseSite)]
        usable = len(rules) == len(sites) and all(rule is not None for rule in rules)
        return tuple(rule for rule in rules if rule is not None) if usable else None

    def _tied(self, q: np.ndarray) -> tuple[float, np.ndarray, float]:
        rows = self._softmax_rows
        if rows is not None and rows.covers(q, q):
            # Two tokens are one dimension, on which nodes are fast; where they do not resolve a steep row, rows do.
            if self.tokens == 2 and not rows.lengths.causal and self._tied_rules is not None:
                found = self._tied_by_rules(q)
                if found[2] <= 10 * self.tolerance * max(1.0, float(np.abs(found[1]).max())):
                    return found
            return rows.tied(q)
        return self._tied_by_rules(q)

    def _tied_by_rules(self, q: np.ndarray) -> tuple[float, np.ndarray, float]:
        rules = self._tied_rules
        if rules is None:
            found = self._expect(np.zeros(self.indices), q, q, 2)
            return found[0], found[2] + found[3], found[5]
        combination = self._sites[0].combination
        slot_q = combination @ q @ combination.T
        value, error = 0.0, 0.0
        gradient: np.ndarray | float = 0.0
        for rule in rules:
            part, slope, gap = rule.evaluate(slot_q)
            times = rule.site.multiplicity
            value += times * part
            gradient = gradient + times * slope
            error += times * gap
        return value, combination.T @ gradient @ combination, error

    def tied_value(self, q: ArrayLike) -> Estimate:
        """Φ(q) at q1 = q2 = q and zero mean."""
        matrix = self._matrix(q, "q")
        if self._closed_tied is not None:
            if not self.has_closed_form:
                check_order_parameters(matrix, "q")
            value = float(self._closed_tied[0](*matrix[self._upper].tolist())[0])
            return Estimate(self._finite(value), _ROUNDING * max(1.0, abs(value)), "closed form")
        check_order_parameters(matrix, "q")
        value, _, error = self._tied(matrix)
        return Estimate(self._finite(value), error, "grid" if self._softmax_rows is None else "rows")

    def tied_gradient(self, q: ArrayLike) -> tuple[np.ndarray, float]:
        """(∇Φ(q), error): the (K, K) gradient on the tied line, dΦ = Σ_kl ∇_kl dq_kl over ordered pairs.

        Made to be called inside an integrator: nodes are fixed once for every half octave of q, at the rule that meets
        ``tolerance`` in the hardest case (full correlation), and ``error`` is that rule's. Raises ``InputError`` when q
        is not positive semidefinite, unless the potential is a polynomial.
        """
        matrix = self._matrix(q, "q")
        if self._closed_tied is not None:
            if not self.has_closed_form:
                check_order_parameters(matrix, "q")
            k = self.indices
            entries = self._closed_tied[1](*[matrix.item(a, b) for a in range(k) for b in range(a, k)])
            gradient = np.array(entries, dtype=float).reshape(k, k)
            return gradient, _ROUNDING * max(1.0, float(np.abs(gradient).max()))
        check_order_parameters(matrix, "q")
        _, gradient, error = self._tied(matrix)
        if not np.isfinite(gradient).all():
            raise NumericsError(f"the gradient at q = {matrix.tolist()} is not finite")
        return gradient, error

    def gradient_error(self, q: ArrayLike) -> float:
        """The error of :meth:`tied_gradient` at q, measured there against the adaptive general path."""
        matrix = self._matrix(q, "q")
        fast, error = self.tied_gradient(matrix)
        if self._closed_tied is not None:
            return error
        reference = self._expect(np.zeros(self.indices), matrix, matrix, 2)
        return float(np.abs(fast - reference[2] - reference[3]).max()) + reference[5]

    def _finite(self, value: float) -> float:
        if not np.isfinite(value):
            raise NumericsError(f"the potential is {value}; the order parameters may be too large")
        return value


def potential(
    loss: Loss,
    tokens: int,
    token_covariance: ArrayLike | None = None,
    *,
    tolerance: float = 1e-10,
    seed: int = 0,
) -> Potential:
    """The potential of a loss for L tokens of covariance C (the identity unless given).

    ``tolerance`` is what cubature aims at; the error it reaches is reported with every number. ``seed`` seeds the Sobol
    scrambling that is used when there are too many directions for a grid. Raises ``InputError`` on a bad covariance,
    naming the entry or the eigenvalue.

    >>> from aimtheory.model.losses import MeanSquaredError
    >>> phi = potential(MeanSquaredError("linear"), tokens=1)
    >>> phi.tied_gradient([[1.0, 0.2], [0.2, 1.0]])[0]
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if isinstance(tokens, bool) or not isinstance(tokens, (int, np.integer)) or tokens < 1:
        raise InputError(f"tokens = {tokens!r} must be an integer >= 1")
    if not is_loss(loss):
        raise InputError(f"loss = {loss!r} is not a Loss; use MeanSquaredError, CrossEntropy or ExpressionLoss")
    if loss.tokens is not None and loss.tokens != tokens:
        raise InputError(f"tokens = {tokens}, but the loss is a function of {loss.tokens} tokens")
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance = {tolerance} must lie between 0 and 1")
    covariance = None if token_covariance is None else validate_token_covariance(token_covariance, int(tokens))
    return Potential(loss, int(tokens), covariance, float(tolerance), int(seed))


__all__ = ["Potential", "potential"]
