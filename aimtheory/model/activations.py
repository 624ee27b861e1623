"""Activations F acting on the attention forms of one index: elementwise functions and the row softmax.

An activation maps an array of forms of shape ``(..., L, L)`` to outputs of the same shape. Elementwise activations
act entry by entry; the softmax acts along the last axis (the keys j of query i). All of them keep the dtype:
``float32`` in, ``float32`` out.
"""

from __future__ import annotations

import difflib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import sympy as sp
from scipy import special

from aimtheory.errors import InputError
from aimtheory.expression import parse_expression
from aimtheory.files import named_subclasses
from aimtheory.frozen import ByValue, Uncached
from aimtheory.model.regularity import check_regularity
from aimtheory.scalars import Scalar, to_scalar, to_sympy
from aimtheory.spectra import plain

_HIGHEST_HERMITE_DEGREE = 64


class Activation(Uncached, ABC):
    """A function of the L x L forms of one index; see the module for the conventions."""

    activation_name: ClassVar[str] = ""
    """In a subclass: the name by which files and :func:`activation` know it; its parameters are its fields."""

    @property
    def name(self) -> str:
        """The name under which :func:`activation` finds it again."""
        return self.activation_name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The keyword arguments that, with the name, rebuild the activation (data fit for a file)."""
        return {key: getattr(self, key) for key in _fields(type(self))}

    @abstractmethod
    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """Outputs of shape ``(..., L, L)``."""

    @abstractmethod
    def vector_jacobian(self, forms: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        """The gradient of ``sum(cotangent * F(forms))`` by the forms, shape ``(..., L, L)``."""

    @abstractmethod
    def expression(self, forms: sp.Matrix) -> sp.Matrix:
        """The outputs as a sympy matrix of the entries of ``forms``."""

    @property
    def entrywise(self) -> ElementwiseActivation | None:
        """The activation itself when it acts entry by entry, else None."""
        return None

    @property
    def row_softmax(self) -> Softmax | None:
        """The activation itself when it is the softmax of each row, else None."""
        return None

    @property
    def polynomial_degree(self) -> int | None:
        """The degree of f when it is a polynomial, entry by entry, else None."""
        return None

    @property
    def erf_gain(self) -> Scalar | None:
        """g when f(x) = erf(g x) entry by entry, else None."""
        return None

    def latex(self, symbol: str) -> str:
        """What F is, in LaTeX text, F called ``symbol``."""
        options = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in self.parameters.items())
        return f"${symbol}$ the {self.name} of each row" + (f" ({options})" if options else "")


def floating(values: Any) -> np.ndarray:
    """The values as a float array; floats keep their precision."""
    array = np.asarray(values)
    return array if np.issubdtype(array.dtype, np.floating) else array.astype(np.float64)


class ElementwiseActivation(Activation):
    """F_ij = f(G_ij), with the first two derivatives of f."""

    @property
    def entrywise(self) -> ElementwiseActivation:
        """Itself."""
        return self

    @abstractmethod
    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """f entry by entry."""

    @abstractmethod
    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """f' entry by entry."""

    @abstractmethod
    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """f'' entry by entry."""

    @abstractmethod
    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """f(argument) as a sympy expression, exact where the parameters are."""

    def vector_jacobian(self, forms: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        """``cotangent * f'(forms)``."""
        return cotangent * self.derivative(forms)

    def latex(self, symbol: str) -> str:
        """f(x)."""
        return f"${symbol}(x) = {sp.latex(self.scalar_expression(sp.Symbol('x')))}$ entry by entry"

    def expression(self, forms: sp.Matrix) -> sp.Matrix:
        """f applied to every entry."""
        return sp.Matrix(forms).applyfunc(self.scalar_expression)


@dataclass(frozen=True, eq=False)
class Polynomial(ByValue, ElementwiseActivation):
    """f(x) = sum_n coefficients[n] x^n (ascending powers).

    >>> Polynomial((0, 0, 1))(np.array([[3.0]]))
    array([[9.]])
    """

    coefficients: tuple[Scalar, ...]

    def __init__(self, coefficients: Sequence[object]) -> None:
        if isinstance(coefficients, (str, bytes)) or not isinstance(coefficients, Sequence) or len(coefficients) == 0:
            raise InputError(
                f"coefficients = {coefficients!r} is not a list of numbers; give ascending powers such as [0, 1]"
            )
        scalars = tuple(to_scalar(value, f"coefficients[{n}]") for n, value in enumerate(coefficients))
        if len(scalars) > _HIGHEST_HERMITE_DEGREE + 1:
            raise InputError(f"{len(scalars)} coefficients; at most degree {_HIGHEST_HERMITE_DEGREE} is supported")
        for n, scalar in enumerate(scalars):
            if isinstance(scalar, sp.Expr) and scalar.free_symbols:
                raise InputError(f"coefficients[{n}] = {scalar} has free symbols; give a number")
        object.__setattr__(self, "coefficients", scalars)

    @property
    def name(self) -> str:
        """``polynomial``."""
        return "polynomial"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The coefficients."""
        return {"coefficients": list(self.coefficients)}

    @property
    def polynomial_degree(self) -> int:
        """That of the highest coefficient given."""
        return len(self.coefficients) - 1

    @cached_property
    def _derivative_coefficients(self) -> tuple[list[float], list[float], list[float]]:
        zeroth = [float(c) for c in self.coefficients]
        first = [n * c for n, c in enumerate(zeroth)][1:] or [0.0]
        second = [n * c for n, c in enumerate(first)][1:] or [0.0]
        return zeroth, first, second

    @staticmethod
    def _horner(coefficients: list[float], forms: np.ndarray) -> np.ndarray:
        forms = floating(forms)
        result = np.full_like(forms, coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result *= forms
            result += coefficient
        return result

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """f by Horner's rule."""
        return self._horner(self._derivative_coefficients[0], forms)

    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """f'."""
        return self._horner(self._derivative_coefficients[1], forms)

    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """f''."""
        return self._horner(self._derivative_coefficients[2], forms)

    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """The polynomial of the argument."""
        return sp.Add(*[to_sympy(c) * argument**n for n, c in enumerate(self.coefficients)])


@dataclass(frozen=True, eq=False)
class Linear(ByValue, ElementwiseActivation):
    """f(x) = x."""

    @property
    def name(self) -> str:
        """``linear``."""
        return "linear"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None."""
        return {}

    @property
    def polynomial_degree(self) -> int:
        """1."""
        return 1

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """A copy of the forms."""
        return floating(forms).copy()

    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """Ones."""
        return np.ones_like(floating(forms))

    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """Zeros."""
        return np.zeros_like(floating(forms))

    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """The argument."""
        return argument


@dataclass(frozen=True, eq=False)
class Hermite(ByValue, ElementwiseActivation):
    """The normalized Hermite polynomial h_n = He_n/sqrt(n!): h_1 = x, h_2 = (x^2-1)/sqrt 2, h_3 = (x^3-3x)/sqrt 6.

    E h_m(z) h_n(z) = delta_mn for z ~ N(0, 1); h_n' = sqrt(n) h_{n-1}. Evaluated by the stable recurrence
    sqrt(n+1) h_{n+1} = x h_n - sqrt(n) h_{n-1}.

    >>> Hermite(2)(np.array([[1.0, 3.0], [0.0, -1.0]])).round(4)
    array([[ 0.    ,  5.6569],
           [-0.7071,  0.    ]])
    """

    degree: int

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or not isinstance(self.degree, (int, np.integer)):
            raise InputError(f"degree = {self.degree!r} is not an integer")
        if not 0 <= self.degree <= _HIGHEST_HERMITE_DEGREE:
            raise InputError(f"degree = {self.degree}; Hermite degrees run from 0 to {_HIGHEST_HERMITE_DEGREE}")

    @property
    def name(self) -> str:
        """``hermiteN``."""
        return f"hermite{self.degree}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None: the degree is in the name."""
        return {}

    @property
    def polynomial_degree(self) -> int:
        """n."""
        return self.degree

    @staticmethod
    def _evaluate(degree: int, forms: np.ndarray) -> np.ndarray:
        if degree < 0:
            return np.zeros_like(forms)
        previous, current = np.zeros_like(forms), np.ones_like(forms)
        for n in range(degree):
            previous, current = current, (forms * current - math.sqrt(n) * previous) / math.sqrt(n + 1)
        return current

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """h_n."""
        return self._evaluate(self.degree, floating(forms))

    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """sqrt(n) h_{n-1}."""
        return math.sqrt(self.degree) * self._evaluate(self.degree - 1, floating(forms))

    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """sqrt(n(n-1)) h_{n-2}."""
        n = self.degree
        return math.sqrt(n * (n - 1)) * self._evaluate(n - 2, floating(forms))

    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """The exact polynomial."""
        n = self.degree
        terms = [
            sp.Rational((-1) ** j * math.factorial(n), math.factorial(j) * math.factorial(n - 2 * j) * 2**j)
            * argument ** (n - 2 * j)
            for j in range(n // 2 + 1)
        ]
        return sp.Add(*terms) / sp.sqrt(sp.factorial(n))


@dataclass(frozen=True, eq=False)
class Erf(ByValue, ElementwiseActivation):
    """f(x) = erf(gain x)."""

    gain: Scalar = 1.0

    def __init__(self, gain: object = 1) -> None:
        object.__setattr__(self, "gain", _positive(gain, "gain"))

    @property
    def name(self) -> str:
        """``erf``."""
        return "erf"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The gain."""
        return {"gain": self.gain}

    @property
    def erf_gain(self) -> Scalar:
        """The gain."""
        return self.gain

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """erf(gain x)."""
        return np.asarray(special.erf(float(self.gain) * floating(forms)))

    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """(2 gain/sqrt pi) exp(-gain^2 x^2)."""
        gain = float(self.gain)
        return np.asarray((2 * gain / math.sqrt(math.pi)) * np.exp(-((gain * floating(forms)) ** 2)))

    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """-2 gain^2 x f'."""
        forms = floating(forms)
        return (-2 * float(self.gain) ** 2) * forms * self.derivative(forms)

    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """erf(gain argument)."""
        return sp.erf(to_sympy(self.gain) * argument)


@dataclass(frozen=True, eq=False)
class ElementwiseExpression(ByValue, ElementwiseActivation):
    """f given by a sympy expression (or text of the whitelist language) in one symbol.

    Raises ``AssumptionError`` when f breaks Assumption 1.3 or 2.1 of [D] (growth, smoothness).

    >>> f = ElementwiseExpression("tanh(x)")
    >>> f.derivative(np.array([0.0]))
    array([1.])
    """

    formula: sp.Expr

    def __init__(self, formula: sp.Expr | str) -> None:
        if isinstance(formula, str):
            formula = parse_expression(formula, symbols=("x",))
        if not isinstance(formula, sp.Expr):
            raise InputError(f"expression = {formula!r} is not a sympy expression nor text")
        symbols = formula.free_symbols
        if len(symbols) > 1:
            names = ", ".join(sorted(map(str, symbols)))
            raise InputError(f"an elementwise activation is a function of one symbol; {formula} has {names}")
        canonical = sp.Symbol("x", real=True)
        formula = formula.subs(dict.fromkeys(symbols, canonical))
        check_regularity(formula, variables=(canonical,), what=f"activation {formula}")
        object.__setattr__(self, "formula", formula)

    @property
    def name(self) -> str:
        """The text of f."""
        return str(self.formula)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None: the formula is the name."""
        return {}

    @cached_property
    def _functions(self) -> tuple[Any, Any, Any]:
        x = sp.Symbol("x", real=True)
        derivatives = [self.formula, sp.diff(self.formula, x), sp.diff(self.formula, x, 2)]
        return tuple(sp.lambdify(x, d, modules=["scipy", "numpy"], cse=True) for d in derivatives)

    def _evaluate(self, order: int, forms: np.ndarray) -> np.ndarray:
        forms = floating(forms)
        with np.errstate(over="ignore", under="ignore"):
            values = np.asarray(self._functions[order](forms), dtype=forms.dtype)
        return np.broadcast_to(values, forms.shape).copy()

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """f entry by entry."""
        return self._evaluate(0, forms)

    def derivative(self, forms: np.ndarray) -> np.ndarray:
        """f', differentiated symbolically."""
        return self._evaluate(1, forms)

    def second_derivative(self, forms: np.ndarray) -> np.ndarray:
        """f'', differentiated symbolically."""
        return self._evaluate(2, forms)

    def scalar_expression(self, argument: sp.Expr) -> sp.Expr:
        """f(argument)."""
        return self.formula.subs(sp.Symbol("x", real=True), argument)


@dataclass(frozen=True, eq=False)
class Softmax(ByValue, Activation):
    """F_ij = exp(beta G_ij) / sum_j' exp(beta G_ij'), the row softmax at inverse temperature beta.

    ``mask="causal"``: row i attends to j <= i alone, and its entries j > i are 0 (the name is then ``causal_softmax``).
    Stable for forms of any size (the row maximum is taken out first).

    >>> Softmax()(np.array([[0.0, 0.0], [1000.0, 0.0]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    >>> Softmax(mask="causal")(np.zeros((2, 2)))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    inverse_temperature: Scalar = 1.0
    mask: str | None = None

    def __init__(self, inverse_temperature: object = 1, mask: str | None = None) -> None:
        object.__setattr__(self, "inverse_temperature", _positive(inverse_temperature, "inverse_temperature"))
        if mask not in (None, "causal"):
            raise InputError(f"mask = {mask!r} must be None or 'causal'")
        object.__setattr__(self, "mask", mask)

    def __repr__(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask!r}"
        return f"Softmax(inverse_temperature={self.inverse_temperature!r}{mask})"

    @property
    def name(self) -> str:
        """``softmax``, or ``causal_softmax``."""
        return "softmax" if self.mask is None else "causal_softmax"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The inverse temperature."""
        return {"inverse_temperature": self.inverse_temperature}

    @property
    def row_softmax(self) -> Softmax:
        """Itself."""
        return self

    @cached_property
    def _beta(self) -> float:
        return float(self.inverse_temperature)

    def _allowed(self, forms: np.ndarray) -> np.ndarray:
        """The entries that a row sees, shape (L, L)."""
        return np.tri(*forms.shape[-2:], dtype=bool)

    def _logits(self, forms: np.ndarray) -> np.ndarray:
        """beta (G - the largest entry of the row), -inf where masked; a fresh array."""
        forms = floating(forms)
        if self.mask is not None:
            forms = np.where(self._allowed(forms), forms, forms.dtype.type(-np.inf))
        logits = forms - forms.max(axis=-1, keepdims=True)
        if self._beta != 1.0:
            logits *= self._beta
        return logits

    def __call__(self, forms: np.ndarray) -> np.ndarray:
        """Probabilities along the last axis."""
        logits = self._logits(forms)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=-1, keepdims=True)
        return logits

    def vector_jacobian(self, forms: np.ndarray, cotangent: np.ndarray) -> np.ndarray:
        """``beta p (cotangent - sum_j p cotangent)``."""
        probabilities = self(forms)
        return self._beta * probabilities * (cotangent - (probabilities * cotangent).sum(axis=-1, keepdims=True))

    def log_probabilities(self, forms: np.ndarray) -> np.ndarray:
        """log F, without the underflow of log(softmax); 0 at masked entries, which carry no probability to weigh."""
        logits = self._logits(forms)
        logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        if self.mask is not None:
            logits[..., ~self._allowed(logits)] = 0
        return logits

    def expression(self, forms: sp.Matrix) -> sp.Matrix:
        """The ratios of exponentials, row by row."""
        beta = to_sympy(self.inverse_temperature)
        forms = sp.Matrix(forms)
        exponentials = forms.applyfunc(lambda entry: sp.exp(beta * entry))
        rows, columns = forms.shape

        def ratio(i: int, j: int) -> sp.Expr:
            seen = columns if self.mask is None else i + 1
            return exponentials[i, j] / sum(exponentials[i, :seen]) if j < seen else sp.S.Zero

        return sp.Matrix(rows, columns, ratio)


def _positive(value: object, name: str) -> Scalar:
    scalar = to_scalar(value, name)
    if isinstance(scalar, sp.Expr) and scalar.free_symbols:
        raise InputError(f"{name} = {scalar} has free symbols; give a number")
    if not float(scalar) > 0:
        raise InputError(f"{name} = {scalar} must be > 0")
    return scalar


_FACTORIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "linear": (Linear, ()),
    "polynomial": (Polynomial, ("coefficients",)),
    "erf": (Erf, ("gain",)),
    "softmax": (Softmax, ("inverse_temperature",)),
    "causal_softmax": (lambda inverse_temperature=1: Softmax(inverse_temperature, "causal"), ("inverse_temperature",)),
}
_REQUIRED = {"polynomial": "coefficients"}
_FORMULA = re.compile(r"\bx\b|[^\w\s-]")
"""What makes a text a formula and not a misspelt name: the variable, an operator or a parenthesis."""

