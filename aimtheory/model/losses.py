"""Losses 𝓛(G; R) of the attention forms G[i, j, k] = x_i^T S_k x_j / sqrt(d), arrays of shape ``(..., L, L, K)``.

Every loss has its value, its gradient by G, and its sympy expression in ``IndexedBase("G")[i, j, k]`` (0-based). All
are vectorised over leading (batch) axes and keep the dtype. A loss that reads explicit order parameters R = tr P names
them in ``traces``; :meth:`Loss.at` fixes their values, and ``trace_gradient`` is the gradient by them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.expression import parse_expression
from aimtheory.files import named_subclasses
from aimtheory.frozen import ByValue, Uncached
from aimtheory.model.activations import (
    Activation,
    Softmax,
    activation,
    activation_from_mapping,
    activation_keys,
    activation_mapping,
    floating,
)
from aimtheory.model.regularity import check_regularity
from aimtheory.scalars import Scalar, to_scalar, to_sympy
from aimtheory.spectra import plain

FORMS = sp.IndexedBase("G")
"""The symbol of the forms in expressions: ``FORMS[i, j, k]``."""


def trace_symbol(name: str) -> sp.Symbol:
    """The symbol of an explicit order parameter in expressions."""
    return sp.Symbol(name, real=True)


@dataclass(frozen=True)
class OutputProducts:
    """A loss ½ Σ_st W_st Σ_i ⟨F_s(u_s)_i, F_t(u_t)_i⟩ of the rows i of outputs, u_s = Σ_k a_sk G_k.

    ``combination`` is a (slots × K), ``coupling`` the symmetric W, both exact where the loss is. ``surprise``: the
    softmax of slot 0 stands for −log of its probabilities. ``mixed``: the product of two rows is Σ_jj' C_jj' F_j F_j',
    C the covariance of the tokens, instead of Σ_j F_j F_j.
    """

    combination: tuple[tuple[Scalar, ...], ...]
    functions: tuple[Activation, ...]
    coupling: tuple[tuple[Scalar, ...], ...]
    surprise: bool = False
    mixed: bool = False


def single_indices(indices: Sequence[int], count: int) -> tuple[tuple[Scalar, ...], ...]:
    """The ``combination`` of slots that are single indices."""
    return tuple(tuple(to_scalar(int(k == index)) for k in range(count)) for index in indices)


class Loss(Uncached, ABC):
    """A function of the forms of all tokens and indices."""

    @property
    @abstractmethod
    def indices(self) -> int:
        """K: indices 0..K-1 appear in the forms."""

    @property
    def tokens(self) -> int | None:
        """L when the loss is tied to one number of tokens, None when it takes any."""
        return None

    loss_name: ClassVar[str]
    """The name of the loss in files: ``mse``, ``cross_entropy``, ``expression``."""

    @property
    def name(self) -> str:
        """The name of the loss in files."""
        return self.loss_name

    @property
    def is_composite(self) -> bool:
        """True for a program of so many forms that its population loss is an average over sampled forms."""
        return False

    @property
    def output_products(self) -> OutputProducts | None:
        """The loss as products of two outputs each, None when it is not made of them."""
        return None

    @property
    def given_formula(self) -> sp.Expr | None:
        """The formula in ``FORMS`` by which the loss is defined, None when it is defined otherwise."""
        return None

    def as_expression(self, tokens: int) -> ExpressionLoss:
        """The same loss of so many tokens, given by its formula."""
        return ExpressionLoss(self.expression(tokens), tokens, self.indices)

    @property
    def traces(self) -> tuple[str, ...]:
        """Names of the explicit order parameters that the loss reads, in the order of ``trace_gradient``."""
        return ()

    def at(self, traces: Sequence[float], covariance: np.ndarray) -> Loss:  # noqa: ARG002
        """The loss of the forms alone, at values of the explicit order parameters and a token covariance."""
        return self

    def trace_terms(self) -> tuple[Loss, ...] | None:
        """Losses of the forms alone, one a trace, when the loss is sum_r R_r term_r; else None."""
        return None

    def traces_as_indices(self, token: int) -> Loss:  # noqa: ARG002
        """The same loss with every trace R read as the form G[token, token, k] of an index k of its own, after the
        others: a form without spread has the value of its mean, so that traces need no theory of their own."""
        return self

    def trace_gradient(
        self,
        forms: np.ndarray,
        traces: Sequence[float],  # noqa: ARG002
        covariance: np.ndarray,  # noqa: ARG002
    ) -> np.ndarray:
        """d loss/d R, shape ``(..., number of traces)``."""
        return np.zeros((*forms.shape[:-3], 0))

    def latex(self, tokens: int) -> tuple[str, str]:
        """The formula of the loss, and what its symbols are, in LaTeX."""
        return indexed_latex(self.expression(tokens), tokens, self.indices), ""

    @abstractmethod
    def to_mapping(self) -> dict[str, Any]:
        """The loss as plain data, ``loss`` its name; :func:`loss_from_mapping` reads it."""

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], shape: LossShape) -> Loss:  # noqa: ARG003
        """The loss of plain data; ``InputError`` names the key that is missing or wrong."""
        raise InputError(f"the loss {cls.__name__} has no file form")

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """The keys of :meth:`to_mapping`, ``loss`` left out."""
        return ()

    @abstractmethod
    def value(self, forms: np.ndarray) -> np.ndarray:
        """The loss, shape ``(...)`` for forms ``(..., L, L, K)``."""

    @abstractmethod
    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """d loss/d G, shape ``(..., L, L, K)``."""

    def value_and_gradient(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both; a composite loss has them of one forward pass."""
        return self.value(forms), self.gradient(forms)

    @abstractmethod
    def expression(self, tokens: int) -> sp.Expr:
        """The loss in the symbols ``FORMS[i, j, k]``."""

    def _check_forms(self, forms: np.ndarray) -> np.ndarray:
        forms = floating(forms)
        shape = forms.shape
        if len(shape) < 3 or shape[-3] != shape[-2] or shape[-1] != self.indices:
            raise InputError(f"forms have shape {shape}; {self.name} takes (..., L, L, {self.indices})")
        if self.tokens is not None and shape[-2] != self.tokens:
            raise InputError(f"forms have {shape[-2]} tokens; this loss is a function of {self.tokens} tokens")
        return forms


