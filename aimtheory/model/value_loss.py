"""The squared error of attention outputs y_i = Σ_j A_ij V^T x_j, whose values enter as explicit order parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.model.activations import Activation
from aimtheory.model.losses import (
    Loss,
    OutputProducts,
    TeacherStudentLoss,
    form_symbols,
    single_indices,
    trace_symbol,
)
from aimtheory.words import spelled_indices


@dataclass(frozen=True, eq=False, init=False)
class ValueLoss(TeacherStudentLoss):
    """½ Σ_i Σ_jj' C_jj' Σ_ab s_a s_b R_ab A^a_ij A^b_ij': half the squared error per coordinate of attention outputs.

    Heads y_i = Σ_j A_ij V^T x_j have x_j^T N x_j'/d = C_jj' tr N + O(d^{-1/2}), so that (1/2d) Σ_i |y_i − y*_i|² reads
    the values only through R_ab = tr(V_a^T V_b), a and b over students (s = weight) and teachers (s = −weight). A =
    F(G) with F the activation of the side. The traces are called R_11, R_12, ... with a ≤ b counted from 1 over the
    indices (R_1,12 beyond nine). Exact as d tends to infinity; ours, not in the sources.

    >>> loss = ValueLoss("softmax")
    >>> loss.traces
    ('R_11', 'R_12', 'R_22')
    """

    loss_name: ClassVar[str] = "mse_values"

    def latex(self, tokens: int) -> tuple[str, str]:  # noqa: ARG002
        """The overlaps of the values beside products of heads."""
        _, _, where = self.sides_latex()
        formula = r"\tfrac12 \sum_{ab} s_a s_b R_{ab} \sum_{ijj'} C_{jj'} A^a_{ij} A^b_{ij'}"
        return formula, rf", $A^a = F(G_a)$, $s_a = \pm$ weight{where}"

    @property
    def heads(self) -> tuple[tuple[int, Activation, float], ...]:
        """(index, activation, signed weight) of every head."""
        plus = [(k, self.student, float(w)) for k, w in zip(self.students, self.student_weights, strict=True)]
        minus = [(k, self.teacher, -float(w)) for k, w in zip(self.teachers, self.teacher_weights, strict=True)]
        return tuple(sorted(plus + minus, key=lambda head: head[0]))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of heads a ≤ b, as positions in ``heads``, one a trace."""
        count = len(self.heads)
        return tuple((a, b) for a in range(count) for b in range(a, count))

    @property
    def traces(self) -> tuple[str, ...]:
        """R_ab for a ≤ b."""
        indices = [k for k, _, _ in self.heads]
        return tuple(f"R_{spelled_indices(indices[a], indices[b])}" for a, b in self.pairs)

    def overlaps(self, traces: Sequence[Any]) -> np.ndarray:
        """The matrix s_a s_b R_ab of the values of the traces, numbers or symbols, (heads, heads)."""
        if len(traces) != len(self.pairs):
            raise InputError(f"{len(traces)} values for the traces {', '.join(self.traces)}")
        signs = [weight for _, _, weight in self.heads]
        count = len(signs)
        result = np.zeros((count, count), dtype=object)
        for (a, b), value in zip(self.pairs, traces, strict=True):
            weight = signs[a] * signs[b]
            exact = Fraction(weight) if float(weight).is_integer() else weight
            result[a, b] = result[b, a] = (
                value * exact if not isinstance(value, sp.Basic) else sp.sympify(exact) * value
            )
        return result

    def _trace_scale(self, a: int, b: int) -> float:
        """(½ for a = b, else 1) s_a s_b: what R_ab is multiplied by, besides the product of the two outputs."""
        return self.heads[a][2] * self.heads[b][2] * (0.5 if a == b else 1.0)

    def trace_terms(self) -> tuple[PairTerm, ...]:
        """The coefficients of the traces, products of two heads each."""
        result = []
        for a, b in self.pairs:
            pair = (self.heads[a][:2],) if a == b else (self.heads[a][:2], self.heads[b][:2])
            scale = self._trace_scale(a, b)
            result.append(PairTerm(pair, scale, self.indices))
        return tuple(result)

    def at(self, traces: Sequence[float], covariance: np.ndarray) -> Loss:
        """The loss of the forms alone."""
        weights = self.overlaps([float(value) for value in traces]).astype(np.float64)
        return ValueLossAt(self, weights, np.asarray(covariance, dtype=np.float64))

    def trace_gradient(self, forms: np.ndarray, traces: Sequence[float], covariance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """(½ for a = b, else 1) s_a s_b Σ_i Σ_jj' C_jj' A^a_ij A^b_ij'."""
        forms = self._check_forms(forms)
        outputs = [function(forms[..., k]) for k, function, _ in self.heads]
        metric = covariance.astype(forms.dtype)
        result = np.empty((*forms.shape[:-3], len(self.pairs)), dtype=forms.dtype)
        for n, (a, b) in enumerate(self.pairs):
            scale = self._trace_scale(a, b)
            result[..., n] = scale * np.einsum("...ij,...ij->...", outputs[a], outputs[b] @ metric)
        return result

    def value(self, forms: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Needs the values of the traces: see ``at``."""
        raise InputError(f"this loss reads the traces {', '.join(self.traces)}: fix their values with at(...)")

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """Needs the values of the traces: see ``at``."""
        return self.value(forms)

    def expression(self, tokens: int) -> sp.Expr:
        """The loss at C = 1, in the forms and the symbols of the traces."""
        return self.expression_at(tokens, [trace_symbol(name) for name in self.traces], sp.eye(tokens))

    def expression_at(self, tokens: int, traces: Sequence[Any], covariance: sp.Matrix) -> sp.Expr:
        """The loss at values of the traces and a token covariance."""
        outputs = [function.expression(form_symbols(tokens, k)) for k, function, _ in self.heads]
        weights = self.overlaps(traces)
        count = len(outputs)
        return (
            sp.Add(
                *(
                    sp.sympify(weights[a, b]) * (outputs[a] * covariance * outputs[b].T).trace()
                    for a in range(count)
                    for b in range(count)
                )
            )
            / 2
        )


@dataclass(frozen=True, eq=False)
class ValueLossAt(ByValue, Loss):
    """A ``ValueLoss`` at fixed overlaps s_a s_b R_ab of the values and a token covariance: a loss of the forms."""

    loss: ValueLoss
    weights: np.ndarray
    covariance: np.ndarray

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def indices(self) -> int:
        """K."""
        return self.loss.indices

    def to_mapping(self) -> dict[str, Any]:
        """A loss at fixed traces is not stored."""
        raise InputError("a loss at fixed values of its traces has no file form; store the ValueLoss")

    def _mixed(self, forms: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """A^a and Σ_b s_a s_b R_ab A^b C of every head."""
        outputs = [function(forms[..., k]) for k, function, _ in self.loss.heads]
        metric = self.covariance.astype(forms.dtype)
        weighted = [output @ metric for output in outputs]
        scale = self.weights.astype(forms.dtype)
        mixed = [sum(scale[a, b] * weighted[b] for b in range(len(outputs))) for a in range(len(outputs))]
        return outputs, mixed

    def value(self, forms: np.ndarray) -> np.ndarray:
        """½ Σ_a ⟨A^a, Σ_b s_a s_b R_ab A^b C⟩."""
        forms = self._check_forms(forms)
        outputs, mixed = self._mixed(forms)
        total = sum(np.einsum("...ij,...ij->...", a, b) for a, b in zip(outputs, mixed, strict=True))
        return np.asarray(0.5 * total)

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The mixed outputs pulled back through every activation."""
        forms = self._check_forms(forms)
        _, mixed = self._mixed(forms)
        result = np.zeros_like(forms)
        for (k, function, _), cotangent in zip(self.loss.heads, mixed, strict=True):
            result[..., k] = function.vector_jacobian(forms[..., k], cotangent)
        return result

    def expression(self, tokens: int) -> sp.Expr:
        """The formula with the values in it."""
        signs = [weight for _, _, weight in self.loss.heads]
        traces = [sp.Float(self.weights[a, b] / (signs[a] * signs[b])) for a, b in self.loss.pairs]
        return self.loss.expression_at(tokens, traces, sp.Matrix(self.covariance))


@dataclass(frozen=True)
class PairTerm(Loss):
    """scale x Σ_i Σ_jj' C_jj' F_ij(G_k) F'_ij'(G_l): what one overlap of two heads multiplies; k = l for one head.

    A loss of the forms for the population alone: C, that of the tokens, is given where the term is averaged.
    """

    heads: tuple[tuple[int, Activation], ...]
    scale: float
    count: int

    @property
    def name(self) -> str:
        """``pair``."""
        return "pair"

    @property
    def indices(self) -> int:
        """K."""
        return self.count

    @property
    def both(self) -> tuple[tuple[int, Activation], tuple[int, Activation]]:
        """The two heads, the same one twice for a head with itself."""
        return self.heads[0], self.heads[-1]

    @property
    def output_products(self) -> OutputProducts:
        """A head with itself is one slot with ½W the scale; two heads are two slots that the scale couples."""
        scale = Fraction(self.scale) if float(2 * self.scale).is_integer() else self.scale
        zero = Fraction(0)
        coupling = ((2 * scale,),) if len(self.heads) == 1 else ((zero, scale), (scale, zero))
        slots = single_indices([k for k, _ in self.heads], self.indices)
        return OutputProducts(slots, tuple(function for _, function in self.heads), coupling, mixed=True)

    def to_mapping(self) -> dict[str, Any]:
        """A term is not stored."""
        raise InputError("a term of a ValueLoss has no file form; store the loss")

    def value(self, forms: np.ndarray) -> np.ndarray:
        """The term at C = 1."""
        forms = self._check_forms(forms)
        (k, left), (l, right) = self.both
        return np.asarray(self.scale * np.einsum("...ij,...ij->...", left(forms[..., k]), right(forms[..., l])))

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """Its gradient at C = 1."""
        forms = self._check_forms(forms)
        (k, left), (l, right) = self.both
        result = np.zeros_like(forms)
        result[..., k] += self.scale * left.vector_jacobian(forms[..., k], right(forms[..., l]))
        result[..., l] += self.scale * right.vector_jacobian(forms[..., l], left(forms[..., k]))
        return result

    def expression(self, tokens: int) -> sp.Expr:
        """The term at C = 1 in the forms."""
        (k, left), (l, right) = self.both
        product = left.expression(form_symbols(tokens, k)) * right.expression(form_symbols(tokens, l)).T
        return sp.Float(self.scale) * product.trace()


__all__ = ["PairTerm", "ValueLoss", "ValueLossAt"]
