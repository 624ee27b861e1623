"""Gradient descent: gradients against finite differences, Adam against its definition, averages against their algebra,
and the published experiment."""

import math

import numpy as np
import pytest

from aimtheory.bayes import LinearChannel, SoftmaxChannel, make_prior
from aimtheory.errors import InputError
from aimtheory.simulate import gradient_descent, teacher_data
from aimtheory.simulate.gradient_descent import Adam, loss_and_gradient_of_factor
from aimtheory.simulate.output_loss import output_loss

CHANNELS = [SoftmaxChannel(2, 1.3), SoftmaxChannel(3), SoftmaxChannel(4), LinearChannel(2, 0.1), LinearChannel(3)]


def direct_loss(channel, data, factor):
    """sum (y_hat - y)^2 written out sample by sample, with S = W W^T/sqrt(r d) as a matrix."""
    dim, rank = factor.shape
    matrix = factor @ factor.T / math.sqrt(rank * dim)
    total = 0.0
    for rows, block in data.tokens:
        for k, y in enumerate(data.outputs[rows]):
            x = block[:, k]
            forms = (x @ matrix @ x.T - np.trace(matrix) * np.eye(len(x))) / math.sqrt(dim)
            if isinstance(channel, SoftmaxChannel):
                weights = np.exp(channel.inverse_temperature * forms)
                total += ((weights / weights.sum(axis=1, keepdims=True) - y) ** 2).sum()
            else:
                total += ((forms[np.triu_indices(len(x))] - y) ** 2).sum()
    return total


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: f"{channel.name}-{channel.tokens}")
def test_gradient_is_that_of_the_loss_written_out(channel):
    dim, rank = 10, 5
    data = teacher_data(channel, [make_prior(0.5)], alpha=0.2, dim=dim, seed=np.random.SeedSequence(0))
    loss = output_loss(channel, data.outputs, np.dtype(float))
    rng = np.random.default_rng(1)
    factor, direction = rng.standard_normal((2, dim, rank))
    scale = 1 / math.sqrt(rank * dim)
    value, gradient = loss_and_gradient_of_factor(factor, data.tokens, loss, scale)
    assert value == pytest.approx(direct_loss(channel, data, factor), rel=1e-12)
    step = 1e-5
    for towards in (direction, np.eye(dim, rank)):
        up, down = (direct_loss(channel, data, factor + sign * step * towards) for sign in (1, -1))
        assert np.vdot(gradient, towards) == pytest.approx((up - down) / (2 * step), rel=1e-6, abs=1e-8)


def test_loss_and_gradient_vanish_at_the_teacher():
    """The student at the teacher's factor fits noiseless data: minimum 0."""
    channel = SoftmaxChannel(3)
    dim, rank = 12, 6
    prior = make_prior(0.5)
    data = teacher_data(channel, [prior], alpha=0.3, dim=dim, seed=np.random.SeedSequence(0))
    eigenvalues, vectors = np.linalg.eigh(data.teachers[0])
    scale = 1 / math.sqrt(rank * dim)
    factor = vectors[:, -rank:] * np.sqrt(eigenvalues[-rank:] / scale)
    loss = output_loss(channel, data.outputs, np.dtype(float))
    value, gradient = loss_and_gradient_of_factor(factor, data.tokens, loss, scale)
    assert value < 1e-20
    assert np.abs(gradient).max() < 1e-10


def test_adam_follows_its_definition():
    """Kingma and Ba (2015), algorithm 1, in plain scalars."""
    parameter = np.array([1.0, -2.0])
    adam = Adam(parameter.copy(), 0.1)
    first, second, expected = np.zeros(2), np.zeros(2), parameter.copy()
    for t in range(1, 6):
        gradient = expected**3 - 1
        adam.step(adam.parameter**3 - 1)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        expected = expected - 0.1 * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(adam.parameter, expected, rtol=1e-12)


