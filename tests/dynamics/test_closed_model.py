"""Closed models: a right-hand side that is a function of state and branch, readings, mappings, the fast flow."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import aimtheory as aim
from aimtheory.dynamics.integrate import Tolerances, integrate
from aimtheory.hierarchy.observables import Observable
from aimtheory.model import direct, tied, untied
from aimtheory.model.losses import MeanSquaredError
from aimtheory.status import Ending, Status

SHIFTED = aim.AttentionModel.teacher_student(
    tokens=1,
    activation="hermite2",
    parameterization="untied",
    student=aim.GaussianFactors(width=1, left=1, right="1/2"),
    teacher=aim.Ginibre(variance=1, mean=1),
)
"""Untied h_2 with two attracting means +-m*."""

CLOSED = {
    "shifted gns": aim.close(SHIFTED, degree=5),
    "shifted zero": aim.close(SHIFTED, degree=3, closure="zero"),
    "tied matrix": aim.close(aim.models.load("tied-hermite2"), degree=2, closure="matrix", dim=6),
}
PATHS = {
    name: integrate(closed, np.linspace(0, 0.05, 4), Tolerances(1e-6, 1e-8), dense=False)
    for name, closed in CLOSED.items()
}
DRIFTS = {
    name: [CLOSED[name].evaluate(state, path.branch_at(t))[0] for t, state in zip(path.times, path.states, strict=True)]
    for name, path in PATHS.items()
}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(sorted(CLOSED)), order=st.lists(st.integers(0, 3), min_size=1, max_size=8), data=st.data())
def test_the_drift_does_not_depend_on_what_was_evaluated_before(name, order, data):
    """Any order of calls, with readings and other states in between, gives the same bits; also for a state that is
    overwritten in place.
    """
    closed, path = CLOSED[name], PATHS[name]
    buffer = np.empty_like(path.states[0])
    for n in order:
        branch = path.branch_at(float(path.times[n]))
        if data.draw(st.booleans()):
            buffer[:] = path.states[n] * (1 + 1e-3 * n)
            closed.rhs(0.0, buffer, branch)
            closed.read("loss", buffer, branch)
        buffer[:] = path.states[n]
        assert np.array_equal(closed.evaluate(buffer, branch)[0], DRIFTS[name][n])


def test_a_state_doubled_in_place_has_its_own_moments():
    closed = CLOSED["tied matrix"]
    state = closed.initial
    before = float(closed.read("t_1", state))
    state *= 2
    # The state is W, and t_1 = tr W W^T.
    assert float(closed.read("t_1", state)) == pytest.approx(4 * before, rel=1e-14)
    assert closed.initial is not closed.initial
    assert float(closed.read("t_1", closed.initial)) == before


def test_the_branch_says_which_mean():
    """The same state has the couplings of m* or of -m*, as the branch says; the mirror image is exact."""
    closed = CLOSED["shifted gns"]
    up = closed.initial_branch
    down = aim.close(SHIFTED, degree=5, initial_mean=[-0.5, 1]).initial_branch
    assert down.mean[0] == pytest.approx(-up.mean[0], rel=1e-12)
    first, second = (closed.evaluate(closed.initial, branch)[1].couplings for branch in (up, down))
    assert np.abs(first - second).max() > 0.1
    assert np.array_equal(closed.rhs(0, closed.initial), closed.rhs(5, closed.initial, up))


@pytest.mark.parametrize(
    ("name", "closure", "degree"),
    [
        *[(name, "zero", 2) for name in ("tied-softmax", "untied-linear", "direct-hermite2", "direct-linear")],
        *[(name, "gns", 5) for name in ("tied-hermite2", "untied-hermite2", "exact-linear")],
        ("tied-softmax", "exact", 3),
        ("untied-linear", "matrix", 2),
    ],
)
def test_the_right_hand_side_is_that_of_solve(name, closure, degree):
    """At every stored state, on its branch and on the default one, to 1e-12; and it is the slope of the trajectory."""
    options = {"dim": 8} if closure == "matrix" else {}
    model = aim.models.load(name)
    run = aim.solve(model, degree=degree, closure=closure, times=[0, 0.01, 0.02], check=False, **options)
    closed = aim.close(model, degree=degree, closure=closure, **options)
    assert np.array_equal(closed.initial, run.states[0])
    step = 1e-4
    for time, state in zip(run.times, run.states, strict=True):
        branch = None if run.branches is None else run.branches.at(time)
        here = run.closed.evaluate(state, branch)[0]
        assert np.abs(closed.rhs(time, state) - here).max() <= 1e-12 * max(1, np.abs(here).max())
        if 0 < time < run.times[-1]:
            left, right = run.dense([time - step, time + step])
            assert np.allclose((right - left) / (2 * step), here, rtol=1e-3, atol=1e-3 * max(1, np.abs(here).max()))
    assert closed.read("loss", run.states) == pytest.approx(run["loss"], rel=1e-12, abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", aim.models.names())
@pytest.mark.parametrize("closure", ["zero", "gns", "matrix", "exact"])
def test_the_right_hand_side_of_every_built_in_model(name, closure):
    model = aim.models.load(name)
    options = {"dim": 8} if closure == "matrix" else {}
    try:
        closed = aim.close(model, degree=3, closure=closure, **options)
        closed.rhs(0, closed.initial)
    except aim.InputError:
        pytest.skip("this closure does not take the model")
    run = aim.solve(model, degree=3, closure=closure, times=[0, 0.01, 0.02], check=False, **options)
    for time, state in zip(run.times, run.states, strict=True):
        here = run.closed.evaluate(state, None if run.branches is None else run.branches.at(time))[0]
        assert np.abs(closed.rhs(time, state) - here).max() <= 1e-12 * max(1, np.abs(here).max())


def test_another_integrator_gives_the_trajectory():
    run = aim.solve(SHIFTED, degree=3, closure="zero", times=[0, 0.02], observables=["p_12", "m_1"], check=False)
    closed = CLOSED["shifted zero"]
    path = solve_ivp(closed.rhs, (0, 0.02), closed.initial, method="LSODA", rtol=1e-10, atol=1e-12)
    for name in ("p_12", "m_1"):
        assert float(closed.read(name, path.y[:, -1])) == pytest.approx(run[name][-1], abs=1e-8)


def test_bad_states():
    closed = CLOSED["shifted zero"]
    with pytest.raises(aim.InputError, match="states of this closed model have shape"):
        closed.rhs(0, [1.0])
    with pytest.raises(aim.NumericsError, match="not finite"):
        closed.rhs(0, closed.initial * np.nan)
    with pytest.raises(aim.InputError, match="unknown observable"):
        closed.read("x", closed.initial)
    with pytest.raises(aim.InputError, match="already has its own"):
        aim.close(SHIFTED, degree=3, closure=closed.closure, dim=3)


def test_a_trajectory_is_a_mapping():
    run = aim.solve(aim.models.load("exact-linear"), degree=3, times=[0, 0.01], check=False)
    assert "p_12" in run
    assert "x" not in run
    assert list(run) == list(run.keys()) == list(run.values)
    assert len(run) == len(dict(run)) == len(run.items())
    assert all(np.array_equal(array, dict(run)[name]) for name, array in run.items())
    assert [len(array) for array in run.values()] == [2] * len(run)
    assert run.get("x") is None
    assert np.array_equal(run["q_1,2"], run["q_12"])
    assert np.array_equal(run[" q_12 "], run["q_12"])


def test_equations_by_name():
    h = aim.derive(aim.models.load("exact-linear"), 3)
    assert h.equations["tr(S1 S2)"] == h.equations[h.words[3]] == h.equations["tr(S2 S1)"]
    assert "tr(S1 S2)" in h.equations
    assert "tr(S1 S1 S1 S1)" not in h.equations
    assert "S1 S2 S3" not in h.equations
    with pytest.raises(aim.InputError, match="raise the degree"):
        h.equations["tr(S1 S1 S1 S1)"]


def test_an_observable_of_your_own():
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Square(Observable):
        base: Observable

        @property
        def words(self):
            return self.base.words

        def evaluate(self, reading):
            return self.base.evaluate(reading) ** 2

    model = aim.models.load("exact-linear")
    closed = aim.close(model, degree=3)
    from aimtheory.hierarchy.observables import observable

    square = Square("square", observable("q_12", model, closed.views))
    run = aim.solve(model, degree=5, times=[0, 0.05], observables=["q_12", square])
    assert np.allclose(run["square"], run["q_12"] ** 2, rtol=1e-14)
    assert np.isfinite(run.errors["square"]).all()


def two_heads(laws, teacher, activation="linear"):
    """Untied heads whose outputs add up, and a teacher that does not move."""
    count = len(laws)
    return aim.AttentionModel.of(
        *(untied(n, law) for n, law in enumerate(laws, start=1)),
        direct(count + 1, teacher, trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError(activation, students=tuple(range(count)), teachers=(count,)),
        centred=False,
    )


@pytest.mark.parametrize("right", [("1/2", "1/2"), ("1/2", "1/3")])
def test_two_linear_heads_are_one_of_both_widths(right):
    """S_1 + S_2 = [U_1 U_2] [V_1 V_2]^T moves as one head, also where the laws differ and tr(S_1 - S_2) drifts.

    Phi depends on m_1 + m_2 alone: a flat direction, along which nothing holds the means.
    """
    rng = np.random.default_rng(0)
    dim, times = 12, [0, 0.1, 0.3]
    factors = [rng.standard_normal((dim, dim)) * np.sqrt(float(sp) / dim) for sp in (1.0, 1.0, 0.5, 0.3)]
    teacher = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    u1, u2, v1, v2 = factors
    laws = [aim.GaussianFactors(1, 1, value) for value in right]
    two = two_heads(laws, aim.Ginibre(1))
    one = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="linear",
        parameterization="untied",
        student=aim.GaussianFactors(2, 1, right[0]),
        teacher=aim.Ginibre(1),
    )
    options = {"degree": 2, "closure": "matrix", "times": times, "check": False}
    run = aim.solve(
        two,
        initial={"U1": u1, "V1": v1, "U2": u2, "V2": v2, "S3": teacher},
        initial_mean=[0.1, 0.2, 0.3],
        observables=["q1_13", "q1_23", "q1_11", "q1_12", "q1_22", "m_1", "m_2", "loss"],
        **options,
    )
    whole = aim.solve(
        one,
        initial={"U1": np.hstack([u1, u2]), "V1": np.hstack([v1, v2]), "M2": teacher},
        initial_mean=[0.3, 0.3],
        observables=["q1_12", "q1_11", "m_1", "loss"],
        **options,
    )
    assert run.status.code == "unchecked"
    assert run["q1_13"] + run["q1_23"] == pytest.approx(whole["q1_12"], abs=1e-8)
    assert run["q1_11"] + 2 * run["q1_12"] + run["q1_22"] == pytest.approx(whole["q1_11"], abs=1e-8)
    assert run["loss"] == pytest.approx(whole["loss"], abs=1e-8)
    assert run["m_1"] + run["m_2"] == pytest.approx(whole["m_1"], abs=1e-10)
    # Along the flat direction the fast flow keeps what it starts with: equal speeds move both means alike.
    assert np.ptp(run["m_1"] - run["m_2"]) < 1e-10


def test_two_equal_heads_in_the_limit():
    """gns of two heads of width 1 against one of width 2: the same at every degree, by the same moments."""
    law, teacher = aim.GaussianFactors(1, 1, "1/2"), aim.Ginibre(1)
    options = {"degree": 5, "times": [0, 0.1, 0.2], "check": False}
    run = aim.solve(two_heads([law, law], teacher), observables=["q1_13", "q1_23"], **options)
    one = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="linear",
        parameterization="untied",
        student=aim.GaussianFactors(2, 1, "1/2"),
        teacher=teacher,
    )
    whole = aim.solve(one, observables=["q1_12"], **options)
    assert run["q1_13"] == pytest.approx(run["q1_23"], abs=1e-10)
    assert run["q1_13"] + run["q1_23"] == pytest.approx(whole["q1_12"], abs=1e-7)


def test_the_fast_flow_of_a_linear_loss():
    """dPhi/dm_1 = m_1 - m_2: an exponential at the rate t^A + t^B = 3/2."""
    times = np.array([0.5, 1.0, 4.0])
    flow = aim.fast_flow(aim.models.load("untied-linear"), times=times, initial_mean=[1, 0.4])
    rate = flow.speeds[0]
    assert flow["m_1"] == pytest.approx(0.4 + 0.6 * np.exp(-rate * times), abs=1e-8)
    assert (flow["m_2"] == 0.4).all()
    doubled = aim.fast_flow(aim.models.load("untied-linear"), times=times, initial_mean=[1, 0.4], speeds=[2 * rate, 0])
    assert doubled["m_1"] == pytest.approx(0.4 + 0.6 * np.exp(-2 * rate * times), abs=1e-8)


def test_the_fast_flow_ends_where_the_slow_one_begins():
    flow = aim.fast_flow(SHIFTED, times=[0, 60], initial_mean=[0.1, 1])
    closed = aim.close(SHIFTED, degree=3, initial_mean=[0.1, 1])
    assert flow.means[-1] == pytest.approx(closed.initial_branch.mean, abs=1e-8)
    assert flow.q1 == pytest.approx(closed.initial_branch.q1, abs=1e-12)
    # With the overlaps in place of the laws' the flow is the same.
    given_ = aim.fast_flow(SHIFTED, times=[0, 1, 60], initial_mean=[0.1, 1], q1=flow.q1, q2=flow.q2)
    assert given_["m_1"][[0, 2]] == pytest.approx(flow["m_1"], abs=1e-8)
    assert all(a < b for a, b in pairwise(given_["m_1"]))


def test_bad_fast_flows():
    with pytest.raises(aim.InputError, match="centred"):
        aim.fast_flow(aim.models.load("tied-softmax"), times=[0, 1])
    with pytest.raises(aim.InputError, match=r"q1 has shape \(1, 1\)"):
        aim.fast_flow(SHIFTED, times=[0, 1], q1=[[1]])
    with pytest.raises(aim.InputError, match="is no mean"):
        aim.fast_flow(SHIFTED, times=[0, 1])["p_12"]


def test_statuses():
    assert {member.value for member in Ending} >= {"complete", "untrusted", "converged", "diverged"}
    assert all(member.advice for member in Ending)
    assert Status("untrusted").code is Ending.UNTRUSTED
    assert not Status("untrusted").ok
    assert "because" in Status("diverged", ("because",)).advice
    with pytest.raises(ValueError, match="nonsense"):
        Status("nonsense")
    assert Status.worst(["converged", "diverged"], Ending.CONVERGED).code is Ending.DIVERGED


def test_closed_models_compare_and_copy():
    """By what they were closed with: caches do not travel, and the copy has the same right-hand side."""
    for name, closed in CLOSED.items():
        expected = closed.rhs(0.0, closed.initial)
        for other in (copy.deepcopy(closed), pickle.loads(pickle.dumps(closed))):
            assert other == closed, name
            assert np.array_equal(other.rhs(0.0, other.initial), expected)
    assert CLOSED["shifted gns"] != CLOSED["shifted zero"]
    assert CLOSED["shifted gns"] != aim.close(SHIFTED, degree=5, initial_mean=[0.5, 1])


def test_a_potential_that_falls_without_end_is_named():
    """Phi = E G^3 = m^3 + 3 m q: dm/ds = -speed (3 m^2 + 3 q) runs to minus infinity in finite time."""
    model = aim.AttentionModel.of(
        untied(1, aim.GaussianFactors(width=1, left=1, right=1)),
        direct(2, aim.Ginibre(variance=1), trained=False),
        contexts=((1, 1),),
        loss=aim.ExpressionLoss("G[0, 0, 0]**3 - G[0, 0, 1]", tokens=1, indices=2),
        centred=False,
    )
    with pytest.raises(aim.NumericsError, match=r"the fast flow of the means from m = \[0\.0\] at q1 = .*"):
        aim.solve(model, degree=3, times=[0, 0.1])


@pytest.mark.slow
def test_two_odd_heads_have_finite_means():
    """Two untied heads of Hermite 3 and a teacher with a mean: never a mean that is no number."""
    law = aim.GaussianFactors(width=1, left=1, right=1)
    model = two_heads([law, law], aim.Ginibre(1, mean=1), "hermite3")
    run = aim.solve(model, degree=3, times=[0, 0.05], check=False, observables=["m_1", "m_2", "loss"])
    assert run.status.code == "unchecked"
    assert all(np.isfinite(values).all() for values in run.values.values())


def test_indices_of_two_digits():
    """Ten equal teachers and a student: q_1,10 is tr(S1 S10) = 1 and q_11,11 twice it, for traces and widths of 1."""
    heads = [tied(k, aim.Wishart(1, 1), trained=k == 1) for k in range(1, 12)]
    outputs = " + ".join(f"G[0, 0, {k}]" for k in range(1, 11))
    loss = aim.ExpressionLoss(f"(G[0, 0, 0] - ({outputs}) / 10)**2", tokens=1, indices=11)
    model = aim.AttentionModel.of(*heads, contexts=((1, 1),), loss=loss)
    run = aim.solve(model, degree=2, closure="zero", times=[0, 0.01], check=False, observables=["q_1,10", "q_11,11"])
    assert run["q_1,10"][0] == run["tr(S1 S10)"][0] == run["q_110"][0] == pytest.approx(1)
    assert run["q_11,11"][0] == pytest.approx(2)
    with pytest.raises(aim.InputError, match="'q_1,12' does not fit a model with 11 indices"):
        run["q_1,12"]