def form_symbols(tokens: int, index: int) -> sp.Matrix:
    """The L x L matrix of symbols ``FORMS[i, j, index]``.

    >>> form_symbols(1, 0)
    Matrix([[G[0, 0, 0]]])
    """
    return sp.Matrix(tokens, tokens, lambda i, j: FORMS[i, j, index])


def _index_tuple(values: Sequence[int], what: str) -> tuple[int, ...]:
    if isinstance(values, (int, np.integer)):
        values = (int(values),)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise InputError(f"{what} = {tuple(values)!r}: an index is an integer >= 0 (they count from 0)")
    result = tuple(int(value) for value in values)
    if not result:
        raise InputError(f"{what} is empty; give at least one index")
    if len(set(result)) != len(result):
        raise InputError(f"{what} = {result} repeats an index")
    return result


def _weights(values: Sequence[object] | None, count: int, what: str, default: Scalar) -> tuple[Scalar, ...]:
    if values is None:
        return (default,) * count
    scalars = tuple(to_scalar(value, f"{what}[{n}]") for n, value in enumerate(values))
    if len(scalars) != count:
        raise InputError(f"{what} has {len(scalars)} entries for {count} indices")
    return scalars


def _disjoint(students: tuple[int, ...], teachers: tuple[int, ...]) -> int:
    both = set(students) & set(teachers)
    if both:
        raise InputError(f"index {min(both)} is both a student and a teacher; students {students}, teachers {teachers}")
    return max(students + teachers) + 1


