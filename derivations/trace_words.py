"""Traces of products of matrices, written out once more: the library is compared with this, not with itself.

A factor is a name with a mark: "" for the matrix, "^T" for its transpose, "=" for a symmetric one. A product is a tuple
of factors, a polynomial a dictionary from products to coefficients. Traces are equal under rotation and transposition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sympy as sp

if TYPE_CHECKING:
    from aimtheory.hierarchy import MomentHierarchy

Factor = tuple[str, str]
Product = tuple[Factor, ...]
Polynomial = dict[Product, sp.Expr]

_TURNED = {"": "^T", "^T": "", "=": "="}

ONE: Polynomial = {(): sp.S.One}


def matrix(name: str, *, symmetric: bool = False) -> Polynomial:
    """A single letter as a polynomial."""
    return {((name, "=" if symmetric else ""),): sp.S.One}


def _collect(pairs: Iterable[tuple[Product, sp.Expr]]) -> Polynomial:
    values: dict[Product, list[sp.Expr]] = {}
    for word, value in pairs:
        values.setdefault(word, []).append(value)
    sums = {word: sp.expand(sp.Add(*parts)) for word, parts in values.items()}
    return {word: value for word, value in sums.items() if value != 0}


def plus(*terms: Polynomial) -> Polynomial:
    """The sum, terms that cancel dropped."""
    return _collect(pair for term in terms for pair in term.items())


def times(scalar: Any, term: Polynomial) -> Polynomial:
    """A scalar times a polynomial."""
    return {product: sp.sympify(scalar) * value for product, value in term.items()}


def product(*factors: Polynomial) -> Polynomial:
    """The noncommutative product."""
    result = ONE
    for factor in factors:
        result = _collect((left + right, a * b) for left, a in result.items() for right, b in factor.items())
    return result


def transpose(term: Polynomial) -> Polynomial:
    """The transpose: factors reversed and turned."""
    return {tuple((name, _TURNED[mark]) for name, mark in reversed(p)): value for p, value in term.items()}


def canonical(word: Product) -> Product:
    """The least of all rotations of a product and of its transpose."""
    turned = tuple((name, _TURNED[mark]) for name, mark in reversed(word))
    return min((form[n:] + form[:n] for form in (word, turned) for n in range(max(1, len(word)))), default=())


def trace(term: Polynomial) -> Polynomial:
    """tr of a polynomial, as a combination of canonical products."""
    return _collect((canonical(p), value) for p, value in term.items())


def along(term: Polynomial, velocity: Mapping[str, Polynomial]) -> Polynomial:
    """The derivative along a flow by the Leibniz rule; letters without a velocity are constant."""
    pairs: list[tuple[Product, sp.Expr]] = []
    for word, value in term.items():
        for position, (name, mark) in enumerate(word):
            if name in velocity:
                change = transpose(velocity[name]) if mark == "^T" else velocity[name]
                pairs += [(word[:position] + p + word[position + 1 :], value * v) for p, v in change.items()]
    return _collect(pairs)


def of_library(letters: Iterable[Any]) -> Product:
    """A product of the library's letters as factors."""
    return tuple((x.name, "=" if x.symmetric else "^T" if x.transposed else "") for x in letters)


def library_drift(hierarchy: MomentHierarchy, word: Any) -> tuple[Product, Polynomial]:
    """A word of the library in parameters, and its drift with couplings as symbols."""
    views = hierarchy.views
    parts = [
        {canonical(of_library(views.expand(target))): sp.Rational(value.numerator, value.denominator) * c.symbol}
        for (c, target), value in hierarchy.drift(word).items()
    ]
    return of_library(views.expand(word)), plus(*parts)


def symbol(name: str) -> sp.Symbol:
    """A real symbol."""
    return sp.Symbol(name, real=True)


def gradient(kind: str, k: int, l: int) -> sp.Symbol:
    """An entry of a symmetric gradient, one symbol an unordered pair: g1_kl by q1, g2_kl by q2, indices from 0."""
    return symbol(f"{kind}_{min(k, l) + 1}{max(k, l) + 1}")


__all__ = [
    "ONE",
    "Factor",
    "Polynomial",
    "Product",
    "along",
    "canonical",
    "gradient",
    "library_drift",
    "matrix",
    "of_library",
    "plus",
    "product",
    "symbol",
    "times",
    "trace",
    "transpose",
]