_HERMITE_NAME = re.compile(r"hermite(\d{1,3})")


def activation_names() -> tuple[str, ...]:
    """The names that :func:`activation` knows; ``hermite1`` stands for ``hermiteN`` of any degree."""
    return (*_factories(), "hermite1", "hermite2", "hermite3")


def _factories() -> dict[str, tuple[Any, tuple[str, ...]]]:
    """What builds each named activation, and its parameters: those here, and classes that name themselves."""
    named = named_subclasses(Activation, "activation_name")  # type: ignore[type-abstract]  # only subclasses
    return {name: (cls, _fields(cls)) for name, cls in named.items()} | _FACTORIES


def _fields(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.init) if is_dataclass(cls) else ()


def activation(name: str | sp.Expr | Activation, **parameters: object) -> Activation:
    """The activation of a name and its parameters, or of a formula in one variable such as ``"tanh(x)"``.

    A formula may be a sympy expression; an ``Activation`` passes through unchanged. Raises ``InputError`` listing what
    exists.

    >>> activation("softmax", inverse_temperature=2)
    Softmax(inverse_temperature=Fraction(2, 1))
    >>> activation("hermite3").name
    'hermite3'
    """
    if isinstance(name, Activation):
        return name
    if isinstance(name, sp.Expr):
        _refuse_unknown(str(name), parameters, ())
        return ElementwiseExpression(name)
    if not isinstance(name, str):
        raise InputError(f"activation = {name!r} is not a name; known: {', '.join(activation_names())}")
    key = name.strip().lower()
    if match := _HERMITE_NAME.fullmatch(key):
        _refuse_unknown(name, parameters, ())
        return Hermite(int(match[1]))
    factories = _factories()
    if key not in factories and _FORMULA.search(name):
        _refuse_unknown(name, parameters, ())
        return ElementwiseExpression(name)
    if key not in factories:
        close = difflib.get_close_matches(key, activation_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = ", ".join(activation_names())
        raise InputError(
            f"unknown activation {name!r}; {hint}known: {known} (hermiteN for any degree N), or a formula such as "
            "'tanh(x)'"
        )
    factory, allowed = factories[key]
    _refuse_unknown(name, parameters, allowed)
    if key in _REQUIRED and _REQUIRED[key] not in parameters:
        raise InputError(f"activation {name!r} needs {_REQUIRED[key]}=...")
    result: Activation = factory(**parameters)
    return result


def _refuse_unknown(name: str, parameters: Mapping[str, object], allowed: Sequence[str]) -> None:
    for parameter in parameters:
        if parameter not in allowed:
            takes = ", ".join(allowed) if allowed else "no parameters"
            raise InputError(f"activation {name!r} has no parameter {parameter!r}; it takes {takes}")


def activation_keys() -> tuple[str, ...]:
    """Keys of plain data that belong to activations: the name or formula, and parameters, once a side."""
    parameters = dict.fromkeys(key for _, keys in _factories().values() for key in keys)
    return tuple(prefix + key for prefix in ("", "teacher_") for key in ("activation", *parameters))


def activation_mapping(function: Activation, prefix: str) -> dict[str, Any]:
    """An activation as plain data, every key with a prefix (``""`` for students, ``"teacher_"`` for teachers).

    Raises ``InputError`` for one of a class that files do not know.
    """
    known = function.name in _factories() or _HERMITE_NAME.fullmatch(function.name) or _FORMULA.search(function.name)
    if not function.name or not known:
        raise InputError(
            f"the activation {function!r} has no name in files: set the class attribute activation_name of "
            f"{type(function).__name__}, a word such as 'sine'"
        )
    options = {f"{prefix}{key}": plain(value) for key, value in function.parameters.items()}
    return {f"{prefix}activation": function.name} | options


def activation_from_mapping(data: Mapping[str, Any], prefix: str) -> Activation | None:
    """The activation of plain data, None when absent; ``InputError`` for a parameter without its activation."""
    options = {
        key.removeprefix(prefix): data[key]
        for key in activation_keys()
        if key in data and key.startswith("teacher_") == bool(prefix) and key != f"{prefix}activation"
    }
    name = data.get(f"{prefix}activation")
    if name is None:
        if options:
            first = prefix + next(iter(options))
            raise InputError(f"the key {first!r} is a parameter of {prefix}activation, which is not given")
        return None
    if not isinstance(name, str):
        raise InputError(
            f"{prefix}activation = {name!r} must be the name of an activation or a formula such as 'tanh(x)'"
        )
    return activation(name, **options)


__all__ = [
    "Activation",
    "ElementwiseActivation",
    "ElementwiseExpression",
    "Erf",
    "Hermite",
    "Linear",
    "Polynomial",
    "Softmax",
    "activation",
    "activation_from_mapping",
    "activation_keys",
    "activation_mapping",
    "activation_names",
    "floating",
]
