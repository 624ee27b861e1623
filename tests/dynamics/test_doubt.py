"""What must not be handed over silently: unresolved losses, impossible laws, sizes that do not fit."""

from dataclasses import replace

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, MeanSquaredError
from aimtheory.population import potential, sampled_potential
from aimtheory.spectra import JointMoments, MatrixFamily


def softmax(**options):
    common = {"tokens": 2, "activation": "softmax", "parameterization": "tied"}
    laws = {"student": aim.Wishart(1), "teacher": aim.Wishart(1)}
    return aim.AttentionModel.teacher_student(**{**common, **laws, **options})


def with_loss(formula):
    return replace(aim.models.load("tied-linear"), loss=ExpressionLoss(formula, 1, 2))


@pytest.mark.parametrize("loss", [MeanSquaredError("hermite2"), MeanSquaredError("softmax"), CrossEntropy()])
@pytest.mark.parametrize("tokens", [1, 2])
def test_likelihood_ratio_agrees_with_price(loss, tokens):
    """Two routes to the gradients that share nothing; five standard errors (false alarm 6e-7 an entry), with a mean
    and C != 1.
    """
    covariance = np.eye(tokens) + 0.3 * (np.ones((tokens, tokens)) - np.eye(tokens))
    q1 = np.array([[2.0, 0.7], [0.7, 1.5]])
    q2, mean = 0.3 * q1, np.array([0.2, -0.1])
    sampled = sampled_potential(loss, covariance, mean, q1, q2)
    phi = potential(loss, tokens, covariance)
    gradients = phi.gradients(mean, q1, q2)
    assert abs(sampled.value - phi.value(mean, q1, q2).value) <= 5 * sampled.value_error
    assert (np.abs(sampled.plus - (gradients.q1 + gradients.q2) / 2) <= 5 * sampled.plus_error).all()
    if tokens > 1:
        assert (np.abs(sampled.minus - (gradients.q1 - gradients.q2) / 2) <= 5 * sampled.minus_error).all()


@pytest.mark.parametrize(
    "model",
    [
        softmax(inverse_temperature=30, token_covariance=[[1, 0.2], [0.2, 1.5]]),
        softmax(inverse_temperature=300, token_covariance=[[1, 0.2], [0.2, 1.5]]),
        with_loss("exp(-100*(G[0,0,0] - G[0,0,1])**2)"),
        with_loss("tanh(30*(G[0,0,0] - G[0,0,1]))**2"),
    ],
)
def test_a_loss_too_steep_for_the_cubature_is_not_trusted(model):
    run = aim.solve(model, degree=7, times=[0, 0.05])
    assert run.status.code == "untrusted"
    assert run.trusted_until == 0
    assert "do not use this trajectory" in run.status.advice


def test_a_smooth_loss_is_trusted():
    for model in (softmax(), softmax(inverse_temperature=300), with_loss("tanh(G[0,0,0] - G[0,0,1])**2")):
        assert aim.solve(model, degree=7, times=[0, 0.05]).status.code == "complete"


def test_laws_that_no_factor_has():
    for law in (aim.Atomic([-1, 1]), aim.GOE(1)):
        with pytest.raises(aim.InputError, match="does not fit tied attention"):
            softmax(student=law)
    g = np.random.default_rng(0).standard_normal((40, 40))
    family = {"S1": -g @ g.T / 40, "S2": g @ g.T / 40}
    for closure in ("gns", "zero", "matrix"):
        with pytest.raises(aim.AssumptionError, match="positive semidefinite"):
            aim.solve(softmax(), degree=5, closure=closure, times=[0, 0.1], initial=MatrixFamily(family))


def test_moments_that_no_positive_matrix_has():
    """tr S_1 = 1, tr S_1^2 = 2, tr S_1^3 = 3: the Gram matrix is positive, but that weighted by S_1 is not (3 x 1 <
    2^2).
    """
    words = {("S1",): 1, ("S2",): 1, ("S1", "S1"): 2, ("S2", "S2"): 2, ("S1", "S2"): 1}
    words |= {("S1",) * 3: 3, ("S1", "S1", "S2"): 2, ("S1", "S2", "S2"): 2, ("S2",) * 3: 5}
    with pytest.raises(aim.AssumptionError, match="positive semidefinite"):
        aim.solve(softmax(), degree=3, times=[0, 0.1], initial=JointMoments(words))


@pytest.mark.parametrize("degree", [33, 60, 10**9])
def test_degrees_that_do_not_fit(degree):
    with pytest.raises(aim.InputError, match="lower the degree"):
        aim.solve(softmax(), degree=degree, closure="gns", times=[0, 0.1])


def test_least_degrees_of_gns():
    untied = aim.models.load("untied-linear")
    with pytest.raises(aim.InputError, match="least degree is 3"):
        aim.solve(untied, degree=2, times=[0, 0.1])
    run = aim.solve(untied, degree=4, times=[0, 0.1])
    assert run.status.code == "unchecked"
    with pytest.raises(aim.InputError, match="above 20000"):
        aim.solve(softmax(), degree=2, closure="matrix", dim=10**6, times=[0, 0.1])


def test_names_in_place_of_objects():
    with pytest.raises(aim.InputError, match=r"aim\.models\.load\('tied-softmax'\)"):
        aim.solve("tied-softmax", degree=5, times=[0, 1])
    with pytest.raises(aim.InputError, match="not an AttentionModel"):
        aim.derive(None, 3)
    with pytest.raises(aim.InputError, match=r"aim\.Event"):
        aim.solve(softmax(), degree=5, times=[0, 1], events=[("p_12", 0.1)])
    with pytest.raises(aim.InputError, match="observable 7"):
        aim.solve(softmax(), degree=5, times=[0, 1], observables=[7])
    with pytest.raises(aim.InputError, match="level"):
        aim.Event("p_12", "x")


def test_a_branch_of_means_that_ends_keeps_the_way_there():
    """Strong decay of an untied h_2 student: m* stops being attracting; the trajectory up to there is given."""
    model = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="hermite2",
        parameterization="untied",
        student=aim.GaussianFactors(1, 1, "1/2"),
        teacher=aim.Ginibre(1, mean=1),
        weight_decay=20,
    )
    run = aim.solve(model, degree=5, times=[0, 0.01, 0.05])
    assert len(run.times) >= 1
    assert all(np.isfinite(values).all() for values in run.values.values())


def test_nothing_compared_means_nothing_trusted() -> None:
    model = aim.models.load("tied-softmax")
    run = aim.solve(model, degree=5, times=[0, 0.5], closure="gns", check=False)
    assert run.status.code == "unchecked"
    assert np.isnan(run.trusted_until)
    # Nothing is truncated here, so that nothing needs a comparison.
    exact = aim.solve(aim.models.load("direct-linear"), degree=3, closure="zero", times=[0, 0.5], check=False)
    assert exact.trusted_until == 0.5


def test_trust_is_relative_to_small_values() -> None:
    """A loss far below 1 is not excused by its size; truth by the closure without truncation."""
    law = aim.Wishart(width=1, trace="1/5")
    model = softmax(student=law, teacher=law)
    times = [0, 2, 8]
    run = aim.solve(model, degree=5, times=times, closure="gns")
    truth = aim.solve(model, degree=5, times=times, closure="exact", observables=["loss"])
    wrong = abs(run["loss"][-1] / truth["loss"][-1] - 1)
    assert wrong > 0.05
    assert run.status.code == "untrusted"
    assert run.trusted_until < 8
    assert any("trusted_until is that of" in note for note in run.status.notes)
