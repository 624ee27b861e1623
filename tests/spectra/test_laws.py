"""Spectral laws against sampled matrices, quadrature and one another; refusal of bad input."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import GOE, Atomic, Empirical, GaussianFactors, Ginibre, Wishart, bayes_wishart

LAWS = [Wishart("1/2", 2), Wishart(1, 1), Wishart(3, "1/2"), GOE("3/2"), Atomic([-1, 2], ["1/3", "2/3"])]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_gauss_quadrature_reproduces_exact_moments(law):
    nodes, weights = law.jacobi(8).gauss_quadrature()
    for n, moment in enumerate(law.moments(15), start=1):
        size = weights @ np.abs(nodes) ** n
        assert weights @ nodes**n == pytest.approx(float(moment), rel=1e-12, abs=1e-13 * size)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_density_and_atoms_integrate_to_the_moments(law):
    for n, moment in enumerate((1, *law.moments(4))):
        total = sum(weight * point**n for point, weight in law.atoms)
        for low, high in law.support:
            if high > low:
                total += quad(lambda x, n=n: x**n * float(law.density(x)), low, high, limit=400)[0]
        assert total == pytest.approx(float(moment), rel=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_stieltjes_transform_is_the_moment_series_and_has_negative_imaginary_part(law):
    z = 40.0 + 5.0j
    series = 1 / z + sum(float(m) / z ** (n + 1) for n, m in enumerate(law.moments(24), start=1))
    assert abs(complex(law.stieltjes(z)) - series) < 1e-13
    grid = np.linspace(-5, 12, 301) + 1e-3j
    assert np.all(law.stieltjes(grid).imag < 0)


@pytest.mark.parametrize("law", [Wishart("1/2", 2), Wishart(1, 1), Wishart(3, "1/2"), GOE("3/2")], ids=str)
def test_stieltjes_inversion_gives_the_density(law):
    low, high = law.support[-1]
    x = np.linspace(low, high, 41)[3:-3]
    assert -law.stieltjes(x + 1e-10j).imag / math.pi == pytest.approx(law.density(x), abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_sampled_moments_agree_within_standard_errors(law):
    rng = np.random.default_rng(7)
    dim, draws = 100, 40
    spectra = np.array([np.linalg.eigvalsh(law.sample(dim, rng)) for _ in range(draws)])
    for n, moment in enumerate(law.moments(4), start=1):
        means = (spectra**n).mean(axis=1)
        error = means.std(ddof=1) / math.sqrt(draws)
        # 5 standard errors plus the O(1/d) bias of one real matrix.
        assert abs(means.mean() - float(moment)) < 5 * error + 3 * n**2 * (1 + abs(float(moment))) / dim


@pytest.mark.parametrize(
    ("law", "columns"), [(Wishart("1/2", 2), 30), (Wishart(2, 1), 120), (Atomic([0, 2], ["1/4", "3/4"]), 45)], ids=str
)
def test_factor_squares_to_a_sample(law, columns):
    factor = law.sample_factor(60, np.random.default_rng(3))
    matrix = law.sample(60, np.random.default_rng(3))
    assert factor @ factor.T == pytest.approx(matrix, abs=1e-10)
    assert factor.shape == (60, columns)


def test_wishart_trace_is_unbiased_at_a_width_that_does_not_divide():
    rng = np.random.default_rng(0)
    traces = [np.trace(Wishart(0.37, 1.5).sample(11, rng)) / 11 for _ in range(4000)]
    assert abs(np.mean(traces) - 1.5) < 5 * np.std(traces) / math.sqrt(4000)


def test_bayes_prior_normalization():
    # [B]: S = W W^T / sqrt(r d): tr S = sqrt(rho), tr S^2 = 1 + rho, R(z) = sqrt(rho)/(1 - z/sqrt(rho)).
    law = bayes_wishart("2/3")
    rho = Fraction(2, 3)
    assert sp.simplify(law.mean - sp.sqrt(sp.Rational(2, 3))) == 0
    assert law.second_moment == 1 + rho
    assert sp.simplify(law.free_cumulants(3)[2] - 1 / sp.sqrt(sp.Rational(2, 3))) == 0


def test_empirical_law_of_a_matrix():
    rng = np.random.default_rng(1)
    matrix = Wishart(1).sample(30, rng)
    law = Empirical.from_matrix(matrix)
    assert law.moments(3)[2] == pytest.approx(np.trace(matrix @ matrix @ matrix) / 30, rel=1e-12)
    nodes, weights = law.jacobi(10).gauss_quadrature()
    for n, moment in enumerate(law.moments(19), start=1):
        assert weights @ nodes**n == pytest.approx(moment, rel=1e-11)
    assert np.linalg.eigvalsh(law.sample(30, rng)) == pytest.approx(law.eigenvalues, abs=1e-12)
    assert law.operator_ratio < 0.5
    law.check_extensive_rank()
    with pytest.raises(AssumptionError, match="finite rank"):
        Empirical([0.0] * 20 + [5.0, 0.1]).check_extensive_rank()


def test_atomic_lanczos_and_exact_routes_agree():
    exact = Atomic(["1/3", 1, 2, 5], ["1/6", "1/3", "1/4", "1/4"])
    floats = Atomic([1 / 3, 1.0, 2.0, 5.0], [1 / 6, 1 / 3, 1 / 4, 1 / 4])
    for left, right in zip(exact.jacobi(6).floats(), floats.jacobi(6).floats(), strict=True):
        assert left == pytest.approx(right, abs=1e-13)
    assert exact.jacobi(6).rank == 4


def test_ginibre_and_gaussian_factors_normalization():
    rng = np.random.default_rng(5)
    dim, draws = 80, 60
    squares = [np.sum(Ginibre("3/2").sample(dim, rng) ** 2) / dim for _ in range(draws)]
    assert abs(np.mean(squares) - 1.5) < 5 * np.std(squares) / math.sqrt(draws)
    family = GaussianFactors(width="1/2", left=2, right=3)
    assert family.sample_factors(dim, rng)[1].shape == (80, 40)
    # tr S S^T -> rho left right = 3; exactly unbiased since entries are independent.
    squares = [np.sum(family.sample(dim, rng) ** 2) / dim for _ in range(draws)]
    assert abs(np.mean(squares) - 3.0) < 5 * np.std(squares) / math.sqrt(draws)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wishart(0), "width = 0"),
        (lambda: Wishart(-0.5), "width"),
        (lambda: Wishart(1, float("nan")), "trace"),
        (lambda: Wishart("x"), "width"),
        (lambda: GOE(0), "variance"),
        (lambda: Atomic([], []), "at least one"),
        (lambda: Atomic([1, 2], ["1/2", "1/3"]), "sum to 1"),
        (lambda: Atomic([1, 2], [1, 0]), "weight 1"),
        (lambda: Atomic([0, 0]), "zero"),
        (lambda: Empirical([1.0, float("nan")]), r"eigenvalues\[1\] = nan is not finite"),
        (lambda: Empirical([0.0, 0.0]), "zero"),
        (lambda: Empirical([]), "empty"),
        (lambda: Empirical.from_matrix([[0.0, 1.0], [2.0, 0.0]]), "not symmetric"),
        (lambda: Ginibre(-1), "variance"),
        (lambda: GaussianFactors(1, left=0), "left"),
        (lambda: Wishart(0.01).sample(5, np.random.default_rng(0)), "no column"),
        (lambda: GOE(1).sample_factor(5, np.random.default_rng(0)), "support"),
        (lambda: Wishart(sp.Symbol("rho")).sample(5, np.random.default_rng(0)), "symbolic"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
