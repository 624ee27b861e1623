"""Trust: errors estimated from three degrees, tolerances by value, the observable that ends it, times in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aimtheory as aim
from aimtheory.dynamics.trust import finer_times, judge, magnitude, remaining_error


def tied(student, teacher, **options):
    common = {"tokens": 1, "activation": "linear", "parameterization": "tied"}
    return aim.AttentionModel.teacher_student(student=student, teacher=teacher, **{**common, **options})


@given(ratio=st.floats(0.5, 0.95), scale=st.floats(0.01, 10), limit=st.floats(-3, 3))
def test_a_geometric_sequence_is_extrapolated(ratio, scale, limit):
    """v_k = limit + scale ratio^k, by hand: the last of three is off by scale ratio^2; a margin of 3/2 on top."""
    values = [np.array([limit + scale * ratio**k]) for k in (2, 1, 0)]
    assert remaining_error(*values)[0] == pytest.approx(1.5 * scale * ratio**2, rel=1e-6)


@given(power=st.floats(2, 6), first=st.integers(40, 90))
def test_convergence_like_the_inverse_square_is_covered(power, first):
    """v_k = k^-power: d1 r/(1 - r) tends to power/(power + 1) of it from below, which the margin makes up for."""
    values = [np.array([float(k) ** -power]) for k in (first + 2, first + 1, first)]
    estimate = remaining_error(*values)[0]
    assert estimate >= (1 - 2 / first) * values[0][0]


def test_fast_convergence_is_not_believed_below_the_difference():
    estimate = remaining_error(np.array([1.0]), np.array([1.1]), np.array([11.0]))
    assert estimate == pytest.approx([0.15])
    assert remaining_error(np.array([1.0]), np.array([1.1])) == pytest.approx([0.1])


def test_what_does_not_contract_has_no_bound():
    assert remaining_error(np.array([1.0]), np.array([1.1]), np.array([1.2])).tolist() == [np.inf]
    # Nor what was too small to be seen and grows.
    assert remaining_error(np.array([1.0]), np.array([1.1]), np.array([1.1]), noise=1e-9).tolist() == [np.inf]
    # Differences of the size of the integrator's errors have no meaning.
    same = remaining_error(np.array([1.0]), np.array([1 + 1e-12]), np.array([1 + 1e-13]), noise=1e-9)
    assert same == pytest.approx([1.5e-12], rel=1e-3)


def test_early_errors_are_remembered():
    """Running maxima: a difference that has passed through zero, as curves that cross do, has not gone."""
    times = np.linspace(0, 1, 5)
    coarser = np.array([0.0, 0.1, 0.0, -0.1, 0.0])
    estimate = remaining_error(np.zeros(5), coarser, 3 * coarser)
    assert estimate == pytest.approx([0, 0.15, 0.15, 0.15, 0.15])
    found = judge(times, {"x": np.ones(5)}, {"x": estimate}, tolerance=0.05, least=1e-9)
    assert (found.until, found.first, found.ratio) == (0.0, "x", pytest.approx(3))


def test_runs_that_end_early():
    """Past the end of M-2 nothing is known; past that of M-4 its differences count with their largest so far."""
    ends = np.array([0.0, 0.2, np.nan])
    assert np.isnan(remaining_error(np.zeros(3), ends)[2])
    assert np.isnan(remaining_error(np.zeros(3), ends, ends)[2])
    estimate = remaining_error(np.zeros(3), np.array([0, 0.1, 0.15]), np.array([0, 0.3, np.nan]))
    assert estimate == pytest.approx([0, 0.15, 1.5 * 0.15 * 3])  # r = .15/.2


def test_judgement_names_the_first_and_the_worst_there():
    times = np.array([0.0, 1.0, 2.0])
    values = {"a": np.ones(3), "b": np.array([10.0, 1.0, 1.0]), "c": np.ones(3)}
    errors = {"a": np.array([0, 0, 0.03]), "b": np.array([0, 0.009, 0.1]), "c": np.zeros(3)}
    found = judge(times, values, errors, tolerance=0.01, least=1e-9)
    assert (found.until, found.first, found.ratio) == (1.0, "b", pytest.approx(10))
    assert judge(times, values, {"c": errors["c"]}, tolerance=0.01, least=1e-9).first is None
    unknown = {"a": np.array([0, np.nan, 0])}
    assert judge(times, values, unknown, tolerance=0.01, least=1e-9).until == 0
    assert magnitude(np.array([100.0, 1.0, np.nan]), 1e-6)[:2].tolist() == [100, 2]


def test_finer_times_follow_the_steps():
    steps = np.concatenate([[0], np.geomspace(1e-4, 1e4, 30)])
    fine = finer_times(np.array([1e-3, 10.0]), steps, 64)
    assert {1e-3, 10.0, 0.0} <= set(fine.tolist())
    assert fine.max() == 10
    assert (fine < 1e-2).sum() > 15
    assert 60 < len(fine) < 70


def test_small_widths_are_not_called_complete():
    """Where M and M-2 agree better than either is right: widths .1, loss off by a factor of two at t = 2."""
    model = tied(aim.Wishart(width=0.1, trace=0.1), aim.Wishart(width=0.1, trace=0.2))
    times = [1, 2, 3]
    run = aim.solve(model, degree=11, closure="gns", times=times)
    truth = aim.solve(model, closure="exact", times=times)
    assert run["loss"][1] < 0.5 * truth["loss"][1]
    assert run.status.code == "untrusted"
    assert run.trusted_until < 1
    assert any("trusted_until is that of" in note for note in run.status.notes)


def test_a_disagreement_between_the_requested_times_is_seen():
    """hermite2 at trace 2.6: the loss falls from 3,200 to 4 by t = .011, where degree 9 is off by 60 % of it."""
    model = tied(aim.Wishart(width=0.7, trace=0.28), aim.Wishart(width=0.5, trace=2.6), activation="hermite2", tokens=2)
    run = aim.solve(model, degree=9, closure="gns", times=[0, 0.02], observables=["loss"])
    assert run.trusted_until < 0.015
    assert run.status.code == "untrusted"


def test_what_drives_the_flow_is_judged_whatever_is_asked_for():
    """zero, hermite2: q_11 blows up while the differences of q_12 pass through small values and mean nothing."""
    model = tied(aim.Wishart(width=0.5, trace=1), aim.Wishart(width=1, trace=1), activation="hermite2")
    times = np.array([0, 0.002, 0.004, 0.02, 0.1])
    run = aim.solve(model, degree=9, closure="zero", times=times, observables=["q_12"])
    whole = aim.solve(model, degree=9, closure="zero", times=times, observables=["q_12", "q_11"])
    assert run.trusted_until == whole.trusted_until < 0.1
    assert any("'q_11', which drives the flow" in note for note in run.status.notes)
    assert set(run.errors) == {"q_12"}
    truth = aim.solve(model, closure="exact", times=times, observables=["q_12"])
    wrong = np.abs(run["q_12"] / truth["q_12"] - 1)
    assert wrong[3] > 2 * run.errors["q_12"][3] / truth["q_12"][3]
    trusted = times <= run.trusted_until
    assert trusted.sum() == 2
    assert run["q_12"][trusted] == pytest.approx(truth["q_12"][trusted], rel=2e-2)


def test_what_was_not_compared_is_said():
    model = aim.models.load("tied-softmax")
    run = aim.solve(model, degree=4, closure="zero", times=[0, 0.02], observables=["t_1", "tr(S1 S1 S1 S1)"])
    assert run.status.code == "unchecked"
    assert any("tr(S1 S1 S1 S1): not compared, degree 2" in note for note in run.status.notes)
    assert any("two degrees only, 4 and 2" in note for note in run.status.notes)
    assert np.isnan(run.errors["tr(S1 S1 S1 S1)"]).all()
    assert run.trusted_until > 0
    alone = aim.solve(model, degree=4, closure="zero", times=[0, 0.02], observables=["tr(S1 S1 S1 S1)"])
    assert (alone.status.code, alone.trusted_until) == ("unchecked", 0)
    three = aim.solve(model, degree=7, closure="gns", times=[0, 0.02], dense=False)
    assert not any("two degrees" in note for note in three.status.notes)
    assert any("at the requested times only" in note for note in three.status.notes)


def test_errors_are_those_of_the_rule():
    """The same from three runs by hand."""
    model = aim.models.load("tied-softmax")
    times = np.linspace(0, 1, 201)
    run = aim.solve(model, degree=7, closure="gns", times=times, observables=["t_1"])
    seven, five, three = (
        aim.solve(model, degree=degree, closure="gns", times=times, observables=["t_1"], check=False)["t_1"]
        for degree in (7, 5, 3)
    )
    by_hand = remaining_error(seven, five, three, noise=1e-7)
    late = times > 0.3
    assert run.errors["t_1"][late] == pytest.approx(by_hand[late], rel=1e-3)


def test_a_second_quadrature_names_its_observable():
    model = tied(aim.Wishart(width=0.3, trace=1), aim.Wishart(width=1, trace=1), weight_decay=1)
    run = aim.solve(model, times=[0, 30], closure="exact", nodes=8, trust_tolerance=1e-9)
    assert run.status.code == "untrusted"
    assert 0 < run.trusted_until < 30
    assert any("trusted_until is that of" in note and "raise nodes=" in note for note in run.status.notes)
