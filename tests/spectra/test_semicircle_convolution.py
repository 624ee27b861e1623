"""Free convolution with a semicircle: bands, density, branch, potential; closed form against other routes."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.integrate import quad

from aimtheory.errors import InputError
from aimtheory.spectra import (
    GOE,
    Atomic,
    Empirical,
    FreeFamily,
    SemicircleConvolution,
    UserDensity,
    Wishart,
    bayes_wishart,
    spectral_measure,
)
from aimtheory.spectra.subordination import SubordinatedSpectrum

LAWS = [
    bayes_wishart(0.5),
    Wishart(2, 3),
    Wishart(1, "1/2"),
    GOE("3/2"),
    Atomic([-1, 0, 2], ["1/4", "1/2", "1/4"]),
    Empirical(np.random.default_rng(0).standard_normal(60)),
    UserDensity(lambda x: 0.5 * np.ones_like(x), [(-1.0, 1.0)]),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("noise", [0.003, 0.1, 2.0, 1e4])
def test_quadrature_has_unit_mass_and_the_moments_of_the_free_cumulants(law, noise):
    noisy = SemicircleConvolution(law, noise)
    rule = noisy.quadrature
    assert abs(rule.mass - 1) < 1e-12
    assert np.all(rule.density >= 0)
    scale = math.sqrt(float(noisy.second_moment))
    # Route two: moments from added free cumulants.
    for n, moment in enumerate(noisy.moments(6), start=1):
        assert abs(rule.integrate(rule.points**n) - float(moment)) < 1e-11 * (2 * scale) ** n * 10


def cubic_stieltjes(x, noise, rho):
    """np.roots on the cubic of theory: density from the complex pair, valid away from the edges."""
    s = rho**-0.5
    return np.roots([s * noise, -(s * x + noise), x + s - 1 / s, -1])


@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
def test_wishart_density_and_hilbert_transform_solve_the_cubic(rho, noise):
    noisy = SemicircleConvolution(bayes_wishart(rho), noise)
    for low, high in noisy.support:
        x = np.linspace(low, high, 33)[1:-1]
        roots = np.array([cubic_stieltjes(point, noise, rho) for point in x])
        pick = np.argmax(roots.imag, axis=1)
        upper = roots[np.arange(len(x)), pick]
        assert noisy.density(x) == pytest.approx(upper.imag / math.pi, abs=1e-10)
        assert noisy.hilbert_transform(x) == pytest.approx(upper.real, abs=1e-10)


@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("noise", [0.001, 0.05, 1.0])
def test_wishart_edges_are_roots_of_the_discriminant(rho, noise):
    # Quartic of z: the discriminant of the cubic of g, computed here with polynomial arithmetic.
    s = rho**-0.5
    a, b = Polynomial([s * noise]), Polynomial([-noise, -s])
    c, d = Polynomial([s - 1 / s, 1.0]), Polynomial([-1.0])
    discriminant = 18 * a * b * c * d - 4 * b**3 * d + b**2 * c**2 - 4 * a * c**3 - 27 * a**2 * d**2
    roots = discriminant.roots()
    real = np.sort(roots[np.abs(roots.imag) < 1e-6].real)
    edges = np.array(SemicircleConvolution(bayes_wishart(rho), noise).support).ravel()
    assert edges == pytest.approx(real, abs=1e-6)


def test_narrow_gap_is_found_and_closes_at_the_exact_noise():
    # rho = 1/2, noise .01: two bands about .014 apart. The gap closes at c (c^{1/3} - 1)^3 t^2, c = 2, t^2 = 1/2.
    law = bayes_wishart(0.5)
    support = SemicircleConvolution(law, 0.01).support
    assert len(support) == 2
    assert 0.01 < support[1][0] - support[0][1] < 0.02
    critical = 2 * (2 ** (1 / 3) - 1) ** 3 / 2
    for relative in (1e-2, 1e-5, 1e-9, 1e-13):
        below = SemicircleConvolution(law, critical * (1 - relative))
        above = SemicircleConvolution(law, critical * (1 + relative))
        assert (len(below.support), len(above.support)) == (2, 1)
        for noisy in (below, above):
            assert abs(noisy.quadrature.mass - 1) < 1e-12
    assert len(SemicircleConvolution(bayes_wishart(2), 0.1).support) == 1


@given(st.floats(-3, 3), st.floats(-8, 6))
@settings(max_examples=60, deadline=None)
def test_wishart_quadrature_over_many_decades(log_rho, log_noise):
    rule = SemicircleConvolution(Wishart(10**log_rho, 1.0), 10**log_noise).quadrature
    second = 1 + 10**-log_rho + 10**log_noise
    assert abs(rule.mass - 1) < 1e-12
    assert abs(rule.integrate(rule.points) - 1) < 1e-12 * math.sqrt(second) * 10
    assert rule.integrate(rule.points**2) == pytest.approx(second, rel=1e-11)
    assert np.all(np.diff(rule.points) >= -1e-15 * np.abs(rule.points[1:]).max())


@pytest.mark.parametrize(("rho", "noise"), [(1.5, 1e-4), (1.5, 0.02), (1.5, 0.5), (1.5, 30.0), (0.4, 3.0), (0.4, 30.0)])
def test_subordination_agrees_with_the_closed_form(rho, noise):
    # Route one: the Wishart formulas. Route two: the Marchenko-Pastur density as a user's function plus subordination;
    # at rho < 1 a UserDensity cannot hold the atom at 0, and 400 Gauss atoms stand for the law.
    law = Wishart(rho, 1.0)
    closed = SemicircleConvolution(law, noise)
    if rho > 1:
        other = SemicircleConvolution(UserDensity(law.density, [law.edges]), noise)
        accuracy = 1e-11
    else:
        nodes, weights = law.jacobi(400).gauss_quadrature()
        other = SemicircleConvolution(Atomic(nodes, weights / weights.sum()), noise)
        accuracy = 1e-8
    x = np.linspace(closed.support[0][0] - 0.2, closed.support[-1][1] + 0.2, 41)
    assert other.density(x) == pytest.approx(closed.density(x), abs=accuracy)
    assert other.hilbert_transform(x) == pytest.approx(closed.hilbert_transform(x), abs=accuracy * 100)
    assert other.potential(x) == pytest.approx(closed.potential(x), abs=accuracy * 10)
    assert other.denoise(x) == pytest.approx(closed.denoise(x), abs=accuracy * 100)
    assert float(other.quadrature.mmse) == pytest.approx(float(closed.quadrature.mmse), rel=accuracy * 10)
    assert float(other.quadrature.log_energy) == pytest.approx(float(closed.quadrature.log_energy), abs=accuracy)


def test_two_atoms_at_the_critical_noise_have_the_known_cusp():
    # +-1 with equal weights: z = w + w/(w^2-1) Delta; at Delta = 1 one band with edges +-(3/2) sqrt 3 and a cusp at 0.
    law = Atomic([-1, 1])
    noisy = SemicircleConvolution(law, 1)
    assert np.array(noisy.support) == pytest.approx(1.5 * math.sqrt(3) * np.array([[-1, 1]]), rel=1e-13)
    # g^3 - 2 z g^2 + z^2 g - z = 0 near 0: |g| ~ |z|^{1/3}, so f(8 x)/f(x) -> 2.
    assert noisy.density(8e-9) / noisy.density(1e-9) == pytest.approx(2, rel=1e-3)
    assert len(SemicircleConvolution(law, Fraction(999, 1000)).support) == 2
    assert len(SemicircleConvolution(law, Fraction(1001, 1000)).support) == 1
    assert abs(noisy.quadrature.mass - 1) < 1e-12


def test_many_atoms_make_many_bands_at_weak_noise():
    law = Empirical(np.arange(20.0))
    noisy = SemicircleConvolution(law, 1e-3)
    assert len(noisy.support) == 20
    # Each band is a semicircle of variance Delta/20 to leading order.
    widths = np.diff(np.array(noisy.support), axis=1).ravel()
    assert widths == pytest.approx(4 * math.sqrt(1e-3 / 20), rel=1e-2)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_potential_differentiates_to_the_hilbert_transform_inside_and_outside(law):
    noisy = SemicircleConvolution(law, 0.3)
    low, high = noisy.support[0][0], noisy.support[-1][1]
    x = np.array([low - 1.3, low - 0.2, low + 0.31 * (high - low), low + 0.77 * (high - low), high + 0.15, high + 2.0])
    step = 1e-4
    slope = (noisy.potential(x + step) - noisy.potential(x - step)) / (2 * step)
    assert slope == pytest.approx(noisy.hilbert_transform(x), abs=1e-6)
    # The constant: U(x) ~ log x - m_1/x - m_2/(2 x^2) far away.
    far = 1e4
    mean, second = (float(m) for m in noisy.moments(2))
    assert float(noisy.potential(far)) == pytest.approx(math.log(far) - mean / far - second / (2 * far**2), abs=1e-10)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_stieltjes_off_the_axis_is_the_integral_of_the_density(law):
    noisy = SemicircleConvolution(law, 0.2)
    rule = noisy.quadrature
    z = np.array([0.3 + 2.0j, -1.0 + 3.0j, 2.0 - 2.0j, -6.0 + 0.5j])
    direct = [
        rule.integrate((1 / (point - rule.points)).real) + 1j * rule.integrate((1 / (point - rule.points)).imag)
        for point in z
    ]
    # The rule, meant for the density, resolves the kernel 2 off the axis to about 1e-7 or better.
    assert noisy.stieltjes(z) == pytest.approx(np.array(direct), abs=1e-6)
    x = np.array([0.1, 0.9])
    assert noisy.stieltjes(x + 1e-7j) == pytest.approx(noisy.stieltjes(x), abs=1e-4)


def test_density_against_compressed_operators():
    # Route two: moments of A + sqrt(Delta) B on the free Fock space.
    system = FreeFamily({"A": Wishart("1/2", 1), "B": GOE("1/5")}).operators(6)
    measure = spectral_measure(system.operators["A"] + system.operators["B"])
    rule = SemicircleConvolution(Wishart("1/2", 1), "1/5").quadrature
    for n in range(1, 14):
        assert float(rule.integrate(rule.points**n)) == pytest.approx(measure.moment(n), rel=1e-10)


def test_density_against_sampled_matrices():
    noisy = SemicircleConvolution(bayes_wishart(0.5), 0.01)
    rng = np.random.default_rng(5)
    spectra = np.concatenate([np.linalg.eigvalsh(noisy.sample(200, rng)) for _ in range(10)])
    middle = 0.5 * (noisy.support[0][1] + noisy.support[1][0])
    # Half of the eigenvalues are in the lower band: rank d/2 plus rigidity of order 1/d.
    assert abs(np.mean(spectra < middle) - 0.5) < 0.01
    edges = np.linspace(0.2, 4.0, 20)
    counts, _ = np.histogram(spectra, edges)
    expected = np.array([quad(lambda x: float(noisy.density(x)), a, b)[0] for a, b in pairwise(edges)])
    # Eigenvalue counts fluctuate by O(1) a matrix (rigidity): 10 matrices of 200, tolerance 3 counts each.
    assert np.all(np.abs(counts / 2000 - expected) < 3 / 200)


def test_moments_stay_exact():
    assert SemicircleConvolution(Wishart("1/2", 1), "1/3").moments(3)[1] == 1 + 2 + Fraction(1, 3)


def test_tiny_density_does_not_break_the_user_law_spectrum():
    law = UserDensity(lambda x: 1.5 * (1 - x**2) ** 2 * 5 / 8, [(-1.0, 1.0)])
    spectrum = SubordinatedSpectrum(law.transform(), 0.01)
    assert abs(float(spectrum.quadrature.mass) - 1) < 1e-9


def test_bad_input_is_named():
    with pytest.raises(InputError, match="variance"):
        SemicircleConvolution(GOE(1), 0)
    with pytest.raises(InputError, match="not a SpectralLaw"):
        SemicircleConvolution(3, 1)
    with pytest.raises(InputError, match="NaN"):
        SemicircleConvolution(GOE(1), 1).density([0.0, float("nan")])
    with pytest.raises(InputError, match="no semicircle convolution"):
        SemicircleConvolution(SemicircleConvolution(GOE(1), 1), 1).density(0.0)
