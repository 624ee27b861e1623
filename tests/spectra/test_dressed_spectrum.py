"""The spectrum of E (A^{-1} + Y)^{-1} E: mass and moments, known laws, atoms, edges, quantiles, matrices."""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.errors import InputError
from aimtheory.spectra import DressedSpectrum
from aimtheory.spectra.dressed_inverse import DressedInverse, StartRule
from aimtheory.spectra.law_quadrature import law_quadrature

LAWS = {
    "hard edge": aim.Wishart(width=1, trace=1),
    "narrow": aim.Wishart(width=0.5, trace=1),
    "wide": aim.Wishart(width=3, trace=0.7),
    "atoms": aim.Atomic(["1/2", 2]),
    "projector": aim.Atomic([0, 1], ["1/4", "3/4"]),
    "identity": aim.Atomic([1]),
}


def spectrum(start, fixed, t, decay=0.0, nodes=64):
    """The flow W' = -(S - X + decay/4) W at time t: E = exp((X - decay/4) t), Y = 2 int E^2."""
    rule, first = law_quadrature(LAWS[fixed], nodes), law_quadrature(LAWS[start], nodes)
    rate = 2 * rule.nodes - decay / 2
    exponent = rate * t
    Z = np.where(np.abs(exponent) < 1e-9, t, 2 * np.tanh(exponent / 2) / np.where(rate == 0, 1, rate))
    inverse = DressedInverse(rule.weights, -exponent, Z, StartRule.of(first.nodes, first.weights))
    return DressedSpectrum(inverse, rule, first, np.array([decay / 2 * t, -2 * t]))


CASES = [
    ("hard edge", "wide", 0.3, 0.0),
    ("wide", "hard edge", 2.0, 0.5),
    ("narrow", "narrow", 0.5, 0.0),
    ("projector", "atoms", 0.2, 0.0),
    ("wide", "atoms", 1.0, 0.0),
    ("identity", "wide", 1.0, 0.0),
]


@pytest.mark.parametrize(("start", "fixed", "t", "decay"), CASES)
def test_mass_and_moments(start, fixed, t, decay):
    """The density integrates, with the atoms, to one, and to the traces of powers, which know no density."""
    law = spectrum(start, fixed, t, decay)
    assert law.mass == pytest.approx(1, abs=1e-6)
    measure, one = law.measure(), np.ones_like(law.fixed.nodes)
    for order in range(1, 5):
        assert measure.moment(order) == pytest.approx(law.inverse.word([one] * order), rel=1e-5)


@pytest.mark.parametrize("start", ["hard edge", "narrow", "wide"])
def test_at_time_zero_it_is_the_law_of_the_start(start):
    law, known = spectrum(start, "wide", 0.0), LAWS[start]
    low, high = known.edges
    x = np.linspace(low, high, 52)[1:-1]
    assert law.density(x) == pytest.approx(known.density(x), abs=1e-9)
    assert law.edges[-1] == pytest.approx((low, high), abs=1e-4)
    z = np.array([0.3 + 0.2j, -1.0, 7.0, 2 - 0.5j])
    assert law.stieltjes(z) == pytest.approx(known.stieltjes(z), abs=1e-10)


def test_of_a_scalar_start_it_is_an_image_of_the_fixed_law():
    """A = 1 commutes with X: S = E^2/(1 + Y), an increasing function of X."""
    law, t = spectrum("identity", "wide", 1.0), 1.0
    x = np.linspace(*LAWS["wide"].edges, 30)[1:-1]

    def image(x):
        return np.exp(2 * x * t) / (1 + np.expm1(2 * x * t) / x)

    h = 1e-5
    slope = (image(x + h) - image(x - h)) / (2 * h)
    assert law.density(image(x)) == pytest.approx(LAWS["wide"].density(x) / slope, rel=1e-6)
    assert np.array(law.edges[0]) == pytest.approx(image(np.array(LAWS["wide"].edges)), rel=1e-5)


def test_atoms():
    """The kernel of the start, and eigenspaces that must meet: masses 3/4 + 1/2 - 1."""
    law = spectrum("projector", "atoms", 0.2)
    x = np.array([0.5, 2.0])
    meets = np.exp(0.4 * x) / (1 + np.expm1(0.4 * x) / x)
    assert np.array(law.atoms) == pytest.approx(np.array([[0, 0.25], [meets[0], 0.25], [meets[1], 0.25]]), abs=1e-12)
    assert spectrum("projector", "atoms", 0.0).atoms == ((0.0, 0.25), (1.0, 0.75))
    assert spectrum("narrow", "hard edge", 5.0).atoms == ((0.0, pytest.approx(0.5, abs=1e-12)),)


def test_quantiles():
    law = spectrum("narrow", "wide", 0.5)
    p = np.array([0.2, 0.499, 0.55, 0.8, 0.999])
    q = law.quantiles(p)
    assert (q[:2] == 0).all()
    assert law.cdf(q[2:]) == pytest.approx(p[2:], abs=1e-6)
    assert (np.diff(q[1:]) > 0).all()
    for bad in (0.0, 1.0, np.nan):
        with pytest.raises(InputError, match="probabilities"):
            law.quantiles([0.5, bad])


def test_nothing_below_zero_and_no_value_at_zero():
    law = spectrum("hard edge", "wide", 0.3)
    assert (law.density([-1.0, -1e-12, 0.0, 100.0]) == 0).all()
    with pytest.raises(InputError, match="z = 0"):
        law.stieltjes([0.0])


def test_no_trace_of_the_nodes_late():
    """When S has converged to X on the bulk, the density is that of X between the nodes too."""
    law, known = spectrum("wide", "wide", 20.0), LAWS["wide"]
    x = np.linspace(0.5, 1.2, 301)
    assert law.density(x) == pytest.approx(known.density(x), rel=1e-3)
    ratio = law.density(x) / known.density(x)
    assert np.abs(np.diff(ratio, 2)).max() < 1e-6


def test_against_eigenvalues():
    """Quantiles of E (A^{-1} + Y)^{-1} E at d = 400, within the rigidity of its eigenvalues."""
    law, dim, t = spectrum("hard edge", "wide", 0.3), 400, 0.3
    rng = np.random.default_rng(3)
    x, V = np.linalg.eigh(LAWS["wide"].sample(dim, rng))
    W = V.T @ LAWS["hard edge"].sample_factor(dim, rng)
    E, Y = np.exp(x * t), np.expm1(2 * x * t) / x
    S = E[:, None] * (W @ np.linalg.solve(np.eye(dim) + W.T @ (Y[:, None] * W), W.T)) * E
    eigenvalues = np.linalg.eigvalsh((S + S.T) / 2)
    assert np.abs(law.cdf(eigenvalues) - (np.arange(dim) + 0.5) / dim).max() < 0.01
