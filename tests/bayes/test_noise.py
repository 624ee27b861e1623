"""Noise by name: limits, equivalences, independent quadratures, thresholds, records and bad input."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from aimtheory.bayes import (
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SoftmaxChannel,
    bayes_curve,
    make_channel,
    mmse_curve,
    phase_diagram,
    threshold,
)
from aimtheory.errors import AssumptionError, InputError


@pytest.mark.parametrize("name", ["softmax", "hardmax", "linear", "sign"])
def test_matrix_noise_is_variance(name):
    """D V + Delta D = D (V + Delta): the signal at V with noise is the one at V + Delta without."""
    noisy, clean = make_channel(name, 2, matrix_noise=0.3), make_channel(name, 2)
    assert float(noisy.signal(0.6, 0.2).value) == pytest.approx(float(clean.signal(0.6, 0.5).value), rel=1e-12)


@pytest.mark.parametrize(
    ("q", "variance", "noise", "tau", "flips"), [(0.7, 0.3, 0.4, 0.2, 0.1), (0.05, 2.0, 0.0, 0.5, 0.2)]
)
def test_noisy_sign_by_quadrature(q, variance, noise, tau, flips):
    """The sum over two kinds of forms of an adaptive integral over omega."""
    channel = SignChannel(2, tau, noise=noise, flips=flips)
    total = 0.0
    for scale, copies in ((2.0, 2), (1.0, 1)):
        spread = scale * variance + noise

        def term(omega, scale=scale, spread=spread):
            k = (omega - tau) / math.sqrt(spread)
            chance = flips + (1 - 2 * flips) * norm.cdf(k)
            slope = (1 - 2 * flips) * norm.pdf(k) / math.sqrt(spread)
            density = norm.pdf(omega, scale=math.sqrt(scale * q))
            return 2 * scale * slope**2 / (chance * (1 - chance)) * density

        reach = 10 * math.sqrt(scale * q)
        total += copies * quad(term, -reach, reach, epsabs=1e-12, epsrel=1e-11, limit=200)[0]
    measured = channel.signal(q, variance)
    assert abs(float(measured.value) - total) < float(measured.error) + 1e-9 * total


def test_sign_with_output_noise_by_quadrature():
    channel = SignChannel(2, output_noise=0.3, flips=0.05)
    q, variance, width = 0.7, 0.3, math.sqrt(0.3)

    y, omega = np.linspace(-6, 6, 601)[:, None], np.linspace(-5, 5, 501)
    k = omega / math.sqrt(variance)
    chance = 0.05 + 0.9 * norm.cdf(k)
    one, two = norm.pdf(y, 1, width), norm.pdf(y, -1, width)
    slope = 0.9 * norm.pdf(k) / math.sqrt(variance) * (one - two)
    terms = 2 * slope**2 / (chance * one + (1 - chance) * two) * norm.pdf(omega, scale=math.sqrt(q))
    total = 3 * float(terms.sum()) * 0.02 * 0.02
    measured = channel.signal(q, variance)
    assert abs(float(measured.value) - total) < float(measured.error) + 1e-7 * total
    # Weak noise: the sign is seen.
    weak = SignChannel(2, output_noise=0.02).signal(q, variance)
    assert float(weak.value) == pytest.approx(float(SignChannel(2).signal(q, variance).value), rel=1e-6)


def test_noisy_softmax_is_a_linear_channel_of_differences():
    """Fisher information of A (h + noise) built by linear algebra: 2 Tr D A^T (A S A^T)^{-1} A."""
    noise = np.array([[0.1, 0.4, 0.2], [0.4, 0.0, 0.7], [0.2, 0.7, 0.3]])
    channel = SoftmaxChannel(3, noise=noise)
    total = 0.25 * channel.multiplicity + np.array(channel.noise)
    differences = np.hstack([np.eye(5), -np.ones((5, 1))])
    weight = differences.T @ np.linalg.inv((differences * total) @ differences.T) @ differences
    expected = 2 * float((channel.multiplicity * np.diagonal(weight)).sum())
    assert float(channel.signal(0.5, 0.25).value) == pytest.approx(expected, rel=1e-12)
    limit = SoftmaxChannel(3, noise=noise).signal(0.5, 0.0).value
    assert float(limit) == pytest.approx(float(channel.signal(0.5, 1e-12).value), rel=1e-9)
    one = SoftmaxChannel(2, noise=[[0.0, 1.0], [1.0, 2.0]])
    assert one.exact_directions == 0
    assert float(one.signal(0.5, 0.0).value) == pytest.approx(float(one.signal(0.5, 1e-12).value), rel=1e-9)


def test_vanishing_noise_is_none():
    for clean, noisy in (
        (SoftmaxChannel(3), SoftmaxChannel(3, noise=1e-12)),
        (SignChannel(2, 0.3), SignChannel(2, 0.3, noise=1e-12, flips=1e-12)),
        (HardmaxChannel(2), HardmaxChannel(2, noise=1e-12, flips=1e-12)),
    ):
        assert float(noisy.signal(0.6, 0.4).value) == pytest.approx(float(clean.signal(0.6, 0.4).value), rel=1e-8)


def test_noise_costs_samples():
    alpha = np.array([0.05, 0.1, 0.3])
    for name, noise in (("softmax", {"noise": 0.2}), ("sign", {"flips": 0.1}), ("linear", {"matrix_noise": 0.2})):
        clean, noisy = mmse_curve(name, 2, "1/2", alpha), mmse_curve(name, 2, "1/2", alpha, **noise)
        assert np.all(noisy > clean)


def test_thresholds_with_noise():
    """Weak recovery at small width is 1/signal(0, 1), exact where the signal is; noise everywhere: none perfect."""
    found = threshold("softmax", "weak", 2, width=0, noise=1)
    assert found.exact is not None
    assert float(found) == pytest.approx(1 / float(SoftmaxChannel(2, noise=1).signal(0.0, 1.0).value), rel=1e-12)
    assert float(threshold("softmax", "weak", 2, width=0, matrix_noise=1)) == pytest.approx(0.5)
    flipped = threshold("sign", "weak", 2, width=0, flips=0.1)
    assert float(flipped) == pytest.approx(float(threshold("sign", "weak", 2, width=0)) / 0.64, rel=1e-12)
    with pytest.raises(AssumptionError, match="never recovers perfectly"):
        threshold("softmax", "perfect", 2, width="1/2", noise=0.1)


def test_the_error_of_a_channel_travels(monkeypatch):
    """A relative error of the signal moves V by its share of dV/dlog alpha; no error, none in the curve."""
    alpha = np.array([0.05, 0.2, 0.5])
    exact = bayes_curve("sign", 2, "1/2", alpha)
    assert np.all(exact.channel_error() < 1e-10)
    original = SignChannel.signal

    def blurred(self, q, variance):
        measured = original(self, q, variance)
        return type(measured)(measured.value, 1e-3 * np.abs(measured.value), "cubature")

    monkeypatch.setattr(SignChannel, "signal", blurred)
    curve = bayes_curve("sign", 2, "1/2", alpha)
    monkeypatch.undo()
    moved = np.abs(mmse_curve("sign", 2, "1/2", alpha * 1.001) - exact.mmse)
    assert curve.error == pytest.approx(moved, rel=0.02)
    data = curve.as_dict()
    assert type(curve).from_dict(data).as_dict() == data
    diagram = phase_diagram("sign", 2, [0.5], alpha[1:])
    assert diagram.error.shape == diagram.mmse.shape


def test_bad_noise_is_named():
    for make, message in (
        (lambda: SoftmaxChannel(2, noise=-0.1), "noise variance -0.1"),
        (lambda: SoftmaxChannel(2, noise="a"), "noise"),
        (lambda: LinearChannel(2, noise="a"), "noise"),
        (lambda: SoftmaxChannel(2, inverse_temperature=math.inf), "inverse_temperature"),
        (lambda: SoftmaxChannel(2, inverse_temperature=math.nan), "inverse_temperature"),
        (lambda: SignChannel(2, flips=0.5), "flips"),
        (lambda: SignChannel(2, flips=math.nan), "flips"),
        (lambda: SignChannel(2, output_noise=-1), "output_noise"),
        (lambda: SignChannel(2, noise=[[1, 2], [3, 4]]), "symmetric"),
        (lambda: make_channel("softmax", 2, output_noise=1), "output_noise"),
        (lambda: make_channel("linear", 2, flips=0.1), "flips"),
        (lambda: SoftmaxChannel(2, noise=0.1).sample(np.zeros((1, 3))), "Generator"),
        (lambda: SignChannel(2, flips=0.1).sample(np.zeros((1, 3))), "Generator"),
        (lambda: mmse_curve("softmax", 2, "1/2", alpha="x"), "alpha"),
    ):
        with pytest.raises(InputError, match=message):
            make()
