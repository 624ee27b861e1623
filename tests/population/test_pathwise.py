"""The population loss of composite losses by sampling, against exact potentials, finite d and other routes.

Statistical: eight replicates give a standard error of seven degrees of freedom; a bound of 7 of them has a false-alarm
rate of 2e-4 a number (and the seeds are fixed).
"""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.errors import InputError
from aimtheory.model import Context
from aimtheory.model.losses import MeanSquaredError
from aimtheory.model.value_loss import ValueLoss
from aimtheory.networks.network_loss import NetworkLoss
from aimtheory.population.gaussian_law import GaussianLaw, OrderParameters, order_parameters
from aimtheory.population.pathwise import PathwisePotential, _RowLaw
from aimtheory.population.population_loss import ContextPotential, PopulationLoss, population_loss

CORRELATED = ((1.0, 0.3), (0.3, 1.5))
BOUND = 7.0


def untied_order(k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = order_parameters(list(rng.normal(size=(k, 9, 9)) / 3 + 0.2))
    return 0.3 * found.mean, found.q1, found.q2


@pytest.mark.parametrize("covariance", [None, CORRELATED])
@pytest.mark.parametrize(
    "loss",
    [MeanSquaredError("tanh(x)"), MeanSquaredError("linear"), ValueLoss("softmax")],
    ids=["tanh", "linear", "values"],
)
def test_value_and_gradients_are_those_of_the_exact_potential(loss, covariance):
    """Cubature and closed forms share nothing with the sampled program but the loss."""
    mean, q1, q2 = untied_order(2)
    if isinstance(loss, ValueLoss):
        mean = 0 * mean
    traces = np.array([0.9, 0.2, 1.1]) if loss.traces else np.zeros(0)
    context = Context(2, covariance)
    exact = ContextPotential.of(loss, context, 1e-8)
    sampled = PathwisePotential(loss, context, log2_points=9, log2_gradient_points=9)
    truth, found = exact.value(mean, q1, q2, traces), sampled.value(mean, q1, q2, traces)
    assert abs(found.value - truth.value) < BOUND * found.error
    assert found.error < 0.02 * abs(truth.value)
    slopes, guess = exact.gradients(mean, q1, q2, traces), sampled.gradients(mean, q1, q2, traces)
    size = max(float(np.abs(slopes.q1).max()), float(np.abs(slopes.mean).max()))
    assert guess.error < 0.1 * size
    for name in ("mean", "q1", "q2", "traces"):
        assert np.abs(getattr(slopes, name) - getattr(guess, name)).max(initial=0.0) < BOUND * guess.error, name
    hessian = sampled.mean_hessian(mean, q1, q2, traces)
    assert np.abs(hessian - exact.mean_hessian(mean, q1, q2, traces)).max() < 0.2 * max(1.0, np.abs(hessian).max())


def test_gradients_of_a_network_are_differences_of_its_values():
    """Stein's identity against central differences, of means of many forms and along a line of overlaps."""
    net = aim.AttentionNetwork(attention="tanh(x)", readout="tokens")
    loss = NetworkLoss(net, net)
    k = loss.indices
    rng = np.random.default_rng(3)
    mean, q1, q2 = untied_order(k, 4)
    traces = rng.uniform(0.5, 1.0, len(loss.traces))
    potential = PathwisePotential(loss, Context(2, CORRELATED), log2_points=12, log2_gradient_points=12)
    found = potential.gradients(mean, q1, q2, traces)
    moves = rng.normal(size=k), 0.3 * np.cov(rng.normal(size=(k, 6))), 0.1 * np.cov(rng.normal(size=(k, 6)))
    push = rng.normal(size=len(traces))
    h = 0.05

    def at(x: float) -> float:
        return potential.value(mean + x * moves[0], q1 + x * moves[1], q2 + x * moves[2], traces + x * push).value

    slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    expected = found.mean @ moves[0] + np.vdot(found.q1, moves[1]) + np.vdot(found.q2, moves[2]) + found.traces @ push
    assert slope == pytest.approx(expected, abs=BOUND * found.error * 3)
    assert abs(expected) > 20 * found.error


def test_numbers_of_the_second_layer():
    """E||softmax(A_2)||² = 1.2919(3) at C_12 = .4 and uncorrelated forms, from direct draws of the Gaussian law of the
    five forms (and 1.2920(15) over tokens at d = 400)."""
    net = aim.AttentionNetwork()
    loss = NetworkLoss(net, net)
    covariance = np.array([[1.0, 0.4], [0.4, 1.0]])
    k = net.count
    potential = PathwisePotential(loss, Context(2, tuple(map(tuple, covariance.tolist()))), log2_points=11)
    # All forms of the teacher vanish: its map is uniform, ½ E sum (P - 1/2)² = ½ (E||P||² - 1).
    q = np.zeros((2 * k, 2 * k))
    q[:k, :k] = np.eye(k)
    found = potential.value(np.zeros(2 * k), q, np.zeros_like(q), np.zeros(0))
    assert 2 * found.value + 1 == pytest.approx(1.2919, abs=4 * 0.0003 + BOUND * 2 * found.error)
    assert found.error < 1e-3


def test_law_of_the_draws():
    """Forms of the sampler have the covariance C_ii' C_jj' q1 + C_ij' C_ji' q2 and the mean C_ij m."""
    mean, q1, q2 = untied_order(2, 7)
    potential = PathwisePotential(MeanSquaredError("linear"), Context(2, CORRELATED))
    exact = GaussianLaw.of(OrderParameters(mean, q1, q2), 2, CORRELATED)
    rows = _RowLaw.of(mean, q1, q2)
    unit = np.zeros((4, 2, 8), dtype=np.float32)
    for n in range(8):
        unit[n // 2, n % 2, n] = 1.0
    base = potential._forms(rows, np.zeros((4, 2, 1), dtype=np.float32)).reshape(1, -1)
    factor = potential._forms(rows, unit).reshape(8, -1) - base
    assert base.ravel() == pytest.approx(exact.mean.ravel(), abs=1e-6)
    assert factor.T @ factor == pytest.approx(exact.covariance.reshape(8, 8), abs=1e-5)


def test_singular_overlaps_and_the_tied_line():
    """At q1 = q2 = q of rank one: teacher = student has no loss, and derivatives vanish along the range."""
    net = aim.AttentionNetwork(parameterization="tied")
    loss = NetworkLoss(net, net)
    potential = PathwisePotential(loss, Context(2), log2_points=8, log2_gradient_points=8)
    q = np.kron(np.ones((2, 2)), np.eye(net.count))
    assert potential.tied_value(q, np.zeros(0)).value == pytest.approx(0.0, abs=1e-10)
    gradient, traces, error = potential.tied_gradients(q, np.zeros(0))
    assert np.abs(gradient @ q).max() < 1e-5
    assert traces.shape == (0,)
    assert error < 1e-5
    with pytest.raises(InputError, match="eigenvalue"):
        potential.tied_value(-q, np.zeros(0))


def test_models_of_networks_take_it():
    """The population loss of a compiled model is this one, at the same number of every call."""
    net = aim.AttentionNetwork(attention="tanh(x)", residual=False, values=False, parameterization="direct")
    model = aim.networks.teacher_student(net, tokens=2, attention_law=aim.Ginibre(variance=1))
    phi = population_loss(model)
    assert isinstance(phi, PopulationLoss)
    k = len(model.forms)
    first = phi.value(None, np.eye(k), 0 * np.eye(k))
    assert first == phi.value(None, np.eye(k), 0 * np.eye(k))
    assert first.method == "sobol"
    assert 0 < first.error < 1e-3 * first.value


@pytest.mark.slow
@pytest.mark.parametrize("readout", ["attention", "tokens"])
def test_two_layers_at_finite_dimension(readout):
    """The direct forward pass of two networks at d = 400 has the loss of the theory (bias d^{-1/2} at most; 4 s.e.)."""
    net = aim.AttentionNetwork(layers=2, heads=1, readout=readout, parameterization="direct")
    ginibre = aim.Ginibre(variance=1)
    model = aim.networks.teacher_student(net, tokens=2, attention_law=ginibre, value_law=ginibre)
    d, draws, rng = 400, 400, np.random.default_rng(11)
    matrices = {p.name: rng.normal(size=(d, d)) / np.sqrt(d) for p in model.parameters}
    losses = []
    for _ in range(draws):
        X = rng.normal(size=(2, d))
        gap = net.compile().forward(X, matrices) - net.compile(tag="t").forward(X, matrices)
        losses.append(0.5 * np.sum(gap**2) / (d if readout == "tokens" else 1))
    k = len(model.forms)
    phi = population_loss(model)
    traces = [1.0 if left == right else 0.0 for left, right in phi.contexts[0][1].loss.trace_pairs]
    found = phi.value(None, np.eye(k), np.zeros((k, k)), traces)
    error = np.std(losses) / np.sqrt(draws)
    assert abs(np.mean(losses) - found.value) < 4 * error + 0.02 * found.value
