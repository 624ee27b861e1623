"""Losses 𝓛(G) of the attention forms G[i, j, k] = x_i^T S_k x_j / sqrt(d), arrays of shape ``(..., L, L, K)``.

Every loss has its value, its gradient by G, and its sympy expression in ``IndexedBase("G")[i, j, k]`` (0-based). All
are vectorised over leading (batch) axes and keep the dtype.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import Uncached
from aimtheory.model.activations import Activation, Softmax, activation
from aimtheory.model.expression import parse_expression
from aimtheory.model.regularity import check_regularity
from aimtheory.scalars import Scalar, to_scalar, to_sympy

FORMS = sp.IndexedBase("G")
"""The symbol of the forms in expressions: ``FORMS[i, j, k]``."""


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

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name: ``mse``, ``cross_entropy``, ``expression``."""

    @abstractmethod
    def value(self, forms: np.ndarray) -> np.ndarray:
        """The loss, shape ``(...)`` for forms ``(..., L, L, K)``."""

    @abstractmethod
    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """d loss/d G, shape ``(..., L, L, K)``."""

    @abstractmethod
    def expression(self, tokens: int) -> sp.Expr:
        """The loss in the symbols ``FORMS[i, j, k]``."""

    def _check_forms(self, forms: np.ndarray) -> np.ndarray:
        forms = np.asarray(forms)
        if not np.issubdtype(forms.dtype, np.floating):
            forms = forms.astype(np.float64)
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


@dataclass(frozen=True)
class MeanSquaredError(Loss):
    """½ || Σ_{k in students} w_k F(G_k) − Σ_{k in teachers} w_k F*(G_k) ||²: half the sum over all L x L outputs.

    >>> loss = MeanSquaredError(activation("linear"))
    >>> float(loss.value(np.array([[[3.0, 1.0]]])))
    2.0
    """

    student: Activation
    teacher: Activation
    students: tuple[int, ...]
    teachers: tuple[int, ...]
    student_weights: tuple[Scalar, ...]
    teacher_weights: tuple[Scalar, ...]

    def __init__(
        self,
        student: Activation | str,
        teacher: Activation | str | None = None,
        students: Sequence[int] = (0,),
        teachers: Sequence[int] = (1,),
        student_weights: Sequence[object] | None = None,
        teacher_weights: Sequence[object] | None = None,
    ) -> None:
        students, teachers = _index_tuple(students, "students"), _index_tuple(teachers, "teachers")
        _disjoint(students, teachers)
        one = to_scalar(1)
        student = activation(student)
        object.__setattr__(self, "student", student)
        object.__setattr__(self, "teacher", student if teacher is None else activation(teacher))
        object.__setattr__(self, "students", students)
        object.__setattr__(self, "teachers", teachers)
        object.__setattr__(self, "student_weights", _weights(student_weights, len(students), "student_weights", one))
        object.__setattr__(self, "teacher_weights", _weights(teacher_weights, len(teachers), "teacher_weights", one))

    @property
    def name(self) -> str:
        """``mse``."""
        return "mse"

    @property
    def indices(self) -> int:
        """One more than the largest index."""
        return max(self.students + self.teachers) + 1

    @property
    def terms(self) -> tuple[tuple[int, Activation, Scalar], ...]:
        """(index, activation, coefficient) with the residual = Σ coefficient · activation(G_index)."""
        plus = [(k, self.student, w) for k, w in zip(self.students, self.student_weights, strict=True)]
        minus = [(k, self.teacher, -w) for k, w in zip(self.teachers, self.teacher_weights, strict=True)]
        return tuple(plus + minus)

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


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """− Σ_ij p*_ij log p_ij, with row softmax probabilities of student and teacher.

    p = softmax(β Σ_{k in students} w_k G_k) (the students' logits add up) and p* = Σ_{k in teachers} v_k
    softmax(β* G_k), a mixture with weights v_k ≥ 0 of unit sum (equal weights unless given).

    >>> loss = CrossEntropy()
    >>> float(loss.value(np.zeros((2, 2, 2)))) == 2 * float(np.log(2))
    True
    """

    student: Softmax
    teacher: Softmax
    students: tuple[int, ...]
    teachers: tuple[int, ...]
    student_weights: tuple[Scalar, ...]
    teacher_weights: tuple[Scalar, ...]

    def __init__(
        self,
        student: Activation | str = "softmax",
        teacher: Activation | str | None = None,
        students: Sequence[int] = (0,),
        teachers: Sequence[int] = (1,),
        student_weights: Sequence[object] | None = None,
        teacher_weights: Sequence[object] | None = None,
    ) -> None:
        students, teachers = _index_tuple(students, "students"), _index_tuple(teachers, "teachers")
        _disjoint(students, teachers)
        student = activation(student)
        teacher = student if teacher is None else activation(teacher)
        for function in (student, teacher):
            if not isinstance(function, Softmax):
                raise InputError(f"cross entropy takes softmax activations, got {function!r}")
        equal = to_scalar(f"1/{len(teachers)}")
        mixture = _weights(teacher_weights, len(teachers), "teacher_weights", equal)
        if any(not float(v) >= 0 for v in mixture) or abs(sum(float(v) for v in mixture) - 1) > 1e-12:
            shown = ", ".join(map(str, mixture))
            raise InputError(f"teacher_weights = ({shown}) are not a probability distribution; >= 0 with sum 1")
        object.__setattr__(self, "students", students)
        object.__setattr__(self, "teachers", teachers)
        object.__setattr__(
            self, "student_weights", _weights(student_weights, len(students), "student_weights", to_scalar(1))
        )
        object.__setattr__(self, "teacher_weights", mixture)
        object.__setattr__(self, "student", student)
        object.__setattr__(self, "teacher", teacher)

    @property
    def name(self) -> str:
        """``cross_entropy``."""
        return "cross_entropy"

    @property
    def indices(self) -> int:
        """One more than the largest index."""
        return max(self.students + self.teachers) + 1

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
            partition = sp.Add(*[sp.exp(beta * logits[i, j]) for j in range(tokens)])
            linear = sp.Add(*[targets[i, j] * beta * logits[i, j] for j in range(tokens)])
            total += sp.log(partition) - linear
        return total


