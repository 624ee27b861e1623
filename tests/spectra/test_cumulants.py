"""Moments, free cumulants and Jacobi coefficients are three names of one law."""

from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import GOE, Atomic, Wishart
from aimtheory.spectra.cumulants import (
    exact_sqrt,
    free_cumulants_from_moments,
    jacobi_from_moments,
    moments_from_free_cumulants,
    moments_from_jacobi,
)

rationals = st.fractions(min_value=-3, max_value=3, max_denominator=7)
positive_rationals = st.fractions(min_value=Fraction(1, 7), max_value=3, max_denominator=7)


@given(st.lists(rationals, min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_cumulants_invert_moments(cumulants):
    assert free_cumulants_from_moments(moments_from_free_cumulants(cumulants)) == tuple(cumulants)


@given(st.lists(rationals, min_size=4, max_size=4), st.lists(positive_rationals, min_size=4, max_size=4))
@settings(max_examples=50, deadline=None)
def test_jacobi_inverts_moments(diagonal, squares):
    moments = moments_from_jacobi(diagonal, squares, 8)
    assert jacobi_from_moments(moments) == (tuple(diagonal), tuple(squares))


def noncrossing_partitions(size):
    """All non-crossing partitions of range(size), by brute force over set partitions: an independent route."""

    def partitions(items):
        if not items:
            yield []
            return
        first, rest = items[0], items[1:]
        for count in range(len(rest) + 1):
            for others in combinations(rest, count):
                for remainder in partitions([item for item in rest if item not in others]):
                    yield [(first, *others), *remainder]

    def crosses(p, q):
        return any(a < c < b < d for a, b in combinations(p, 2) for c, d in combinations(q, 2))

    for partition in partitions(list(range(size))):
        if not any(crosses(p, q) or crosses(q, p) for p, q in combinations(partition, 2)):
            yield partition


@given(st.lists(rationals, min_size=6, max_size=6))
@settings(max_examples=10, deadline=None)
def test_moments_are_sums_over_noncrossing_partitions(cumulants):
    for size in range(1, 7):
        total = Fraction(0)
        for partition in noncrossing_partitions(size):
            term = Fraction(1)
            for block in partition:
                term *= cumulants[len(block) - 1]
            total += term
        assert total == moments_from_free_cumulants(cumulants)[size - 1]


@pytest.mark.parametrize("width", ["1/3", "1", "5/2"])
def test_wishart_moments_are_narayana_polynomials(width):
    # m_n = t^n sum_k N(n,k) c^{n-k}, N(n,k) = C(n,k) C(n,k-1)/n, for S = (t/r) G G^T, c = d/r.
    c, t = 1 / Fraction(width), Fraction(3, 2)
    expected = tuple(
        t**n * sum(Fraction(comb(n, k) * comb(n, k - 1), n) * c ** (n - k) for k in range(1, n + 1))
        for n in range(1, 11)
    )
    assert Wishart(width=width, trace=t).moments(10) == expected


def test_semicircle_moments_are_catalan():
    s = Fraction(2, 3)
    moments = GOE(variance=s).moments(12)
    for k in range(1, 7):
        assert moments[2 * k - 1] == Fraction(comb(2 * k, k), k + 1) * s**k
        assert moments[2 * k - 2] == 0


@pytest.mark.parametrize("law", [Wishart("1/3", "2"), Wishart("5/2", "1/2"), GOE("3/4"), Wishart(4, 3)])
def test_closed_jacobi_coefficients_agree_with_the_moment_route(law):
    coefficients = law.jacobi(6)
    diagonal, squares = jacobi_from_moments(law.moments(12))
    assert coefficients.diagonal == diagonal
    assert coefficients.offdiagonal == tuple(exact_sqrt(value) for value in squares)


def test_symbolic_parameters_give_symbolic_moments():
    rho, t = sp.symbols("rho t", positive=True)
    law = Wishart(width=rho, trace=t)
    assert sp.expand(law.moments(3)[2] - t**3 * (1 + 3 / rho + 1 / rho**2)) == 0
    assert law.free_cumulants(3)[2] == t**3 / rho**2
    diagonal, squares = jacobi_from_moments(law.moments(4))
    assert sp.simplify(diagonal[1] - t * (1 + 1 / rho)) == 0
    assert sp.simplify(squares[0] - t**2 / rho) == 0
    number = law.moments(5)[4].subs({rho: sp.Rational(1, 2), t: 3})
    assert Fraction(int(number.p), int(number.q)) == Wishart("1/2", 3).moments(5)[4]


def test_free_cumulants_add_under_free_convolution():
    # Adding two free Wishart matrices of one scale t/r stacks their factors: widths and traces add.
    first, second = Wishart("1/2", 1), Wishart("3/2", 3)
    total = Wishart(2, 4)
    pairs = zip(first.free_cumulants(8), second.free_cumulants(8), strict=True)
    assert tuple(a + b for a, b in pairs) == total.free_cumulants(8)


def test_terminating_recurrence():
    diagonal, squares = jacobi_from_moments(Atomic([0, 2], ["1/4", "3/4"]).moments(8))
    assert squares == (Fraction(3, 4), 0, 0, 0)
    assert diagonal == (Fraction(3, 2), Fraction(1, 2), 0, 0)


def test_float_moments_keep_float_type_and_value():
    diagonal, squares = jacobi_from_moments([float(m) for m in Wishart(1).moments(8)])
    assert all(isinstance(value, float) for value in (*diagonal, *squares))
    assert squares == (1.0, 1.0, 1.0, 1.0)


def test_moments_of_no_law_are_refused():
    with pytest.raises(AssumptionError, match="Hankel"):
        jacobi_from_moments([1, Fraction(1, 2)])
    with pytest.raises(InputError, match="moment 2"):
        jacobi_from_moments([1.0, float("nan")])


def test_too_few_coefficients_are_refused():
    with pytest.raises(InputError, match="need"):
        moments_from_jacobi([1], [1], 4)