@dataclass(frozen=True, eq=False)
class TeacherStudentLoss(ByValue, Loss):
    """A loss between an activation of the student indices and one of the teacher indices, with a weight each.

    ``teacher`` None means the same activation on both sides; indices count from 0. What the weights mean is said by the
    subclass, as is their default.
    """

    student: Activation
    teacher: Activation
    students: tuple[int, ...]
    teachers: tuple[int, ...]
    student_weights: tuple[Scalar, ...]
    teacher_weights: tuple[Scalar, ...]

    default_activation: ClassVar[str | None] = None

    def __init__(
        self,
        student: Activation | str | sp.Expr | None = None,
        teacher: Activation | str | sp.Expr | None = None,
        students: Sequence[int] = (0,),
        teachers: Sequence[int] = (1,),
        student_weights: Sequence[object] | None = None,
        teacher_weights: Sequence[object] | None = None,
    ) -> None:
        students, teachers = _index_tuple(students, "students"), _index_tuple(teachers, "teachers")
        _disjoint(students, teachers)
        if student is None and self.default_activation is None:
            raise InputError(f"loss {self.name!r} needs an activation, such as 'softmax', 'linear' or 'tanh(x)'")
        first = activation(self.default_activation if student is None else student)
        put = object.__setattr__
        put(self, "student", first)
        put(self, "teacher", first if teacher is None else activation(teacher))
        put(self, "students", students)
        put(self, "teachers", teachers)
        put(self, "student_weights", _weights(student_weights, len(students), "student_weights", to_scalar(1)))
        default = self.default_teacher_weight(len(teachers))
        put(self, "teacher_weights", _weights(teacher_weights, len(teachers), "teacher_weights", default))
        self._check()

    @staticmethod
    def default_teacher_weight(count: int) -> Scalar:  # noqa: ARG004
        """The weight of a teacher when none is given."""
        return to_scalar(1)

    def _check(self) -> None:
        """Refuse what the loss cannot be made of."""

    @property
    def indices(self) -> int:
        """One more than the largest index."""
        return max(self.students + self.teachers) + 1

    def sides_latex(self) -> tuple[str, str, str]:
        """The weighted sums of student and of teacher outputs, and what F and F* are, in LaTeX."""
        shared = self.student == self.teacher
        second = "F" if shared else r"F^{\ast}"
        where = f", {self.student.latex('F')}" + ("" if shared else f", {self.teacher.latex(second)}")
        student = sum_latex("F", self.students, self.student_weights)
        return student, sum_latex(second, self.teachers, self.teacher_weights), where

    def to_mapping(self) -> dict[str, Any]:
        """The activations, and the indices and weights where they are not the default."""
        result = activation_mapping(self.student, "")
        if self.teacher != self.student:
            result |= activation_mapping(self.teacher, "teacher_")
        result["loss"] = self.loss_name
        plainest = type(self)(self.student, self.teacher)
        for key in ("students", "teachers", "student_weights", "teacher_weights"):
            if getattr(self, key) != getattr(plainest, key):
                result[key] = plain(getattr(self, key))
        return result

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], shape: LossShape) -> TeacherStudentLoss:  # noqa: ARG003
        """The loss of plain data; activations by name and parameters."""
        options = {
            key: data[key] for key in ("students", "teachers", "student_weights", "teacher_weights") if key in data
        }
        first = activation_from_mapping(data, "")
        if first is None and cls.default_activation is None:
            raise InputError(
                "the key 'activation' is missing; write one such as 'softmax', 'linear', 'hermite2', 'tanh(x)'"
            )
        return cls(first, activation_from_mapping(data, "teacher_"), **options)

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """Keys of activations, indices and weights."""
        return (*activation_keys(), "students", "teachers", "student_weights", "teacher_weights")