def test_averages_are_those_of_the_students():
    options = {"width": 0.5, "alpha": 0.2, "dim": 24, "steps": 40, "seeds": [0, 5], "predict": False}
    run = gradient_descent("softmax", initializations=4, checkpoints=[0, 20], **options)
    assert run.steps.tolist() == [0, 20, 40]
    assert run.single.shape == (2, 4, 3)
    for row in range(2):
        error = ((run.averages[row] - run.teachers[row]) ** 2).sum() / 24
        assert run.averaged[row, -1] == pytest.approx(error)
    np.testing.assert_allclose(run.averaged_over(4), run.averaged, rtol=1e-10)
    np.testing.assert_allclose(run.averaged_over(1), run.single.mean(axis=1), rtol=1e-10)
    # Students of the prior's law, independent of the teacher: ||S - S'||^2/d = 2 (tr S^2 - (tr S)^2) = 2 at step 0.
    assert run.single[:, :, 0].mean() == pytest.approx(2, abs=0.5)
    assert np.all(run.losses[:, :, 2] < 0.2 * run.losses[:, :, 0])
    pair = gradient_descent("softmax", initializations=2, **options)
    np.testing.assert_array_equal(pair.single[:, :, -1], run.single[:, :2, -1])


def test_the_teacher_is_found_with_enough_data():
    """alpha = 0.5 is far above the softmax threshold 3/16 at rho = 1/2."""
    run = gradient_descent("softmax", width=0.5, alpha=0.5, dim=24, initializations=1, steps=800, dtype="float64")
    assert run.theory == 0
    assert run.mse < 1e-6
    assert math.isnan(run.standard_error())


def test_linear_channel_with_noise():
    """Least squares at n P >> d^2/2: the error is that of a low-rank fit, well below the noise and the prior."""
    run = gradient_descent(
        "linear", noise=0.1, width=0.5, alpha=2, dim=20, initializations=2, steps=400, learning_rate=0.05
    )
    assert run.mse < 3 * run.theory


def test_interruption_keeps_finished_initializations():
    calls = []

    def interrupt(done, total):
        calls.append((done, total))
        if len(calls) == 5:
            raise KeyboardInterrupt

    run = gradient_descent(
        "softmax", width=0.5, alpha=0.2, dim=16, initializations=3, steps=20, seeds=[0, 1], progress=interrupt
    )
    assert run.status.code == "interrupted"
    assert run.done.tolist() == [2, 0]
    assert np.isfinite(run.averaged[0, -1])
    assert len(run.averages) == 1
    with pytest.raises(InputError, match="at least 2 finished"):
        run.averaged_over(32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channel": "hardmax"}, "differentiable"),
        ({"channel": "sign"}, "differentiable"),
        ({"width": 0}, "width > 0"),
        ({"width": -0.5}, "width = -0.5"),
        ({"width": "inf"}, "width = 'inf'"),
        ({"alpha": -1}, "alpha = -1"),
        ({"steps": 0}, "steps = 0"),
        ({"initializations": 0}, "initializations = 0"),
        ({"learning_rate": -1}, "learning_rate"),
        ({"checkpoints": [5, 3]}, "checkpoints"),
        ({"checkpoints": [11]}, "checkpoints"),
        ({"dtype": "int"}, "dtype"),
    ],
)
def test_bad_input_is_named(changes, message):
    options = {"channel": "softmax", "width": 0.5, "alpha": 0.2, "dim": 16, "steps": 10, **changes}
    with pytest.raises(InputError, match=message):
        gradient_descent(**options)


PUBLISHED = {
    0.050534994138583214: (0.7810075, 0.0148260),
    0.08622851962556746: (0.5435142, 0.0170838),
    0.12312797505674725: (0.3097998, 0.0104698),
    0.1471328477139372: (0.1915915, 0.0042870),
}
"""alpha: (mse, standard deviation over 16 samples) of gradient descent averaged over 32 initializations at d = 200,
T = 2, rho = 1/2: public data of arXiv:2506.01582 (repository BO_ExtensiveRankAttention, GD_averaged)."""


@pytest.mark.slow
@pytest.mark.parametrize("alpha", PUBLISHED)
def test_averaged_gradient_descent_follows_the_published_experiment(alpha):
    """One teacher and 4 initializations, from which the error of the average over 32 follows without bias.

    Allowed: 3 published standard deviations of one sample, since ours is one sample as well.
    """
    run = gradient_descent("softmax", width=0.5, alpha=alpha, dim=200, initializations=4, predict=False)
    mean, deviation = PUBLISHED[alpha]
    assert abs(float(run.averaged_over(32)[0, -1]) - mean) < 3 * deviation
    assert run.mse > 1.3 * mean
