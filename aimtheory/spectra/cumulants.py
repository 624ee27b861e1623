"""Moments, free cumulants and Jacobi coefficients of one law, and the conversions between them.

All three hold the same information. With ``m_n`` the moments and ``kappa_n`` the free cumulants,

    m_n = sum_{s=1}^{n} kappa_s sum_{i_1+...+i_s = n-s} m_{i_1} ... m_{i_s},          m_0 = 1

(the block of the first element of a non-crossing partition has s elements), and with the orthonormal polynomials
``p_k`` of the law, ``x p_k = b_k p_{k+1} + a_k p_k + b_{k-1} p_{k-1}``, ``m_n = <e_0, J^n e_0>``.
Source: Speicher's moment-cumulant formula; Gautschi, Orthogonal Polynomials, algorithm 2.1 for the Chebyshev map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import sympy as sp

from aimtheory.errors import AssumptionError, InputError
from aimtheory.scalars import Scalar, to_scalar


def tidy(value: Scalar) -> Scalar:
    """A sympy expression expanded, and turned back into a ``Fraction`` when it is rational; other scalars unchanged."""
    if isinstance(value, sp.Expr):
        expanded = sp.expand(value)
        return Fraction(int(expanded.p), int(expanded.q)) if expanded.is_Rational else expanded
    return value


def exact_sqrt(value: Scalar) -> Scalar:
    """The square root: a ``Fraction`` when it is rational, else a sympy surd; a float for a float.

    >>> exact_sqrt(Fraction(4, 9)), exact_sqrt(Fraction(2))
    (Fraction(2, 3), sqrt(2))
    """
    if isinstance(value, Fraction):
        if value < 0:
            raise InputError(f"cannot take the real square root of {value}")
        numerator, denominator = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if numerator**2 == value.numerator and denominator**2 == value.denominator:
            return Fraction(numerator, denominator)
        return sp.sqrt(sp.Rational(value.numerator, value.denominator))
    if isinstance(value, sp.Expr):
        return tidy(sp.sqrt(value))
    return math.sqrt(value)


def moments_from_free_cumulants(cumulants: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Moments m_1..m_n from free cumulants kappa_1..kappa_n, exact when they are exact. Cost n^3 products.

    >>> moments_from_free_cumulants([Fraction(1)] * 4)      # Marchenko-Pastur, c = 1: the Catalan numbers
    (Fraction(1, 1), Fraction(2, 1), Fraction(5, 1), Fraction(14, 1))
    """
    kappa = [to_scalar(value, f"free cumulant {index + 1}") for index, value in enumerate(cumulants)]
    moments: list[Scalar] = [Fraction(1)]
    # powers[s][k] = coefficient of z^k in M(z)^s, M = sum m_k z^k; only k <= n - s is ever needed.
    powers: list[list[Scalar]] = [[Fraction(1)], *([] for _ in kappa)]
    for n in range(1, len(kappa) + 1):
        _extend_powers(powers, moments, n)
        total: Scalar = Fraction(0)
        for s in range(1, n + 1):
            total = total + kappa[s - 1] * powers[s][n - s]
        moments.append(tidy(total))
    return tuple(moments[1:])


