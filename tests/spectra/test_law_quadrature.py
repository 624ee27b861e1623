"""Quadratures of spectral laws: moments, functions with structure near 0, cuts, and what cannot be resolved."""

import mpmath
import numpy as np
import pytest

import aimtheory as aim
from aimtheory.errors import InputError
from aimtheory.spectra import UserDensity
from aimtheory.spectra.law_quadrature import law_quadrature, upper_quantile

LAWS = {
    "hard edge": aim.Wishart(width=1, trace=1),
    "nearly hard edge": aim.Wishart(width=0.95, trace=2),
    "narrow": aim.Wishart(width=0.05, trace=3),
    "wide": aim.Wishart(width=4, trace=0.1),
    "semicircle": aim.GOE(variance=2),
    "two atoms": aim.Atomic([0, 1], ["1/3", "2/3"]),
    "spectrum": aim.Empirical(np.random.default_rng(0).random(700) ** 2),
    "uniform": UserDensity(np.ones_like, [(0.0, 1.0)]),
    "two bands": UserDensity(lambda x: np.where(x < 0, 0.5, 0.25), [(-1.0, 0.0), (1.0, 3.0)]),
}


@pytest.mark.parametrize("name", LAWS)
def test_moments_of_the_law(name):
    law = LAWS[name]
    rule = law_quadrature(law, 48)
    assert rule.weights.sum() == pytest.approx(1, abs=1e-14)
    assert (rule.weights >= 0).all()
    for n, moment in enumerate(law.moments(12), start=1):
        size = max(1.0, float(np.abs(rule.nodes).max()) ** n)
        assert rule.weights @ rule.nodes**n == pytest.approx(float(moment), abs=1e-11 * size)
    assert rule.defect < 1e-11


@pytest.mark.parametrize("time", [1.0, 1e2, 1e4])
def test_slow_modes_of_a_hard_edge(time):
    """The mean of exp(-t x) under Marchenko-Pastur of width 1 is e^{-2t} (I_0 + I_1)(2t)."""
    rule = law_quadrature(aim.Wishart(width=1, trace=1), 48)
    known = mpmath.exp(-2 * time) * (mpmath.besseli(0, 2 * time) + mpmath.besseli(1, 2 * time))
    assert rule.weights @ np.exp(-time * rule.nodes) == pytest.approx(float(known), abs=1e-10)


def test_a_spectrum_is_compressed_with_its_small_eigenvalues():
    eigenvalues = np.geomspace(1e-4, 1, 900)
    rule = law_quadrature(aim.Empirical(eigenvalues), 48)
    assert len(rule.nodes) == 48
    for time in (1.0, 1e2, 1e4):
        known = np.exp(-time * eigenvalues).mean()
        assert rule.weights @ np.exp(-time * rule.nodes) == pytest.approx(known, abs=1e-9)


def test_a_cut_is_a_quantile_and_resolves_a_step():
    law = aim.Wishart(width=1, trace=1)
    cut = upper_quantile(law, 0.3)
    rule = law_quadrature(law, 48, cut)
    assert rule.weights[rule.nodes > cut].sum() == pytest.approx(0.3, abs=1e-12)
    above = np.where(rule.nodes > cut, rule.nodes, 0.0)
    edge = 2 * np.arcsin(np.sqrt(cut) / 2)
    theta = np.linspace(edge, np.pi, 20001)
    integrand = 4 * np.sin(theta / 2) ** 2 * 2 / np.pi * np.cos(theta / 2) ** 2
    known = np.sum((integrand[1:] + integrand[:-1]) / 2 * np.diff(theta))
    assert rule.weights @ above == pytest.approx(known, abs=1e-7)


def test_no_quantile_inside_an_atom_or_a_gap():
    assert upper_quantile(aim.Wishart(width=0.5, trace=1), 0.7) is None
    assert upper_quantile(aim.Atomic([1, 2]), 0.5) is None


@pytest.mark.parametrize("count", [1, 2.5, True])
def test_bad_counts(count):
    with pytest.raises(InputError, match="count"):
        law_quadrature(aim.GOE(variance=1), count)
