"""Singular values of S plus noise: closed forms, sampled matrices, information and MMSE tied together."""

import numpy as np
import pytest

from aimtheory.errors import InputError
from aimtheory.spectra import (
    Ginibre,
    NoisySingularValues,
    RectangularFactors,
    RectangularGinibre,
    denoise_rectangular,
)

LAWS = [
    RectangularFactors("1/2", 1),
    RectangularFactors(0.3, 2, left=0.8, right=1.3),
    RectangularFactors(0.2, 0.5),
    RectangularFactors(2, 1.3),
    RectangularFactors(1, 1),
]


@pytest.mark.parametrize("aspect", [0.3, 1, 1.001, 4])
@pytest.mark.parametrize("noise", [1e-6, 0.5, 1e4])
def test_gaussian_matrix(aspect, noise):
    """MMSE = delta s Delta/(s + Delta), I = (delta/2) log(1 + s/Delta), Marchenko-Pastur edges, a linear denoiser."""
    spectrum = NoisySingularValues(RectangularGinibre(aspect, 0.7), noise)
    assert spectrum.mmse == pytest.approx(aspect * 0.7 * noise / (0.7 + noise), rel=1e-11)
    assert spectrum.information == pytest.approx(0.5 * aspect * np.log1p(0.7 / noise), rel=1e-9, abs=1e-11)
    edges = np.sqrt(0.7 + noise) * np.array([abs(1 - np.sqrt(aspect)), 1 + np.sqrt(aspect)])
    assert np.array(spectrum.bands) == pytest.approx(edges[None], rel=1e-9, abs=1e-12)
    assert spectrum.denoise([1.0, 2.0]) == pytest.approx(0.7 / (0.7 + noise) * np.array([1.0, 2.0]))


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("noise", [1e-4, 0.05, 0.6, 30.0])
def test_information_and_error(law, noise):
    """dI/d(1/Delta) = MMSE/2; mass and second moment of the rule; between 0, the prior and the linear estimate."""
    spectrum, precision = NoisySingularValues(law, noise), 1 / noise
    around = [NoisySingularValues(law, 1 / (precision * (1 + 1e-3 * k))) for k in (-2, -1, 1, 2)]
    values = [each.information for each in around]
    slope = np.array([1, -8, 8, -1]) @ values / (12e-3 * precision)
    # The information holds logarithms of the smallest singular values: its error is that of the mass, many times.
    rough = 300 * max(each.error for each in around) / (1e-3 * precision)
    assert slope == pytest.approx(spectrum.mmse / 2, rel=2e-8, abs=rough)
    assert spectrum.error < 1e-9
    second, aspect = float(law.second_moment), float(law.aspect)
    linear = aspect * noise * second / (second + aspect * noise)
    assert 0 < spectrum.mmse <= linear * (1 + 1e-12)


@pytest.mark.parametrize("law", LAWS[:4], ids=repr)
def test_many_samples_leave_the_parameters(law):
    """MMSE/Delta -> parameters by d^2."""
    assert NoisySingularValues(law, 1e-9).mmse / 1e-9 == pytest.approx(float(law.parameters), rel=1e-6)


@pytest.mark.parametrize("aspect", [0.4, 2.5])
def test_transpose(aspect):
    """S and its transpose are one problem in other units: rows delta d, entries N(0, (1/d) = (delta/(delta d)))."""
    law = RectangularFactors(0.3, aspect, left=0.8, right=1.3)
    turned = RectangularFactors(0.3 / aspect, 1 / aspect, left=1.3 * aspect, right=0.8 * aspect)
    one, other = NoisySingularValues(law, 0.2), NoisySingularValues(turned, 0.2 * aspect)
    assert one.mmse == pytest.approx(aspect * other.mmse, rel=1e-11)
    assert one.information == pytest.approx(aspect**2 * other.information, rel=1e-10)
    assert np.array(one.bands) == pytest.approx(np.array(other.bands))


def test_bands_part_and_the_density_is_normalized():
    spectrum = NoisySingularValues(RectangularFactors(0.3, 2, left=0.8, right=1.3), 0.05)
    assert len(spectrum.bands) == 2
    masses = []
    for low, high in spectrum.bands:
        angle = np.pi * (np.arange(4000) + 0.5) / 4000
        y = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(angle)
        masses.append(float((spectrum.density(y) * 0.5 * (high - low) * np.sin(angle)).sum() * np.pi / 4000))
    # The signal has rank rho d, the noise the rest.
    assert masses == pytest.approx([0.7, 0.3], rel=1e-6)
    assert np.all(spectrum.density([0.0, spectrum.bands[0][1] * 1.01, 99.0]) == 0)


@pytest.mark.parametrize("law", LAWS[:3], ids=repr)
def test_denoiser_on_matrices(law):
    check_on_matrices(law, 200, 2)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_denoiser_on_matrices_of_dimension_1000(law):
    check_on_matrices(law, 1000, 1)


def check_on_matrices(law, dim, draws):
    """The squared error, O(1/d) off; no multiple of the estimate is better (Nishimori: its overlap is its norm)."""
    rng, noise = np.random.default_rng(7), 0.1
    errors, gaps = [], []
    for _ in range(draws):
        signal = law.sample(dim, rng)
        seen = signal + np.sqrt(noise / dim) * rng.standard_normal(signal.shape)
        estimate = denoise_rectangular(law, noise, seen)
        errors.append(((estimate - signal) ** 2).sum() / dim)
        gaps.append((estimate * signal).sum() / dim - (estimate**2).sum() / dim)
    expected = NoisySingularValues(law, noise).mmse
    assert np.mean(errors) == pytest.approx(expected, abs=3 / dim)
    assert np.mean(gaps) == pytest.approx(0, abs=6 / dim)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RectangularFactors(0), "width"),
        (lambda: RectangularGinibre(aspect=-1), "aspect"),
        (lambda: NoisySingularValues(RectangularGinibre(), 0.0), "noise = 0.0"),
        (lambda: NoisySingularValues(Ginibre(), 1.0), "must be a RectangularLaw"),
        (lambda: RectangularFactors(0.01).sample(10, np.random.default_rng(0)), "leaves no column"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
