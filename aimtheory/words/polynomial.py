"""Noncommutative polynomials in typed letters, with scalar coefficients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import FrozenMapping
from aimtheory.scalars import Scalar, to_scalar, to_sympy
from aimtheory.words.letters import Letter
from aimtheory.words.word import Word


def _add(left: Scalar, right: Scalar) -> Scalar:
    if isinstance(left, sp.Expr) or isinstance(right, sp.Expr):
        return sp.expand(to_sympy(left) + to_sympy(right))
    return left + right


def _multiply(left: Scalar, right: Scalar) -> Scalar:
    if isinstance(left, sp.Expr) or isinstance(right, sp.Expr):
        return sp.expand(to_sympy(left) * to_sympy(right))
    return left * right


def _check_replacement(letter: Letter, new: Polynomial) -> None:
    if (new.rows, new.columns) != (letter.rows, letter.columns):
        raise InputError(
            f"letter {letter} is {letter.rows} x {letter.columns}; {new} is {new.rows} x {new.columns} "
            "and cannot replace it"
        )
    if letter.symmetric and not new.is_symmetric:
        raise InputError(f"letter {letter} is symmetric; {new} is not and cannot replace it")


@dataclass(frozen=True, init=False)
class Polynomial:
    """A noncommutative polynomial sum_w c_w w, all words mapping the same space to the same space.

    Coefficients are rationals, floats or commutative sympy expressions. Immutable; ``+``, ``-``, ``*`` (by polynomial,
    word, letter or scalar), ``.T``, ``substitute`` and ``map_coefficients`` give new polynomials; zero terms are
    dropped.

    >>> W = Letter("W1", "d", "r1")
    >>> S = Polynomial.word(W, W.T)
    >>> S.T == S, str(S + S), S.rows
    (True, '2*W1 W1^T', 'd')

    Raises ``InputError`` when words between different spaces are mixed.
    """

    terms: Mapping[Word, Scalar]
    rows: str
    columns: str

    def __init__(self, terms: Mapping[Word, object], rows: str | None = None, columns: str | None = None) -> None:
        kept: dict[Word, Scalar] = {}
        for word, coefficient in terms.items():
            rows, columns = rows or word.rows, columns or word.columns
            if (word.rows, word.columns) != (rows, columns):
                raise InputError(
                    f"polynomial mixes shapes: {word} is {word.rows} x {word.columns}, expected {rows} x {columns}; "
                    "every term must map the same spaces"
                )
            value = to_scalar(coefficient, f"coefficient of {word}")
            if isinstance(value, sp.Expr):  # expanded, so that equal coefficients compare equal
                value = sp.expand(value)
            if value != 0:
                kept[word] = value
        object.__setattr__(self, "terms", FrozenMapping(kept))
        object.__setattr__(self, "rows", rows or "d")
        object.__setattr__(self, "columns", columns or self.rows)

    @classmethod
    def word(cls, *letters: Letter) -> Polynomial:
        """The monomial with coefficient one."""
        return cls({Word.of(*letters): Fraction(1)})

    @classmethod
    def identity(cls, space: str = "d") -> Polynomial:
        """The identity of a space."""
        return cls({Word((), space): Fraction(1)})

    @classmethod
    def zero(cls, rows: str = "d", columns: str | None = None) -> Polynomial:
        """The zero polynomial between two spaces."""
        return cls({}, rows, columns or rows)

    @property
    def T(self) -> Polynomial:
        """The transposed polynomial."""
        return Polynomial({word.T: c for word, c in self.terms.items()}, self.columns, self.rows)

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The distinct letters, untransposed, in order of appearance."""
        seen: dict[Letter, None] = {}
        for word in self.terms:
            for letter in word:
                seen.setdefault(letter.base)
        return tuple(seen)

    @property
    def is_symmetric(self) -> bool:
        """True when the polynomial equals its transpose identically."""
        return self.rows == self.columns and self == self.T

    def substitute(self, replace: Callable[[Letter], Polynomial | None]) -> Polynomial:
        """Replace letters by polynomials; ``replace`` returns None to keep a letter. Transposes follow by themselves.

        Raises ``InputError`` when a polynomial does not have the shape of its letter, or is not symmetric as its letter
        is.
        """
        result = Polynomial.zero(self.rows, self.columns)
        for word, coefficient in self.terms.items():
            product = Polynomial({Word((), word.space): coefficient})
            for letter in word:
                base = letter.base
                new = replace(base)
                if new is not None:
                    _check_replacement(base, new)
                factor = Polynomial.word(letter) if new is None else (new.T if letter.transposed else new)
                product = product * factor
            result = result + product
        return result

    def map_coefficients(self, function: Callable[[Scalar], object]) -> Polynomial:
        """Apply a function to every coefficient."""
        return Polynomial({w: function(c) for w, c in self.terms.items()}, self.rows, self.columns)

    def __add__(self, other: Polynomial) -> Polynomial:
        if not isinstance(other, Polynomial):
            return NotImplemented
        if (self.rows, self.columns) != (other.rows, other.columns):
            raise InputError(
                f"cannot add a {self.rows} x {self.columns} polynomial and a {other.rows} x {other.columns} one"
            )
        terms = dict(self.terms)
        for word, coefficient in other.terms.items():
            terms[word] = _add(terms[word], coefficient) if word in terms else coefficient
        return Polynomial(terms, self.rows, self.columns)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + (-other)

    def __mul__(self, other: object) -> Polynomial:
        if isinstance(other, Letter):
            other = Polynomial.word(other)
        if isinstance(other, Word):
            other = Polynomial({other: Fraction(1)})
        if not isinstance(other, Polynomial):
            scalar = to_scalar(other, "scalar factor")
            return self.map_coefficients(lambda c: _multiply(c, scalar))
        if self.columns != other.rows:
            raise InputError(
                f"cannot multiply a polynomial with columns {self.columns!r} by one with rows {other.rows!r}"
            )
        terms: dict[Word, Scalar] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                word, value = left * right, _multiply(a, b)
                terms[word] = _add(terms[word], value) if word in terms else value
        return Polynomial(terms, self.rows, other.columns)

    def __rmul__(self, other: object) -> Polynomial:
        if isinstance(other, Letter):
            return Polynomial.word(other) * self
        if isinstance(other, Word):
            return Polynomial({other: Fraction(1)}) * self
        return self * other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Polynomial):
            return NotImplemented
        if (self.rows, self.columns) != (other.rows, other.columns):
            return False
        return not (self - other).terms

    def __hash__(self) -> int:
        return hash((self.rows, self.columns, frozenset(self.terms)))

    def __iter__(self) -> Iterator[tuple[Word, Scalar]]:
        return iter(self.terms.items())

    def __len__(self) -> int:
        return len(self.terms)

    def __str__(self) -> str:
        parts = [
            str(w) if c == 1 else f"({c})*{w}" if isinstance(c, sp.Add) else f"{c}*{w}" for w, c in self.terms.items()
        ]
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def __repr__(self) -> str:
        return f"Polynomial({self}: {self.rows} x {self.columns})"

    @property
    def latex(self) -> str:
        """LaTeX of the polynomial."""
        parts = []
        for word, coefficient in self.terms.items():
            body = word.latex
            c = to_sympy(coefficient)
            if c == -1:
                parts.append(f"- {body}")
            elif c == 1:
                parts.append(body)
            else:
                text = sp.latex(c)
                parts.append((rf"\left({text}\right) " if c.is_Add else f"{text} ") + body)
        return " + ".join(parts).replace("+ -", "- ") or "0"


__all__ = ["Polynomial"]