@dataclass(frozen=True, eq=False, init=False)
class MeanSquaredError(TeacherStudentLoss):
    """½ || Σ_{k in students} w_k F(G_k) − Σ_{k in teachers} w_k F*(G_k) ||²: half the sum over all L x L outputs.

    >>> loss = MeanSquaredError(activation("linear"))
    >>> float(loss.value(np.array([[[3.0, 1.0]]])))
    2.0
    """

    loss_name: ClassVar[str] = "mse"

    def latex(self, tokens: int) -> tuple[str, str]:  # noqa: ARG002
        """Half the squared norm of the difference of both sides."""
        student, teacher, where = self.sides_latex()
        return rf"\tfrac12 \bigl\| {student} - {bracket_latex(teacher)} \bigr\|_F^2", where

    @property
    def terms(self) -> tuple[tuple[int, Activation, Scalar], ...]:
        """(index, activation, coefficient) with the residual = Σ coefficient · activation(G_index)."""
        plus = [(k, self.student, w) for k, w in zip(self.students, self.student_weights, strict=True)]
        minus = [(k, self.teacher, -w) for k, w in zip(self.teachers, self.teacher_weights, strict=True)]
        return tuple(plus + minus)

    @property
    def output_products(self) -> OutputProducts:
        """A slot an index, W = w wᵀ of the signed weights w."""
        weights = [weight for _, _, weight in self.terms]
        return OutputProducts(
            single_indices([k for k, _, _ in self.terms], self.indices),
            tuple(function for _, function, _ in self.terms),
            tuple(tuple(left * right for right in weights) for left in weights),
        )

    @cached_property
    def _numeric_terms(self) -> tuple[tuple[int, Activation, float], ...]:
        return tuple((k, function, float(weight)) for k, function, weight in self.terms)

    def residual(self, forms: np.ndarray) -> np.ndarray:
        """Σ w F(G_k) over students minus the same over teachers, shape ``(..., L, L)``."""
        forms = self._check_forms(forms)
        total: np.ndarray | None = None
        for k, function, weight in self._numeric_terms:
            output = function(forms[..., k])
            if weight != 1.0:
                output *= weight
            total = output if total is None else total + output
        assert total is not None
        return total

    def value(self, forms: np.ndarray) -> np.ndarray:
        """Half the squared norm of the residual."""
        residual = self.residual(forms)
        return 0.5 * np.einsum("...ij,...ij->...", residual, residual)

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The residual pulled back through every activation."""
        forms = self._check_forms(forms)
        residual = self.residual(forms)
        result = np.zeros_like(forms)
        for k, function, weight in self._numeric_terms:
            result[..., k] = weight * function.vector_jacobian(forms[..., k], residual)
        return result

    def expression(self, tokens: int) -> sp.Expr:
        """½ Σ residual², with exact weights."""
        residual = sp.zeros(tokens, tokens)
        for k, function, weight in self.terms:
            residual += to_sympy(weight) * function.expression(form_symbols(tokens, k))
        return sp.Add(*[entry**2 for entry in residual]) / 2


@dataclass(frozen=True, eq=False, init=False)
class CrossEntropy(TeacherStudentLoss):
    """− Σ_ij p*_ij log p_ij, with row softmax probabilities of student and teacher.

    p = softmax(β Σ_{k in students} w_k G_k) (the students' logits add up) and p* = Σ_{k in teachers} v_k
    softmax(β* G_k), a mixture with weights v_k ≥ 0 of unit sum (equal weights unless given).

    >>> loss = CrossEntropy()
    >>> float(loss.value(np.zeros((2, 2, 2)))) == 2 * float(np.log(2))
    True
    """

    loss_name: ClassVar[str] = "cross_entropy"
    default_activation: ClassVar[str | None] = "softmax"

    student: Softmax
    teacher: Softmax

    def latex(self, tokens: int) -> tuple[str, str]:  # noqa: ARG002
        """The students' logits add up before the softmax."""
        _, teacher, where = self.sides_latex()
        logits = sum_latex("", self.students, self.student_weights)
        return rf"-\sum_{{ij}} {bracket_latex(teacher)}_{{ij}} \log F\bigl({logits}\bigr)_{{ij}}", where

    @staticmethod
    def default_teacher_weight(count: int) -> Scalar:
        """Equal weights."""
        return to_scalar(f"1/{count}")

    def _check(self) -> None:
        for function in (self.student, self.teacher):
            if not isinstance(function, Softmax):
                raise InputError(f"cross entropy takes softmax activations, got {function!r}")
        if self.student.mask != self.teacher.mask:
            raise InputError(
                f"cross entropy between the masks {self.student.mask!r} and {self.teacher.mask!r} is infinite or "
                "leaves entries out; give student and teacher the same mask"
            )
        mixture = self.teacher_weights
        if any(not float(v) >= 0 for v in mixture) or abs(sum(float(v) for v in mixture) - 1) > 1e-12:
            shown = ", ".join(map(str, mixture))
            raise InputError(f"teacher_weights = ({shown}) are not a probability distribution; >= 0 with sum 1")

    @property
    def output_products(self) -> OutputProducts:
        """Slot 0 holds the students' logits, each teacher has a slot, and W couples them with slot 0 alone."""
        logits = [to_scalar(0)] * self.indices
        for k, weight in zip(self.students, self.student_weights, strict=True):
            logits[k] = weight
        zeros = (to_scalar(0),) * len(self.teachers)
        return OutputProducts(
            (tuple(logits), *single_indices(self.teachers, self.indices)),
            (self.student, *(self.teacher for _ in self.teachers)),
            ((to_scalar(0), *self.teacher_weights), *((weight, *zeros) for weight in self.teacher_weights)),
            surprise=True,
        )

    def _logits(self, forms: np.ndarray) -> np.ndarray:
        pairs = zip(self.students, self.student_weights, strict=True)
        return np.asarray(sum(float(w) * forms[..., k] for k, w in pairs))

    def _targets(self, forms: np.ndarray) -> np.ndarray:
        pairs = zip(self.teachers, self.teacher_weights, strict=True)
        return np.asarray(sum(float(v) * self.teacher(forms[..., k]) for k, v in pairs))

    def value(self, forms: np.ndarray) -> np.ndarray:
        """Summed over rows."""
        forms = self._check_forms(forms)
        return -np.einsum("...ij,...ij->...", self._targets(forms), self.student.log_probabilities(self._logits(forms)))

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """β w_k (p − p*) for students, the pull-back of −log p through the teacher's softmax for teachers."""
        forms = self._check_forms(forms)
        logits = self._logits(forms)
        beta = float(self.student.inverse_temperature)
        towards_students = beta * (self.student(logits) - self._targets(forms))
        surprise = -self.student.log_probabilities(logits)
        result = np.zeros_like(forms)
        for k, weight in zip(self.students, self.student_weights, strict=True):
            result[..., k] = float(weight) * towards_students
        for k, weight in zip(self.teachers, self.teacher_weights, strict=True):
            result[..., k] = float(weight) * self.teacher.vector_jacobian(forms[..., k], surprise)
        return result

    def expression(self, tokens: int) -> sp.Expr:
        """Σ_i [log Σ_j exp(β z_ij) − β Σ_j p*_ij z_ij], z the students' logits."""
        logits, targets = sp.zeros(tokens, tokens), sp.zeros(tokens, tokens)
        for k, weight in zip(self.students, self.student_weights, strict=True):
            logits += to_sympy(weight) * form_symbols(tokens, k)
        for k, weight in zip(self.teachers, self.teacher_weights, strict=True):
            targets += to_sympy(weight) * self.teacher.expression(form_symbols(tokens, k))
        beta = to_sympy(self.student.inverse_temperature)
        total = sp.S.Zero
        for i in range(tokens):
            seen = tokens if self.student.mask is None else i + 1
            partition = sp.Add(*[sp.exp(beta * logits[i, j]) for j in range(seen)])
            linear = sp.Add(*[targets[i, j] * beta * logits[i, j] for j in range(seen)])
            total += sp.log(partition) - linear
        return total


@dataclass(frozen=True)
class LossShape:
    """What a loss read from a file is a function of: L, K, and the names of the model's traces."""

    tokens: int | None
    indices: int
    traces: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ExpressionLoss(ByValue, Loss):
    """A loss given by a sympy expression in ``IndexedBase("G")[i, j, k]``, or by text of the whitelist language.

    ``traces`` names explicit order parameters of the model (``("R_11",)``) that the expression may read beside the
    forms. Raises ``AssumptionError`` when the expression breaks Assumption 1.3 (continuous, polynomial growth) or 2.1
    (smooth with polynomially growing derivatives) of [D]; ``allow_exponential_growth=True`` lets exponentials of
    linear growth through. Raises ``InputError`` on unknown symbols and on indices outside the shape.

    >>> loss = ExpressionLoss("(G[0,0,0] - G[0,0,1])**2", tokens=1, indices=2)
    >>> loss.gradient(np.array([[[3.0, 1.0]]]))
    array([[[ 4., -4.]]])
    """

    loss_name: ClassVar[str] = "expression"

    formula: sp.Expr
    token_count: int
    index_count: int
    allow_exponential_growth: bool
    trace_names: tuple[str, ...]

    def __init__(
        self,
        formula: sp.Expr | str,
        tokens: int,
        indices: int,
        allow_exponential_growth: bool = False,
        traces: Sequence[str] = (),
    ) -> None:
        for what, count in (("tokens", tokens), ("indices", indices)):
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise InputError(f"{what} = {count!r} must be an integer >= 1")
        shape = (int(tokens), int(tokens), int(indices))
        names = tuple(traces)
        if isinstance(formula, str):
            formula = parse_expression(formula, symbols=names, indexed={"G": shape})
        if not isinstance(formula, sp.Expr):
            raise InputError(f"the loss {formula!r} is not a sympy expression nor text")
        # A symbol is known by its name: the user's own may have other assumptions.
        renamed = {
            s: trace_symbol(s.name) for s in formula.free_symbols if isinstance(s, sp.Symbol) and s.name in names
        }
        formula = formula.xreplace(renamed).xreplace(
            {f: FORMS[f.indices] for f in formula.atoms(sp.Indexed) if str(f.base) == "G" and f.base != FORMS}
        )
        used = tuple(name for name in names if trace_symbol(name) in formula.free_symbols)
        forms = _used_forms(formula, shape, used)
        check_regularity(formula, [*forms, *map(trace_symbol, used)], "loss", allow_exponential_growth)
        put = object.__setattr__
        put(self, "formula", formula)
        put(self, "token_count", shape[0])
        put(self, "index_count", shape[2])
        put(self, "allow_exponential_growth", bool(allow_exponential_growth))
        put(self, "trace_names", used)

    @property
    def traces(self) -> tuple[str, ...]:
        """The traces that the expression reads."""
        return self.trace_names

    def to_mapping(self) -> dict[str, Any]:
        """The formula as text."""
        result: dict[str, Any] = {"loss": self.loss_name, "expression": str(self.formula)}
        if self.allow_exponential_growth:
            result["allow_exponential_growth"] = True
        return result

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], shape: LossShape) -> ExpressionLoss:
        """The loss of plain data; ``InputError`` without a formula, or in a model that mixes numbers of tokens."""
        text = data.get("expression")
        if not isinstance(text, str):
            raise InputError("loss = 'expression' needs expression = '...', a formula in G[i, j, k]")
        if shape.tokens is None:
            raise InputError(
                "loss = 'expression' is written for one number of tokens; the contexts of the model differ"
            )
        return cls(text, shape.tokens, shape.indices, data.get("allow_exponential_growth", False), shape.traces)

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """``expression``, ``allow_exponential_growth``."""
        return ("expression", "allow_exponential_growth")

    @property
    def tokens(self) -> int | None:
        """L."""
        return self.token_count

    @property
    def indices(self) -> int:
        """K."""
        return self.index_count

    @property
    def given_formula(self) -> sp.Expr:
        """The formula."""
        return self.formula

    def as_expression(self, tokens: int) -> ExpressionLoss:  # noqa: ARG002
        """Itself."""
        return self

    @property
    def used_forms(self) -> tuple[tuple[int, int, int], ...]:
        """The (i, j, k) on which the loss depends, in order."""
        shape = (self.token_count, self.token_count, self.index_count)
        found = _used_forms(self.formula, shape, self.traces)
        return tuple(tuple(int(n) for n in f.indices) for f in found)  # type: ignore[misc]

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
        """Compiled value, gradient by the forms, gradient by the traces, of the used forms and then the traces."""
        shape = (self.token_count, self.token_count, self.index_count)
        forms = _used_forms(self.formula, shape, self.traces)
        symbols = [sp.Symbol(f"g_{n}", real=True) for n in range(len(forms))]
        flat = self.formula.xreplace(dict(zip(forms, symbols, strict=True)))
        parameters = [trace_symbol(name) for name in self.traces]
        outputs = [[flat], [flat.diff(s) for s in symbols], [flat.diff(r) for r in parameters]]
        value, gradient, by_trace = (compile_expressions([*symbols, *parameters], each) for each in outputs)
        return value, gradient, by_trace

    def _arguments(self, forms: np.ndarray, traces: Sequence[float]) -> list[Any]:
        if len(traces) != len(self.traces):
            raise InputError(f"this loss reads the traces {', '.join(self.traces)}: fix their values with at(...)")
        return [*(forms[..., i, j, k] for i, j, k in self.used_forms), *map(forms.dtype.type, traces)]

    def traces_as_indices(self, token: int) -> ExpressionLoss:
        """Every trace as the form G[token, token, k] of an index of its own."""
        replaced = {trace_symbol(name): FORMS[token, token, self.index_count + n] for n, name in enumerate(self.traces)}
        count = self.index_count + len(self.traces)
        return ExpressionLoss(self.formula.xreplace(replaced), self.token_count, count, self.allow_exponential_growth)

    def at(self, traces: Sequence[float], covariance: np.ndarray) -> Loss:  # noqa: ARG002
        """The loss of the forms alone, at values of the explicit order parameters."""
        return LossAt(self, tuple(map(float, traces))) if self.traces else self

    def value(self, forms: np.ndarray, traces: Sequence[float] = ()) -> np.ndarray:
        """The expression, evaluated by numpy with common subexpressions shared."""
        forms = self._check_forms(forms)
        (result,) = self._functions[0](self._arguments(forms, traces))
        return np.broadcast_to(np.asarray(result, dtype=forms.dtype), forms.shape[:-3]).copy()

    def gradient(self, forms: np.ndarray, traces: Sequence[float] = ()) -> np.ndarray:
        """The symbolic gradient, zero for forms that do not appear."""
        forms = self._check_forms(forms)
        result = np.zeros_like(forms)
        for (i, j, k), entry in zip(self.used_forms, self._functions[1](self._arguments(forms, traces)), strict=True):
            result[..., i, j, k] = entry
        return result

    def trace_gradient(
        self,
        forms: np.ndarray,
        traces: Sequence[float],
        covariance: np.ndarray,  # noqa: ARG002
    ) -> np.ndarray:
        """The symbolic gradient by the traces, shape ``(..., number of traces)``."""
        forms = self._check_forms(forms)
        entries = self._functions[2](self._arguments(forms, traces))
        parts = [np.broadcast_to(np.asarray(entry, dtype=forms.dtype), forms.shape[:-3]) for entry in entries]
        return np.stack(parts, axis=-1) if parts else np.zeros((*forms.shape[:-3], 0), dtype=forms.dtype)

    def expression(self, tokens: int) -> sp.Expr:
        """The formula; raises ``InputError`` when asked for another number of tokens."""
        if tokens != self.token_count:
            raise InputError(f"tokens = {tokens}; this loss is a function of {self.token_count} tokens")
        return self.formula


