"""Closed forms of the potential: polynomials by Isserlis' theorem, erf by the arcsine law.

- Any polynomial loss (Hermite, linear, polynomial activations under mean squared error, user polynomials): a polynomial
  in (m, q1, q2), exact.
- erf activations at zero mean: E erf(g u) erf(g' v) = (2/π) asin(2 g g' c / √((1 + 2g²a)(1 + 2g'²b))), a = Var u,
  b = Var v, c = Cov(u, v).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import sympy as sp

from aimtheory.model.activations import Activation, ElementwiseActivation
from aimtheory.model.losses import Loss, OutputProducts
from aimtheory.scalars import to_sympy

_HIGHEST_DEGREE = 12
_MOST_MONOMIALS = 400


def exact_matrix(matrix: np.ndarray) -> sp.Matrix:
    """A float matrix with entries that are short dyadic rationals (1, 1/2, …) made exact, the others left as floats."""

    def exact(value: float) -> sp.Expr:
        fraction = Fraction(value)
        small = fraction.denominator <= 1024
        return sp.Rational(fraction.numerator, fraction.denominator) if small else sp.Float(value)

    return sp.Matrix(matrix.shape[0], matrix.shape[1], lambda i, j: exact(float(matrix[i, j])))


def isserlis(monomial: Sequence[int], mean: Sequence[sp.Expr], covariance: sp.Matrix) -> sp.Expr:
    """E Π_a u_a^{n_a} of jointly Gaussian u, by E u_a f = μ_a E f + Σ_b Cov_ab E ∂_b f.

    >>> v = sp.Symbol("v")
    >>> isserlis((4,), (0,), sp.Matrix([[v]]))
    3*v**2
    """
    memory: dict[tuple[int, ...], sp.Expr] = {}

    def moment(powers: tuple[int, ...]) -> sp.Expr:
        if not any(powers):
            return sp.S.One
        if powers not in memory:
            a = next(n for n, power in enumerate(powers) if power)
            rest = (*powers[:a], powers[a] - 1, *powers[a + 1 :])
            total = sp.sympify(mean[a]) * moment(rest)
            for b, power in enumerate(rest):
                if power and covariance[a, b] != 0:
                    total += covariance[a, b] * power * moment((*rest[:b], power - 1, *rest[b + 1 :]))
            memory[powers] = sp.expand(total)
        return memory[powers]

    return moment(tuple(int(n) for n in monomial))


def is_polynomial(loss: Loss) -> bool:
    """Whether the potential of the loss is a polynomial of (m, q1, q2) of manageable size."""
    products = loss.output_products
    if products is not None:
        return all(_polynomial_degree(function) is not None for function in products.functions)
    formula = loss.given_formula
    if formula is None:
        return False
    forms = sorted(formula.atoms(sp.Indexed), key=str)
    if not formula.is_polynomial(*forms):
        return False
    if not forms:
        return True
    polynomial = sp.Poly(formula, *forms)
    return polynomial.total_degree() <= _HIGHEST_DEGREE and len(polynomial.terms()) <= _MOST_MONOMIALS


def is_arcsine(loss: Loss) -> bool:
    """Whether every activation is an erf, so that the potential is closed at zero mean."""
    products = loss.output_products
    return products is not None and all(function.erf_gain is not None for function in products.functions)


def _polynomial_degree(function: Activation) -> int | None:
    degree = function.polynomial_degree
    return degree if degree is not None and degree <= _HIGHEST_DEGREE else None


def closed_form(
    loss: Loss,
    tokens: int,
    token_covariance: np.ndarray | None,
    mean: Sequence[sp.Expr],
    q1: sp.Matrix,
    q2: sp.Matrix,
) -> sp.Expr | None:
    """Φ(m, q1, q2) as a sympy expression when it exists in closed form, else None. Exact in exact arguments.

    No covariance is the identity of any size: entries of equal law are counted, not enumerated.
    """
    products = loss.output_products
    if not (is_polynomial(loss) or (is_arcsine(loss) and all(sp.sympify(m) == 0 for m in mean))):
        return None
    if products is None:
        dense = np.eye(tokens) if token_covariance is None else token_covariance
        assert loss.given_formula is not None
        return _polynomial_loss(loss.given_formula, exact_matrix(dense), mean, q1, q2)
    a = sp.Matrix([[to_sympy(entry) for entry in row] for row in products.combination])
    slot_mean = list(a * sp.Matrix([sp.sympify(m) for m in mean]))
    laws = _pair_laws(tokens, token_covariance, products.mixed)
    total = _products(products, laws, slot_mean, a * q1 * a.T, a * q2 * a.T)
    return sp.expand(total) if is_polynomial(loss) else total


def entry_laws(tokens: int, covariance: np.ndarray | None) -> list[tuple[float, float, int]]:
    """The distinct laws (C_ij, C_ii C_jj) of the entries of the forms, and how many entries have each.

    >>> entry_laws(1000, None)
    [(1.0, 1.0, 1000), (0.0, 1.0, 999000)]
    """
    if covariance is None:
        return [(1.0, 1.0, tokens), (0.0, 1.0, tokens * (tokens - 1))][: min(tokens, 2)]
    variances = np.diagonal(covariance)
    pairs = np.stack([covariance.ravel(), np.multiply.outer(variances, variances).ravel()], axis=1)
    laws, counts = np.unique(pairs, axis=0, return_counts=True)
    return [(float(c), float(v), int(n)) for (c, v), n in zip(laws[::-1], counts[::-1], strict=True)]


@dataclass(frozen=True)
class _PairLaw:
    """The joint law of G_ij and G_ij': means m C_ij, m C_ij', (co)variances first q1 + second q2."""

    means: tuple[sp.Expr, sp.Expr]
    left: tuple[sp.Expr, sp.Expr]
    right: tuple[sp.Expr, sp.Expr]
    across: tuple[sp.Expr, sp.Expr]


def _pair_laws(tokens: int, covariance: np.ndarray | None, mixed: bool) -> dict[_PairLaw, sp.Expr]:
    """The distinct laws of the pairs of entries whose outputs are multiplied, with their weights.

    Without mixing an entry meets itself alone; with it j meets j' with weight C_jj'.
    """
    weights: dict[_PairLaw, sp.Expr] = {}
    if not mixed or covariance is None:
        for entry, variance, count in entry_laws(tokens, covariance):
            average, first = exact_matrix(np.array([[entry, variance]]))
            moment = (first, average**2)
            weights[_PairLaw((average, average), moment, moment, moment)] = sp.Integer(count)
        return weights
    c = exact_matrix(covariance)
    for i in range(tokens):
        for j in range(tokens):
            for n in range(tokens):
                if c[j, n] != 0:
                    law = _PairLaw(
                        (c[i, j], c[i, n]),
                        (c[i, i] * c[j, j], c[i, j] ** 2),
                        (c[i, i] * c[n, n], c[i, n] ** 2),
                        (c[i, i] * c[j, n], c[i, n] * c[j, i]),
                    )
                    weights[law] = weights.get(law, sp.S.Zero) + c[j, n]
    return weights


def _products(
    products: OutputProducts,
    laws: Mapping[_PairLaw, sp.Expr],
    mean: Sequence[sp.Expr],
    q1: sp.Matrix,
    q2: sp.Matrix,
) -> sp.Expr:
    """½ Σ_st W_st Σ_laws weight E F_s(u) F_t(v)."""
    total = sp.S.Zero
    for law, weight in laws.items():
        for s, left in enumerate(products.functions):
            for t, right in enumerate(products.functions[: s + 1]):
                coupling = to_sympy(products.coupling[s][t])
                if coupling == 0:
                    continue
                moments = (
                    law.means[0] * mean[s],
                    law.means[1] * mean[t],
                    law.left[0] * q1[s, s] + law.left[1] * q2[s, s],
                    law.right[0] * q1[t, t] + law.right[1] * q2[t, t],
                    law.across[0] * q1[s, t] + law.across[1] * q2[s, t],
                )
                assert left.entrywise is not None
                assert right.entrywise is not None
                factor = weight * coupling / (2 if s == t else 1)
                total += factor * pair_expectation(left.entrywise, right.entrywise, *moments)
    return total


def pair_expectation(
    left: ElementwiseActivation,
    right: ElementwiseActivation,
    mean_left: sp.Expr,
    mean_right: sp.Expr,
    variance_left: sp.Expr,
    variance_right: sp.Expr,
    covariance: sp.Expr,
) -> sp.Expr:
    """E f(u) g(v), in closed form for polynomials and for centred erfs.

    >>> from aimtheory.model.activations import Hermite
    >>> c = sp.Symbol("c")
    >>> sp.expand(pair_expectation(Hermite(2), Hermite(2), 0, 0, 1, 1, c))
    c**2
    """
    if left.erf_gain is not None and right.erf_gain is not None:
        g, h = to_sympy(left.erf_gain), to_sympy(right.erf_gain)
        norm = sp.sqrt((1 + 2 * g**2 * variance_left) * (1 + 2 * h**2 * variance_right))
        return 2 / sp.pi * sp.asin(2 * g * h * covariance / norm)
    generic = sp.symbols("m_u m_v a b c")
    arguments = (mean_left, mean_right, variance_left, variance_right, covariance)
    expression = _generic_polynomial_pair(left, right)
    return sp.expand(expression.xreplace({s: sp.sympify(v) for s, v in zip(generic, arguments, strict=True)}))


@lru_cache(maxsize=256)
def _generic_polynomial_pair(left: ElementwiseActivation, right: ElementwiseActivation) -> sp.Expr:
    m_u, m_v, a, b, c = sp.symbols("m_u m_v a b c")
    x = sp.Symbol("x")
    # Taylor coefficients about the means leave centred moments alone.
    shifted = []
    for function, m in ((left, m_u), (right, m_v)):
        polynomial = function.scalar_expression(x)
        degree = _polynomial_degree(function) or 0
        shifted.append(
            [sp.expand(polynomial.diff(x, n).subs(x, m) / math.factorial(n)) if n else polynomial.subs(x, m)
             for n in range(degree + 1)]
        )  # fmt: skip
    total = sp.S.Zero
    for n, f_n in enumerate(shifted[0]):
        for k, g_k in enumerate(shifted[1]):
            if (n + k) % 2 == 0:
                total += f_n * g_k * _centred_moment(n, k, a, b, c)
    return sp.expand(total)


def _centred_moment(n: int, k: int, a: sp.Expr, b: sp.Expr, c: sp.Expr) -> sp.Expr:
    """E u^n v^k at zero mean: sum over the number j of pairs (u, v)."""
    total = sp.S.Zero
    for j in range(n % 2, min(n, k) + 1, 2):
        x, y = (n - j) // 2, (k - j) // 2
        ways = Fraction(
            math.factorial(n) * math.factorial(k),
            math.factorial(j) * math.factorial(x) * math.factorial(y) * 2 ** (x + y),
        )
        total += sp.Rational(ways.numerator, ways.denominator) * a**x * b**y * c**j
    return total


def _polynomial_loss(
    formula: sp.Expr, covariance: sp.Matrix, mean: Sequence[sp.Expr], q1: sp.Matrix, q2: sp.Matrix
) -> sp.Expr:
    forms = sorted(formula.atoms(sp.Indexed), key=lambda form: tuple(int(n) for n in form.indices[::-1]))
    if not forms:
        return formula
    indices = [tuple(int(n) for n in form.indices) for form in forms]
    means = [covariance[i, j] * mean[k] for i, j, k in indices]

    def entry(a: int, b: int) -> sp.Expr:
        (i, j, k), (u, v, l) = indices[a], indices[b]
        return covariance[i, u] * covariance[j, v] * q1[k, l] + covariance[i, v] * covariance[j, u] * q2[k, l]

    law = sp.Matrix(len(forms), len(forms), entry)
    total = sp.S.Zero
    for powers, coefficient in sp.Poly(formula, *forms).terms():
        total += coefficient * isserlis(powers, means, law)
    return sp.expand(total)


def order_symbols(count: int) -> tuple[tuple[sp.Symbol, ...], sp.Matrix, sp.Matrix]:
    """The symbols (m_k, q1_kl, q2_kl) of K indices, named from 1: m_1, q1_12 = q1_21, q2_12, ….

    >>> order_symbols(2)[1]
    Matrix([
    [q1_11, q1_12],
    [q1_12, q1_22]])
    """
    mean = tuple(sp.Symbol(f"m_{k + 1}", real=True) for k in range(count))
    return mean, _symmetric_symbols("q1", count), _symmetric_symbols("q2", count)


def tied_symbols(count: int) -> sp.Matrix:
    """The symmetric matrix of symbols q_kl, named from 1."""
    return _symmetric_symbols("q", count)


def _symmetric_symbols(name: str, count: int) -> sp.Matrix:
    separator = "," if count > 9 else ""

    def symbol(k: int, l: int) -> sp.Symbol:
        return sp.Symbol(f"{name}_{min(k, l) + 1}{separator}{max(k, l) + 1}", real=True)

    return sp.Matrix(count, count, symbol)


def gradient_by_pairs(expression: sp.Expr, symbols: sp.Matrix) -> sp.Matrix:
    """The gradient by a symmetric matrix of symbols, dΦ = Σ_kl ∇_kl dq_kl over ordered pairs (off-diagonal halved).

    >>> q = tied_symbols(2)
    >>> gradient_by_pairs(2 * q[0, 0] + 2 * q[1, 1] - 4 * q[0, 1], q)
    Matrix([
    [ 2, -2],
    [-2,  2]])
    """
    return sp.Matrix(
        symbols.shape[0],
        symbols.shape[1],
        lambda k, l: sp.diff(expression, symbols[k, l]) / (1 if k == l else 2),
    )


__all__ = [
    "closed_form",
    "entry_laws",
    "exact_matrix",
    "gradient_by_pairs",
    "is_arcsine",
    "is_polynomial",
    "isserlis",
    "order_symbols",
    "pair_expectation",
    "tied_symbols",
]
