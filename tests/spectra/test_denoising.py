"""MMSE, mutual information and the denoiser."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import (
    GOE,
    Atomic,
    Empirical,
    SemicircleConvolution,
    UserDensity,
    Wishart,
    bayes_wishart,
    denoise,
    denoise_matrix,
    mmse,
    mutual_information,
)
from aimtheory.spectra.law import SpectralLaw

LAWS = [
    bayes_wishart(0.5),
    Wishart(2, 3),
    Wishart(1, 1),
    GOE("3/2"),
    Atomic([-1, 0, 2], ["1/4", "1/2", "1/4"]),
    Empirical(np.random.default_rng(0).standard_normal(30)),
    UserDensity(lambda x: 0.5 * np.ones_like(x), [(-1.0, 1.0)]),
]


@pytest.mark.parametrize(
    ("tokens", "rho", "alpha", "expected"),
    [
        (2, 0.5, 0.089711, 0.457619),
        (2, 0.5, 0.16985388, 0.055106),
        (3, 0.3, 0.03, 0.437927),
        (4, 1.0, 0.02, 0.552242),
        (2, 2.0, 0.1, 0.550930),
    ],
)
def test_softmax_learning_curve(tokens, rho, alpha, expected):
    # Noiseless softmax of [B]: qhat MMSE(qhat) = alpha K_T, K_T = T^2 + T - 2. Values: an independent run of the
    # cubic by numpy roots with 200 midpoints a band.
    law, channels = bayes_wishart(rho), tokens**2 + tokens - 2
    log_qhat = brentq(lambda v: math.exp(v) * float(mmse(law, math.exp(v))) - alpha * channels, -8, 14)
    assert float(mmse(law, math.exp(log_qhat))) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("qhat", [0.3, 5.0, 80.0])
def test_posterior_variance_equals_the_cubic_formula(law, qhat):
    # MMSE = Delta - (4 pi^2/3) Delta^2 int f^3: the formula of the literature, which the library does not use.
    noise = 1 / qhat
    cube = float(SemicircleConvolution(law, noise).quadrature.cubic_density)
    assert float(mmse(law, qhat)) == pytest.approx(noise - 4 * math.pi**2 / 3 * noise**2 * cube, rel=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_derivative_of_information_is_a_quarter_of_the_mmse(law):
    for qhat in (0.05, 1.0, 20.0):
        step = 2e-3 * qhat
        points = qhat + step * np.array([-3, -2, -1, 1, 2, 3])
        # Sixth-order central difference: truncation (2e-3)^6.
        slope = mutual_information(law, points) @ np.array([-1, 9, -45, 45, -9, 1]) / (60 * step)
        assert slope == pytest.approx(float(mmse(law, qhat)) / 4, rel=1e-8)


@given(st.floats(1e-6, 1e6), st.floats(0.1, 10))
@settings(max_examples=30)
def test_goe_closed_forms(qhat, variance):
    assert float(mmse(GOE(variance), qhat)) == pytest.approx(variance / (1 + variance * qhat), rel=1e-13)
    assert float(mutual_information(GOE(variance), qhat)) == pytest.approx(
        0.25 * math.log1p(variance * qhat), rel=1e-13
    )


def test_goe_spectrum_gives_its_closed_forms():
    rule = SemicircleConvolution(GOE(2), 0.5).quadrature
    assert float(rule.mmse) == pytest.approx(2 / (1 + 2 * 2), rel=1e-13)
    # The log-energy of a semicircle of variance v is log(v)/2 - 1/4.
    assert float(rule.log_energy) == pytest.approx(0.5 * math.log(2.5) - 0.25, abs=1e-13)


@pytest.mark.parametrize(("rho", "limit"), [(0.2, 0.36), (0.5, 0.75), (1.0, 1.0), (3.0, 1.0)])
def test_scaled_mmse_rises_to_the_perfect_recovery_limit(rho, limit):
    # qhat MMSE -> 2 rho - rho^2 for rho <= 1, and 1 beyond.
    qhat = np.geomspace(1e-3, 1e9, 60)
    scaled = qhat * mmse(bayes_wishart(rho), qhat)
    assert np.all(np.diff(scaled) > -1e-13)
    assert scaled[-1] == pytest.approx(limit, rel=1e-4)
    assert np.all(scaled <= limit * (1 + 1e-12))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_weak_signal_limit(law):
    # qhat -> 0: MMSE -> kappa_2 (1 - kappa_2 qhat), I -> kappa_2 qhat / 4.
    variance = float(law.free_cumulants(2)[1])
    assert float(mmse(law, 0.0)) == pytest.approx(variance, rel=1e-12)
    assert float(mmse(law, 1e-6)) == pytest.approx(variance, rel=1e-4)
    assert float(mutual_information(law, 1e-3)) == pytest.approx(variance * 1e-3 / 4, rel=2e-2)
    assert float(mutual_information(law, 0.0)) == 0.0


def test_small_width_limit_is_the_one_of_low_rank_recovery():
    # rho -> 0 at fixed t = rho/qhat: MMSE -> t (2 - t) for t <= 1 and 1 beyond; corrections of order sqrt(rho).
    rho = 1e-6
    for t, expected in ((0.2, 0.36), (0.5, 0.75), (0.9, 0.99), (1.0, 1.0), (2.0, 1.0)):
        assert float(mmse(bayes_wishart(rho), rho / t)) == pytest.approx(expected, abs=3e-3)


def test_mmse_keeps_shape_and_vectorises():
    qhat = np.array([[0.1, 1.0], [0.0, 1e3]])
    values = mmse(bayes_wishart(0.5), qhat)
    assert values.shape == (2, 2)
    for index in np.ndindex(2, 2):
        assert values[index] == pytest.approx(float(mmse(bayes_wishart(0.5), qhat[index])), rel=1e-13)


@pytest.mark.parametrize("law", LAWS[:4], ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("scale", [0.1, 7.0])
def test_scaling_of_the_prior(law, scale):
    # MMSE of scale S at qhat is scale^2 MMSE of S at scale^2 qhat.
    if isinstance(law, GOE):
        scaled = GOE(float(law.variance) * scale**2)
    else:
        scaled = Wishart(law.width, float(law.trace) * scale)
    assert float(mmse(scaled, 2.0)) == pytest.approx(scale**2 * float(mmse(law, 2.0 * scale**2)), rel=1e-12)
    assert float(mutual_information(scaled, 2.0)) == pytest.approx(
        float(mutual_information(law, 2.0 * scale**2)), rel=1e-11
    )


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_denoiser_is_the_bayes_estimator_on_average(law):
    # Tower property E[D] = E[S]; Nishimori E[D x] = E[S x] = E[S^2]; E[D^2] = E[S^2] - MMSE.
    noise = 0.4
    rule = SemicircleConvolution(law, noise).quadrature
    mean, second = (float(m) for m in law.moments(2))
    assert float(rule.integrate(rule.denoised)) == pytest.approx(mean, abs=1e-10)
    assert float(rule.integrate(rule.denoised * rule.points)) == pytest.approx(second, rel=1e-10)
    assert float(rule.integrate(rule.denoised**2)) == pytest.approx(second - float(rule.mmse), rel=1e-10)
    x = rule.points[:: max(1, len(rule.points) // 20)]
    noisy = SemicircleConvolution(law, noise)
    assert denoise(law, 1 / noise, x) == pytest.approx(x - 2 * noise * noisy.hilbert_transform(x), abs=1e-9)


def relative_error(law, qhat, dim, rng):
    signal = law.sample(dim, rng)
    observed = signal + GOE(1).sample(dim, rng) / math.sqrt(qhat)
    return np.sum((denoise_matrix(law, qhat, observed) - signal) ** 2) / dim


@pytest.mark.parametrize(
    ("law", "qhat"), [(bayes_wishart(0.5), 3.0), (bayes_wishart(0.5), 60.0), (Atomic([-1, 1]), 1.0)]
)
def test_denoising_sampled_matrices(law, qhat):
    rng = np.random.default_rng(12)
    errors = np.array([relative_error(law, qhat, 200, rng) for _ in range(12)])
    standard = errors.std(ddof=1) / math.sqrt(len(errors))
    # 4 s.e. plus the O(1/d) bias of d = 200.
    assert abs(errors.mean() - float(mmse(law, qhat))) < 4 * standard + 2 / 200 * errors.mean()
    # The estimator beats both the observation and neighbouring shrinkages.
    assert errors.mean() < 1 / qhat


@pytest.mark.slow
def test_denoising_a_large_sampled_matrix():
    law, qhat = bayes_wishart(0.5), 10.0
    rng = np.random.default_rng(3)
    errors = np.array([relative_error(law, qhat, 1000, rng) for _ in range(4)])
    assert errors.mean() == pytest.approx(float(mmse(law, qhat)), rel=5e-3)


def test_denoiser_of_a_wishart_is_positive_and_increasing_on_the_bands():
    noisy = SemicircleConvolution(bayes_wishart(0.5), 0.01)
    x = np.concatenate([np.linspace(low, high, 50) for low, high in noisy.support])
    values = noisy.denoise(x)
    assert np.all(values > 0)
    assert np.all(np.diff(values) > 0)


class HeavyTailed(GOE):
    """A law that says its second moment is infinite."""

    def moments(self, count):
        return (0.0, float("inf"))[:count]


def test_bad_input_is_named():
    for qhat in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="qhat"):
            mmse(GOE(1), qhat)
    with pytest.raises(AssumptionError, match="second moment"):
        mmse(HeavyTailed(1), 1.0)
    with pytest.raises(InputError, match="square"):
        denoise_matrix(GOE(1), 1.0, np.ones((2, 3)))
    with pytest.raises(InputError, match="not finite"):
        denoise_matrix(GOE(1), 1.0, [[np.nan]])
    assert issubclass(HeavyTailed, SpectralLaw)


@pytest.mark.parametrize("qhat", [1e-6, 1e-3, 1.0, 30.0, 300.0, 1e5, 1e8])
def test_uniform_law_with_jumps_over_many_decades(qhat):
    # Route two: 2000 midpoint atoms at moderate qhat; beyond, 1 - (4 pi^2/3) (1/4) / qhat, the leading order;
    # below, kappa_2 (1 - kappa_2 qhat).
    law = UserDensity(lambda x: 0.5 * np.ones_like(x), [(-1.0, 1.0)])
    value = float(mmse(law, qhat))
    if qhat >= 1e5:
        assert qhat * value == pytest.approx(1 - math.pi**2 / 3 / qhat, abs=30 / qhat**1.5 + 1e-12)
    elif qhat <= 1e-3:
        assert value == pytest.approx(1 / 3 - qhat / 9, abs=qhat**2)
    else:
        atoms = (np.arange(2000) + 0.5) / 1000 - 1
        assert value == pytest.approx(float(mmse(Empirical(atoms), qhat)), rel=1e-6)
