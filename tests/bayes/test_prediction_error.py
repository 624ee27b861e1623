"""Test errors against sampled forms of teacher and estimate, and against matrices at finite d."""

import math

import numpy as np
import pytest

from aimtheory.bayes import (
    GeneralChannel,
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SoftmaxChannel,
    prediction_error,
)
from aimtheory.errors import InputError

CASES = [
    LinearChannel(2, 0.3),
    SignChannel(2, thresholds=0.3, noise=0.2, flips=0.1),
    SoftmaxChannel(3, 1.5),
    SoftmaxChannel(2, noise=[[0.1, 0.3], [0.3, 0.5]]),
    HardmaxChannel(3),
    HardmaxChannel(2, noise=0.2, flips=0.1),
    HardmaxChannel(6),
]


@pytest.mark.parametrize("channel", CASES, ids=[f"{c.name}-{c.tokens}-{n}" for n, c in enumerate(CASES)])
@pytest.mark.parametrize(("m", "s"), [(0.5, 0.5), (0.4, 0.7)])
def test_plug_in_error_by_sampling(channel, m, s):
    """Outputs of both sampled forms compared, 4 standard errors."""
    rng = np.random.default_rng(1)
    scale, count = np.sqrt(channel.multiplicity), 40000
    omega = math.sqrt(s) * scale * rng.standard_normal((count, channel.pairs))
    forms = m / s * omega + math.sqrt(1.2 - m**2 / s) * scale * rng.standard_normal(omega.shape)
    seen = channel.sample(forms, rng)
    clean = type(channel)(channel.tokens, **({"thresholds": 0.3} if channel.name == "sign" else {}))
    clean = SoftmaxChannel(channel.tokens, channel.inverse_temperature) if channel.name == "softmax" else clean
    guess = omega if channel.name == "linear" else clean.sample(omega, rng)
    if channel.name in ("linear", "softmax"):
        loss = ((seen - guess) ** 2).reshape(count, -1).sum(axis=1)
    else:
        loss = (seen != guess).mean(axis=1)
    measured = prediction_error(channel, m, 1.2, s, rule="plug-in")
    assert abs(loss.mean() - float(measured.value)) < 4 * loss.std() / math.sqrt(count) + float(measured.error)
    best = prediction_error(channel, m, 1.2, s)
    assert float(best.value) <= float(measured.value) + float(best.error) + float(measured.error) + 1e-12


def test_known_values():
    assert float(prediction_error(SignChannel(2), 0.0, 1.0).value) == pytest.approx(0.5)
    assert float(prediction_error(SignChannel(2), 1.0, 1.0).value) == pytest.approx(0.0, abs=1e-7)
    assert float(prediction_error(LinearChannel(2, 0.1), 0.6, 1.0).value) == pytest.approx(5 * 0.4 + 0.3)
    assert float(prediction_error(HardmaxChannel(4), 1.0, 1.0).value) == pytest.approx(0.0, abs=1e-6)
    assert float(prediction_error(SoftmaxChannel(2), 1.0, 1.0).value) == pytest.approx(0.0, abs=1e-12)
    # Two tokens, nothing known: a row is the sign of one gap.
    assert float(prediction_error(HardmaxChannel(2), 0.0, 1.0).value) == pytest.approx(0.5, abs=1e-9)
    # ... and with overlap q it is that of a bivariate normal: arccos(sqrt q)/pi.
    known = prediction_error(HardmaxChannel(2), 0.4, 1.0)
    assert abs(float(known.value) - math.acos(math.sqrt(0.4)) / math.pi) < float(known.error)


def test_bad_input_is_named():
    for make, message in (
        (lambda: prediction_error(SignChannel(2), 1.1, 1.0), "no overlaps"),
        (lambda: prediction_error(SignChannel(2), 0.5, -1.0), "no overlaps"),
        (lambda: prediction_error(SignChannel(2), 0.5, 1.0, rule="best"), "rule"),
        (lambda: prediction_error(SignChannel(2), math.nan, 1.0), "overlap"),
        (lambda: prediction_error(SignChannel(2, output_noise=1.0), 0.5, 1.0), "output noise"),
        (
            lambda: prediction_error(
                GeneralChannel.from_sampler(2, lambda u, _: u[:, 0] > 0, 2, directions=[[0, 1, 0]]), 0.5, 1.0
            ),
            "not offered",
        ),
    ):
        with pytest.raises(InputError, match=message):
            make()
