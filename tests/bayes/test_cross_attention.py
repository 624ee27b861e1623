"""Cross-attention: channels, state evolution and counting, and what self-attention may not do."""

import math

import numpy as np
import pytest
import sympy as sp

from aimtheory.bayes import (
    CrossHardmax,
    CrossLinear,
    CrossSign,
    CrossSoftmax,
    RectangularPrior,
    SignChannel,
    SoftmaxChannel,
    StateEvolution,
    make_cross_channel,
    masked_self_attention,
    threshold,
)
from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import GOE, GaussianFactors, Ginibre, RectangularFactors, RectangularGinibre

CHANNELS = [CrossLinear(2, 3, 0.4), CrossSoftmax(2, 3, 1.7), CrossSign(2, 2), CrossHardmax(3, 2)]
PRIOR = RectangularPrior(RectangularFactors("1/2", 2))


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
def test_signal_by_monte_carlo(channel):
    """2 E sum g^2 from outputs and the gradient that AMP uses, within 4 standard errors."""
    rng, q, v = np.random.default_rng(2), 0.6, 0.4
    omega = math.sqrt(q) * rng.standard_normal((40000, channel.pairs))
    forms = omega + math.sqrt(v) * rng.standard_normal(omega.shape)
    terms = 2 * (channel.gradient(channel.sample(forms, rng), omega, v) ** 2).sum(axis=1)
    assert abs(terms.mean() - float(channel.signal(q, v).value)) < 4 * terms.std() / 200


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
def test_gradient_and_psi(channel):
    """g is the gradient of log Z; qhat/alpha = 4 dPsi/dq; the exact signal at q = 0."""
    rng = np.random.default_rng(1)
    omega = rng.standard_normal((5, channel.pairs))
    outputs = channel.sample(omega + rng.standard_normal(omega.shape), rng)
    found = channel.gradient(outputs, omega, 0.8)
    for k in range(channel.pairs):
        step = 1e-5 * np.eye(channel.pairs)[k]
        up, down = (channel.log_partition(outputs, omega + s * step, 0.8) for s in (1, -1))
        assert found[:, k] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-8)
    psi = [float(channel.psi_out(0.6 + 1e-3 * k, 1.0).value) for k in (-2, -1, 1, 2)]
    slope = np.array([1, -8, 8, -1]) @ psi / 12e-3
    assert 4 * slope == pytest.approx(float(channel.signal(0.6, 0.4).value), rel=1e-7)
    assert float(channel.signal(0.0, 1.0).value) == pytest.approx(float(channel.uninformed_signal()), rel=1e-10)


def test_gaussian_linear_problem():
    """Ginibre of variance s, one form, noise Delta: the root of a quadratic."""
    delta, s, noise, alpha = 1.5, 0.8, 0.3, 0.9
    point = StateEvolution(RectangularPrior(RectangularGinibre(delta, s)), CrossLinear(1, 1, noise)).solve(alpha)
    # V (1 + s qhat) = delta s, with the precision alpha/(V + noise) of an entry.
    b = noise + s * alpha - delta * s
    v = 0.5 * (-b + math.sqrt(b * b + 4 * delta * s * noise))
    assert point.mmse == pytest.approx(v, rel=1e-10)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
def test_fixed_points_are_stationary(channel):
    model = StateEvolution(PRIOR, channel)
    point = model.solve(0.1)
    stencil, offsets = np.array([1, -8, 8, -1]) / 12, (-2, -1, 1, 2)
    along_q = [model.free_entropy(point.q * (1 + 1e-3 * k), point.qhat, 0.1) for k in offsets]
    along_qhat = [model.free_entropy(point.q, point.qhat * (1 + 1e-3 * k), 0.1) for k in offsets]
    assert stencil @ along_q / (1e-3 * point.q) == pytest.approx(0, abs=1e-7)
    assert stencil @ along_qhat / (1e-3 * point.qhat) == pytest.approx(0, abs=1e-7)
    assert model.free_entropy(point.q, point.qhat, 0.1) == pytest.approx(point.free_entropy, abs=1e-10)


def test_thresholds_by_counting():
    """rho (1 + delta - rho) parameters, T (L - 1) equations a sample; the curve ends there."""
    found = threshold(CrossSoftmax(3, 4), "perfect", prior=PRIOR)
    assert found.exact == sp.Rational(5, 4) / 9
    full = threshold(CrossLinear(2, 2), "perfect", prior=RectangularPrior(RectangularFactors(3, 2)))
    assert full.exact == sp.Rational(1, 2)
    model = StateEvolution(PRIOR, CrossSoftmax(3, 4))
    assert model.solve(float(found) * (1 - 1e-4)).mmse > 0
    assert model.solve(float(found) * (1 + 1e-12)).mmse == 0
    with pytest.raises(AssumptionError, match="never recovers"):
        threshold(CrossSign(2, 2), "perfect", prior=PRIOR)


def test_masked_self_attention_is_cross_attention():
    assert masked_self_attention("softmax", 3) == CrossSoftmax(3, 2)
    assert masked_self_attention("hardmax", 3) == CrossHardmax(3, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StateEvolution(GaussianFactors(1), SoftmaxChannel(2)), "antisymmetric part"),
        (lambda: StateEvolution(Ginibre(), SignChannel(2)), "masked diagonal"),
        (lambda: StateEvolution(PRIOR, SoftmaxChannel(2)), "different noise"),
        (lambda: threshold("softmax", "perfect", prior=PRIOR), "different noise"),
        (lambda: StateEvolution(GOE(1), CrossSoftmax(2, 2)), "RectangularFactors"),
        (lambda: RectangularPrior(GOE(1)), "must be a RectangularLaw"),
        (lambda: PRIOR.mmse(-1.0), "qhat = -1"),
        (lambda: CrossSoftmax(2, 1), "keys = 1"),
        (lambda: CrossHardmax(2, 3), "keys = 3"),
        (lambda: CrossLinear(0, 1), "tokens = 0"),
        (lambda: CrossLinear(2, 2, -0.1), "noise = -0.1"),
        (lambda: make_cross_channel("relu"), "unknown"),
        (lambda: make_cross_channel("sign", noise=1.0), "does not take"),
        (lambda: CrossSign(2, 2).signal(0.5, -1.0), "V = -1"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