@dataclass(frozen=True)
class LossAt(Loss):
    """A loss of forms and traces at fixed values of the traces: a loss of the forms alone."""

    loss: ExpressionLoss
    values: tuple[float, ...]

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def indices(self) -> int:
        """K."""
        return self.loss.indices

    @property
    def tokens(self) -> int | None:
        """L."""
        return self.loss.tokens

    def to_mapping(self) -> dict[str, Any]:
        """The formula with the values in it."""
        return {"loss": self.name, "expression": str(self.expression(self.loss.token_count))}

    def value(self, forms: np.ndarray) -> np.ndarray:
        """The value at the fixed traces."""
        return self.loss.value(forms, self.values)

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The gradient at the fixed traces."""
        return self.loss.gradient(forms, self.values)

    def expression(self, tokens: int) -> sp.Expr:
        """The formula with the values in it."""
        known = {trace_symbol(name): sp.Float(v) for name, v in zip(self.loss.traces, self.values, strict=True)}
        return self.loss.expression(tokens).xreplace(known)


def _used_forms(formula: sp.Expr, shape: tuple[int, int, int], traces: Sequence[str] = ()) -> list[sp.Expr]:
    used = []
    for form in formula.atoms(sp.Indexed):
        if form.base != FORMS:
            raise InputError(f"unknown symbol {form}; the forms are G[i, j, k] of shape {shape}")
        indices = form.indices
        if len(indices) != 3 or any(
            not index.is_Integer or not 0 <= int(index) < size for index, size in zip(indices, shape, strict=False)
        ):
            raise InputError(f"{form} is outside the forms G[i, j, k] of shape {shape} (indices count from 0)")
        used.append(form)
    unknown = formula.free_symbols - set(used) - {FORMS, FORMS.label} - set(map(trace_symbol, traces))
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        known = f"and of {', '.join(traces)}" if traces else "alone"
        raise InputError(f"unknown symbols {names} in the loss; it is a function of G[i, j, k] {known}")
    return sorted(used, key=lambda form: tuple(int(n) for n in form.indices[::-1]))


def compile_expressions(
    symbols: Sequence[sp.Symbol], expressions: Sequence[sp.Expr]
) -> Callable[[Sequence[np.ndarray]], list[Any]]:
    """A vectorised numpy function of a list of arrays that returns the list of values of the expressions.

    Overflow of an exponential to infinity is silent (a logistic written with exp is still right there).

    >>> x = sp.Symbol("x")
    >>> compile_expressions([x], [x**2, sp.Integer(1)])([np.array([2.0])])
    [array([4.]), 1]
    """
    function = sp.lambdify([list(symbols)], list(expressions), modules=["scipy", "numpy"], cse=True)

    def evaluate(arguments: Sequence[np.ndarray]) -> list[Any]:
        with np.errstate(over="ignore", under="ignore"):
            return list(function(arguments))

    return evaluate


def indexed_latex(expression: sp.Expr, tokens: int, indices: int) -> str:
    """An expression in the forms, G_ijk counted from 1."""
    names = {
        FORMS[i, j, k]: sp.Symbol(rf"G_{{{i + 1}{j + 1}{k + 1}}}")
        for i in range(tokens)
        for j in range(tokens)
        for k in range(indices)
    }
    return str(sp.latex(expression.xreplace(names)))


def sum_latex(function: str, indices: tuple[int, ...], weights: tuple[Scalar, ...]) -> str:
    """sum w F(G_k) in LaTeX, counted from 1."""
    terms = []
    for index, weight in zip(indices, weights, strict=True):
        front = "" if weight == 1 else sp.latex(to_sympy(weight)) + r"\,"
        forms = f"G_{{{index + 1}}}"
        terms.append(front + (f"{function}({forms})" if function else forms))
    return " + ".join(terms)


def bracket_latex(terms: str) -> str:
    """Parentheses about a sum."""
    return rf"\bigl({terms}\bigr)" if " + " in terms else terms


def is_loss(value: object) -> bool:
    """Whether a value is a loss."""
    return isinstance(value, Loss)


def loss_types() -> dict[str, type[Loss]]:
    """Every loss that a file may name, by name."""
    return named_subclasses(Loss, "loss_name")  # type: ignore[type-abstract]  # only subclasses come out


__all__ = [
    "FORMS",
    "CrossEntropy",
    "ExpressionLoss",
    "Loss",
    "LossShape",
    "MeanSquaredError",
    "OutputProducts",
    "TeacherStudentLoss",
    "compile_expressions",
    "form_symbols",
    "is_loss",
    "loss_types",
    "single_indices",
    "trace_symbol",
]
