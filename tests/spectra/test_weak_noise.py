"""Atoms under noise far below their distances, and clusters of atoms far below the noise."""

import mpmath as mp
import numpy as np
import pytest

from aimtheory.spectra import Atomic, Empirical, SemicircleConvolution, mmse, mutual_information
from aimtheory.spectra.arbitrary_precision import mmse_digits
from aimtheory.spectra.atom_clusters import condensed
from aimtheory.spectra.subordination import AtomTransform, SubordinatedSpectrum

CLOUD = np.append(np.random.default_rng(4).uniform(-3e-7, 3e-7, 24), np.linspace(0.5, 3, 24))
"""A spectrum of rank 24 as single precision gives it."""


@pytest.mark.parametrize("qhat", [1e3, 1e6, 1e9, 1e12, 1e14])
@pytest.mark.parametrize("law", [Empirical(np.linspace(0, 3, 16)), Atomic([-1, "1/3", 5], ["1/2", "1/8", "3/8"])])
def test_mmse_at_weak_noise(law, qhat):
    """qhat MMSE = 1 - sum w^2 minus terms of order 1/(qhat gap^2)."""
    weights = np.array([weight for _, weight in law.atoms])
    expected = 1 - float(weights @ weights)
    assert qhat * float(mmse(law, qhat)) == pytest.approx(expected, rel=1e-12 + 40 / qhat)


@pytest.mark.parametrize("qhat", [30.0, 2e5, 1e12])
def test_against_many_digits(qhat):
    """The same quantity with 30 digits, by another quadrature."""
    law = Atomic([0, 1, 1.0001], [0.5, 0.3, 0.2])
    with mp.workdps(40):
        assert float(mmse_digits(law, mp.mpf(qhat), 25)) == pytest.approx(float(mmse(law, qhat)), rel=1e-11)


def test_two_close_atoms_far_from_zero():
    """Shifted by 7, 1e-9 apart: the MMSE is that of +-1/2 at the noise in their units."""
    near = Atomic([7.0, 7.0 + 2.0**-30], [0.5, 0.5])
    for qhat in (0.3, 5.0, 200.0):
        scaled = float(mmse(Atomic(["-1/2", "1/2"]), qhat))
        assert float(mmse(near, qhat * 2.0**60)) * 2.0**60 == pytest.approx(scaled, rel=1e-12)


def test_information_is_continued_to_weak_noise():
    """I(100 q) - I(q) is the integral of MMSE/4 = (1 - sum w^2) log(100)/4, up to 1/q."""
    law = Empirical(np.linspace(-1, 1, 8))
    low, high = mutual_information(law, [1e9, 1e11])
    assert high - low == pytest.approx(0.25 * (1 - 1 / 8) * np.log(100), abs=1e-7)


@pytest.mark.parametrize("qhat", [0.01, 1.0, 1e4, 1e9, 1e12])
def test_a_cloud_of_zeros(qhat):
    """Condensed or not, the noisy law is one: mass, MMSE by its cubic formula, denoiser on and off the bands."""
    law, noise = Empirical(CLOUD), 1 / qhat
    points, weights = np.array(law.atoms).T
    full = SubordinatedSpectrum(AtomTransform(points, weights), noise)
    kept = SemicircleConvolution(law, noise)
    assert float(mmse(law, qhat)) == pytest.approx(float(full.quadrature.mmse), rel=1e-10)
    assert kept.quadrature.log_energy == pytest.approx(full.quadrature.log_energy, abs=1e-12)
    grid = np.linspace(-2, 4, 13)
    assert np.allclose(kept.denoise(grid), full.boundary(grid).denoised, rtol=0, atol=1e-11)
    if qhat <= 1e4:
        cubic = noise - 4 * np.pi**2 / 3 * noise**2 * float(full.quadrature.cubic_density)
        assert float(mmse(law, qhat)) == pytest.approx(cubic, rel=1e-9, abs=1e-13)


def test_condensed_keeps_moments_and_few_atoms():
    points, weights = np.array(Empirical(CLOUD).atoms).T
    few, masses = condensed(points, weights, 1e-6)
    assert len(few) == 24 + 11
    assert np.all(np.diff(few) > 0)
    for power in range(5):
        assert masses @ few**power == pytest.approx(weights @ points**power, rel=1e-13)
    # Resolved by the noise, every atom stays.
    assert len(condensed(points, weights, 1e-18)[0]) == 48


def test_few_kernels_are_summed_at_any_noise():
    """The work, not the time: no panel is split for the rounding of a coordinate."""
    counts = [
        len(SemicircleConvolution(Empirical(np.linspace(0, 3, 16)), 1 / q).quadrature.points) for q in (1e6, 1e14)
    ]
    assert max(counts) == 16 * 20
