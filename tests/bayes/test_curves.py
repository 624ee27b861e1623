"""Curves, diagrams and arbitrary precision."""

import importlib
import json

import mpmath as mp
import numpy as np
import pytest

from aimtheory.bayes import (
    HardmaxChannel,
    LinearChannel,
    SoftmaxChannel,
    StateEvolution,
    bayes_curve,
    bayes_mmse_digits,
    make_prior,
    mmse_curve,
    phase_diagram,
    threshold,
)
from aimtheory.errors import InputError


@pytest.mark.parametrize(
    ("tokens", "width", "alpha", "mmse"),
    [
        (2, "0.5", "0.089711", 0.457619),
        (2, "0.5", "0.16985388", 0.055106),
        (3, "0.3", "0.03", 0.437927),
        (4, "1", "0.02", 0.552242),
        (2, "2", "0.1", 0.550930),
    ],
)
def test_thirty_digits(tokens, width, alpha, mmse):
    """30 digits, against float64 to 1e-12 and against the values of an independent script."""
    value = bayes_mmse_digits("softmax", tokens, width, alpha, digits=30)
    assert float(value) == pytest.approx(mmse, abs=1e-6)
    model = StateEvolution(make_prior(float(width)), SoftmaxChannel(tokens))
    assert float(value) == pytest.approx(model.solve(float(alpha)).mmse, rel=1e-12)


def test_digits_do_not_depend_on_the_precision():
    """The first 30 of 45 digits are the 30 digits."""
    short = bayes_mmse_digits("softmax", 2, "1/2", "1/10", digits=30)
    long = bayes_mmse_digits("softmax", 2, "1/2", "1/10", digits=45)
    with mp.workdps(60):
        assert abs(short - long) < mp.mpf(10) ** -30


def test_digits_of_closed_forms():
    """GOE prior: 1 - alpha K_T for softmax; a quadratic for the linear channel without noise; small width."""
    with mp.workdps(40):
        assert abs(bayes_mmse_digits("softmax", 3, "inf", "1/20", digits=35) - mp.mpf(1) / 2) < mp.mpf(10) ** -34
        t = mp.mpf(2) - 4 * mp.mpf(3) / 10
        assert abs(bayes_mmse_digits("softmax", 2, "0", "3/10", digits=35) - t * (2 - t)) < mp.mpf(10) ** -33
        assert bayes_mmse_digits("softmax", 2, "1/2", "3/16") == 0
        assert bayes_mmse_digits("softmax", 2, "1/2", 0) == 1
    with pytest.raises(InputError, match="hardmax"):
        bayes_mmse_digits("hardmax", 2, "1/2", "1/10")


def test_digits_of_noisy_channels():
    """Noise on the forms, equal or not, enters as in float64; a GOE behind noise is a quadratic."""
    for channel in (SoftmaxChannel(2, matrix_noise=0.25), SoftmaxChannel(2, noise=[[0.1, 0.2], [0.2, 0.3]])):
        value = bayes_mmse_digits(channel, width="1/2", alpha="1/10", digits=25)
        assert float(value) == pytest.approx(StateEvolution(make_prior("1/2"), channel).solve(0.1).mmse, rel=1e-11)
    with mp.workdps(40):
        # V = 1/(1 + qhat), qhat = K alpha/(V + 1/2) with variances D/2 on all three forms, alpha = 1/K.
        for channel, alpha in (
            (LinearChannel(2, matrix_noise=0.5), "1/6"),
            (SoftmaxChannel(2, matrix_noise=0.5), "1/4"),
        ):
            value = bayes_mmse_digits(channel, width="inf", alpha=alpha, digits=30)
            assert abs(value * (1 + 1 / (value + mp.mpf(1) / 2)) - 1) < mp.mpf(10) ** -29


def test_shapes():
    alpha = np.array([[0.01, 0.05], [0.1, 0.3]])
    values = mmse_curve("softmax", 2, "1/2", alpha)
    assert values.shape == (2, 2)
    assert np.all(np.diff(values.ravel()) < 0)
    assert values[1, 1] == 0
    assert mmse_curve("softmax", 2, "1/2", 0.1).shape == ()


def test_curve_is_json():
    curve = bayes_curve("hardmax", 2, "1/2", [0.0, 0.1, 1.1])
    data = json.loads(json.dumps(curve.as_dict()))
    assert data["mmse"] == pytest.approx([1.0, 0.7451104, 0.0676668], abs=2e-7)
    assert data["status"] == ["converged"] * 3
    assert data["unit"] == "alpha"


def test_results_survive_json():
    """Lossless: every float comes back bit for bit, infinities included."""
    model = StateEvolution(make_prior("1/2"), SoftmaxChannel(2))
    for result in (
        model.curve([0.0, 0.1, 0.2]),
        model.solve(0.05),
        model.fixed_points(0.1)[-1],
        phase_diagram("softmax", 2, [0.5], [0.1, 0.2]),
    ):
        data = result.as_dict()
        again = type(result).from_dict(json.loads(json.dumps(data)))
        assert again.as_dict() == data


def test_diagram():
    """Rows are curves; recovery is perfect exactly above the line."""
    widths, alphas = np.array([0.2, 0.7, 1.5]), np.linspace(0, 0.3, 7)
    diagram = phase_diagram("softmax", 2, widths, alphas)
    for row, width in enumerate(widths):
        assert np.array_equal(diagram.mmse[row], mmse_curve("softmax", 2, width, alphas))
        assert diagram.perfect[row] == pytest.approx(float(threshold(width=float(width))), rel=1e-14)
        assert np.array_equal(diagram.mmse[row] == 0, alphas >= diagram.perfect[row])
    assert diagram.status == "complete"
    assert json.loads(json.dumps(diagram.as_dict()))["status"] == "complete"


def test_interrupted_diagram_keeps_its_rows(monkeypatch):
    rows = []

    def interrupt(width):
        rows.append(width)
        if len(rows) == 3:
            raise KeyboardInterrupt
        return original(width)

    diagram_module = importlib.import_module("aimtheory.bayes.phase_diagram")
    original = diagram_module.make_prior
    monkeypatch.setattr(diagram_module, "make_prior", interrupt)
    diagram = phase_diagram("softmax", 2, [0.3, 0.6, 0.9], [0.05, 0.1])
    assert diagram.status == "interrupted"
    assert np.all(np.isfinite(diagram.mmse[:2]))
    assert np.all(np.isnan(diagram.mmse[2]))


@pytest.mark.parametrize(
    ("width", "alpha", "message"),
    [
        ([0.0, 1.0], [0.1], "width"),
        ([], [0.1], "non-empty"),
        ([1.0], [-0.1], "alpha = -0.1"),
        ([np.nan], [0.1], "width"),
    ],
)
def test_bad_grids(width, alpha, message):
    with pytest.raises(InputError, match=message):
        phase_diagram("softmax", 2, width, alpha)


def test_unconverged_is_not_a_number(monkeypatch):
    """A tolerance that floats cannot meet leaves NaN and a status, not a number that looks fine."""
    monkeypatch.setattr(StateEvolution, "_tolerance", lambda _, asked: -asked)
    curve = StateEvolution(make_prior(0.5), HardmaxChannel(2)).curve([0.1, 0.2, 0.3])
    assert np.all(np.isnan(curve.mmse))
    assert set(curve.status) == {"not converged"}
    assert not curve.ok