@dataclass(frozen=True)
class ExpressionLoss(Loss):
    """A loss given by a sympy expression in ``IndexedBase("G")[i, j, k]``, or by text of the whitelist language.

    Raises ``AssumptionError`` when the expression breaks Assumption 1.3 (continuous, polynomial growth) or 2.1
    (smooth with polynomially growing derivatives) of [D]; ``allow_exponential_growth=True`` lets exponentials of
    linear growth through. Raises ``InputError`` on unknown symbols and on indices outside the shape.

    >>> loss = ExpressionLoss("(G[0,0,0] - G[0,0,1])**2", tokens=1, indices=2)
    >>> loss.gradient(np.array([[[3.0, 1.0]]]))
    array([[[ 4., -4.]]])
    """

    formula: sp.Expr
    token_count: int
    index_count: int
    allow_exponential_growth: bool

    def __init__(
        self, formula: sp.Expr | str, tokens: int, indices: int, allow_exponential_growth: bool = False
    ) -> None:
        for what, count in (("tokens", tokens), ("indices", indices)):
            if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
                raise InputError(f"{what} = {count!r} must be an integer >= 1")
        shape = (int(tokens), int(tokens), int(indices))
        if isinstance(formula, str):
            formula = parse_expression(formula, indexed={"G": shape})
        if not isinstance(formula, sp.Expr):
            raise InputError(f"the loss {formula!r} is not a sympy expression nor text")
        formula = formula.xreplace(
            {f: FORMS[f.indices] for f in formula.atoms(sp.Indexed) if str(f.base) == "G" and f.base != FORMS}
        )
        forms = _used_forms(formula, shape)
        check_regularity(formula, forms, "loss", allow_exponential_growth)
        object.__setattr__(self, "formula", formula)
        object.__setattr__(self, "token_count", shape[0])
        object.__setattr__(self, "index_count", shape[2])
        object.__setattr__(self, "allow_exponential_growth", bool(allow_exponential_growth))

    @property
    def name(self) -> str:
        """``expression``."""
        return "expression"

    @property
    def tokens(self) -> int | None:
        """L."""
        return self.token_count

    @property
    def indices(self) -> int:
        """K."""
        return self.index_count

    @property
    def used_forms(self) -> tuple[tuple[int, int, int], ...]:
        """The (i, j, k) on which the loss depends, in order."""
        shape = (self.token_count, self.token_count, self.index_count)
        return tuple(tuple(int(n) for n in f.indices) for f in _used_forms(self.formula, shape))  # type: ignore[misc]

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        shape = (self.token_count, self.token_count, self.index_count)
        forms = _used_forms(self.formula, shape)
        symbols = [sp.Symbol(f"g_{n}", real=True) for n in range(len(forms))]
        flat = self.formula.xreplace(dict(zip(forms, symbols, strict=True)))
        return compile_expressions(symbols, [flat]), compile_expressions(symbols, [flat.diff(s) for s in symbols])

    def _arguments(self, forms: np.ndarray) -> list[np.ndarray]:
        return [forms[..., i, j, k] for i, j, k in self.used_forms]

    def value(self, forms: np.ndarray) -> np.ndarray:
        """The expression, evaluated by numpy with common subexpressions shared."""
        forms = self._check_forms(forms)
        (result,) = self._functions[0](self._arguments(forms))
        return np.broadcast_to(np.asarray(result, dtype=forms.dtype), forms.shape[:-3]).copy()

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The symbolic gradient, zero for forms that do not appear."""
        forms = self._check_forms(forms)
        result = np.zeros_like(forms)
        for (i, j, k), entry in zip(self.used_forms, self._functions[1](self._arguments(forms)), strict=True):
            result[..., i, j, k] = entry
        return result

    def expression(self, tokens: int) -> sp.Expr:
        """The formula; raises ``InputError`` when asked for another number of tokens."""
        if tokens != self.token_count:
            raise InputError(f"tokens = {tokens}; this loss is a function of {self.token_count} tokens")
        return self.formula


def _used_forms(formula: sp.Expr, shape: tuple[int, int, int]) -> list[sp.Expr]:
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
    unknown = formula.free_symbols - set(used) - {FORMS, FORMS.label}
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise InputError(f"unknown symbols {names} in the loss; it is a function of G[i, j, k] alone")
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


__all__ = [
    "FORMS",
    "CrossEntropy",
    "ExpressionLoss",
    "Loss",
    "MeanSquaredError",
    "compile_expressions",
    "form_symbols",
]