def free_cumulants_from_moments(moments: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """Free cumulants kappa_1..kappa_n from moments m_1..m_n, exact when they are exact. Cost n^3 products.

    >>> free_cumulants_from_moments([0, 1, 0, 2, 0, 5])     # the semicircle has kappa_2 alone
    (Fraction(0, 1), Fraction(1, 1), Fraction(0, 1), Fraction(0, 1), Fraction(0, 1), Fraction(0, 1))
    """
    known: list[Scalar] = [Fraction(1)] + [to_scalar(value, f"moment {i + 1}") for i, value in enumerate(moments)]
    kappa: list[Scalar] = []
    powers: list[list[Scalar]] = [[Fraction(1)], *([] for _ in moments)]
    for n in range(1, len(known)):
        _extend_powers(powers, known, n)
        total: Scalar = known[n]
        for s in range(1, n):
            total = total - kappa[s - 1] * powers[s][n - s]
        kappa.append(tidy(total))
    return tuple(kappa)


def _extend_powers(powers: list[list[Scalar]], moments: Sequence[Scalar], n: int) -> None:
    """Bring coefficient n-s of M(z)^s up to date for s = 1..n; moments m_0..m_{n-1} are known."""
    for s in range(1, n + 1):
        k = n - s
        if s == 1:
            powers[1].append(moments[k])
            continue
        total: Scalar = Fraction(0)
        for j in range(k + 1):
            total = total + powers[s - 1][j] * moments[k - j]
        powers[s].append(tidy(total))


def jacobi_from_moments(moments: Sequence[Scalar]) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Jacobi coefficients (a_0..a_{n-1}), (b_0^2..b_{n-1}^2) from moments m_1..m_{2n}: the Chebyshev algorithm.

    The map is exponentially ill conditioned, so floats are read as the exact rationals they are and the arithmetic is
    exact; the coefficients are then those of the *given* moments, whatever rounding those carried. A law with k atoms
    ends at ``b_{k-1}^2 = 0``; what follows is filled with zeros. Raises ``AssumptionError`` when the Hankel matrix is
    not positive semidefinite: no law has these moments.

    >>> jacobi_from_moments([1, 2, 5, 14])                  # Marchenko-Pastur, c = 1: a = 1, 2, ...; b^2 = 1, 1, ...
    ((Fraction(1, 1), Fraction(2, 1)), (Fraction(1, 1), Fraction(1, 1)))
    """
    scalars = [to_scalar(value, f"moment {index + 1}") for index, value in enumerate(moments)]
    exact: list[Scalar] = [Fraction(1)] + [Fraction(value) if isinstance(value, float) else value for value in scalars]
    diagonal, squares = _chebyshev(exact)
    if any(isinstance(value, float) for value in scalars) and not any(isinstance(v, sp.Expr) for v in scalars):
        return tuple(float(value) for value in diagonal), tuple(float(value) for value in squares)
    return tuple(diagonal), tuple(squares)


def _chebyshev(exact: list[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    size = (len(exact) - 1) // 2
    diagonal: list[Scalar] = []
    squares: list[Scalar] = []
    previous: list[Scalar] = [Fraction(0)] * len(exact)
    current = exact
    for k in range(size):
        # current[l] = <pi_k, x^l> for the monic polynomials pi_k; current[l] = 0 for l < k.
        a = _ratio(current[k + 1], current[k])
        if k:
            a = _cancel(a - _ratio(previous[k], previous[k - 1]))
        diagonal.append(a)
        b2_in = squares[k - 1] if k else Fraction(0)
        following: list[Scalar] = [Fraction(0)] * len(exact)
        for index in range(k + 1, len(exact) - k - 1):
            following[index] = _cancel(current[index + 1] - a * current[index] - b2_in * previous[index])
        square = _ratio(following[k + 1], current[k])
        if _is_zero(square):
            filler: list[Scalar] = [Fraction(0)] * (size - k - 1)
            return diagonal + filler, [*squares, Fraction(0), *filler]
        if _is_negative(square):
            raise AssumptionError(
                f"the moments are not those of a law: b_{k}^2 = {float(square):.6g} < 0 in the Jacobi matrix "
                f"(the Hankel matrix of order {k + 2} is not positive semidefinite); check moments up to {2 * k + 2}"
            )
        squares.append(square)
        previous, current = current, following
    return diagonal, squares


def moments_from_jacobi(diagonal: Sequence[Scalar], squares: Sequence[Scalar], count: int) -> tuple[Scalar, ...]:
    """Moments m_1..m_count, ``m_n = <e_0, J^n e_0>``, from a_k and b_k^2; exact when those are exact.

    Needs a_0..a_{ceil(count/2)-1} and b_0^2..b_{floor(count/2)-1}^2. Uses the similar matrix with 1 above and b^2 below
    the diagonal, so no square root is taken.

    >>> moments_from_jacobi([1, 2, 2], [1, 1, 1], 4)
    (Fraction(1, 1), Fraction(2, 1), Fraction(5, 1), Fraction(14, 1))
    """
    if len(diagonal) < (count + 1) // 2 or len(squares) < count // 2:
        raise InputError(
            f"{count} moments need {(count + 1) // 2} a's and {count // 2} b's; got {len(diagonal)}, {len(squares)}"
        )
    a = [to_scalar(value, "a") for value in diagonal]
    b2 = [to_scalar(value, "b^2") for value in squares]
    size = count // 2 + 1
    vector: list[Scalar] = [Fraction(int(k == 0)) for k in range(size)]
    result: list[Scalar] = []
    for step in range(1, count + 1):
        # Paths that climb above count - step cannot return to the ground in time, so they are never followed.
        reach = min(step, count - step)
        updated: list[Scalar] = [Fraction(0)] * size
        for k in range(reach + 1):
            total: Scalar = a[k] * vector[k] if k < len(a) else Fraction(0)
            if k:
                total = total + vector[k - 1]
            if k + 1 < size and k < len(b2):
                total = total + b2[k] * vector[k + 1]
            updated[k] = tidy(total)
        vector = updated
        result.append(vector[0])
    return tuple(result)


def _cancel(value: Scalar) -> Scalar:
    return tidy(sp.cancel(value)) if isinstance(value, sp.Expr) else value


def _ratio(numerator: Scalar, denominator: Scalar) -> Scalar:
    return _cancel(numerator / denominator)


def _is_zero(value: Scalar) -> bool:
    return bool(sp.simplify(value) == 0) if isinstance(value, sp.Expr) else value == 0


def _is_negative(value: Scalar) -> bool:
    return value.is_negative is True if isinstance(value, sp.Expr) else value < 0


__all__ = [
    "exact_sqrt",
    "free_cumulants_from_moments",
    "jacobi_from_moments",
    "moments_from_free_cumulants",
    "moments_from_jacobi",
    "tidy",
]
