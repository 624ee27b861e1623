"""Truncation studies: errors, fitted rates, the time at which the zero closure stops converging."""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.model import tied


def test_the_radius_of_convergence_of_a_logistic_flow():
    """S_2 = c 1, S_1(0) = x 1: mu_1(t) = c x/(x + (c - x) e^{-4ct}) has its nearest pole at 4ct = ln((c - x)/x) + i pi.

    Taylor truncations converge up to t* = |ln((c - x)/x) + i pi|/(4c), here with c = 1, x = 1/4.
    """
    model = aim.AttentionModel.of(
        tied(1, aim.Atomic(["1/4"], [1])),
        tied(2, aim.Atomic([1], [1]), trained=False),
        contexts=((1, 1),),
        loss=aim.models.load("exact-linear").loss,
    )
    radius = abs(np.log((1 - 0.25) / 0.25) - 1j * np.pi) / 4
    study = aim.truncation_study(
        model,
        degrees=[6, 8, 10, 12, 14, 16],
        times=np.linspace(0.3, 1.2, 10),
        observables=["t_1"],
        reference=lambda _, t: 0.25 / (0.25 + 0.75 * np.exp(-4 * t)),
    )
    assert abs(study.convergence_time / radius - 1) < 0.15
    assert "makes the zero closure worse" in study.verdict


def test_gns_improves_with_the_degree_at_all_times():
    study = aim.truncation_study(
        aim.models.load("exact-linear"),
        degrees=[3, 5, 7, 9],
        closure="gns",
        times=[0.1, 0.5, 1.0],
        observables=["t_1", "q_12"],
    )
    assert study.convergence_time == float("inf")
    assert (np.diff(study.error, axis=0) < 0).all()
    assert (study.rate < -5 * study.rate_error).all()
    assert "helps at every time" in study.verdict


def test_next_degree_as_reference_estimates_the_true_error():
    model = aim.models.load("exact-linear")
    times = [0.05]
    rough = aim.truncation_study(model, degrees=[4, 6, 8], times=times, reference="next")
    true = aim.truncation_study(model, degrees=[4, 6, 8], times=times, reference="gns")
    assert rough.reference == "the next degree"
    assert np.allclose(rough.error, true.error, rtol=0.1)


@pytest.mark.parametrize(("closure", "degrees"), [("zero", [6, 8, 10]), ("gns", [5, 7, 9])])
def test_estimates_against_the_exact_dynamics(closure, degrees):
    """The errors are those of a solve by exact, the estimates those that solve states, and these cover the errors."""
    model, times, names = aim.models.load("tied-softmax"), np.linspace(0.2, 2.0, 10), ["t_1", "p_12"]
    study = aim.truncation_study(model, degrees=degrees, closure=closure, times=times, observables=names)
    assert study.reference == "the exact dynamics"
    truth = aim.solve(model, closure="exact", times=times, observables=names)
    for row, degree in enumerate(degrees):
        run = aim.solve(model, degree=degree, closure=closure, times=times, observables=names)
        assert study.errors["p_12"][row] == pytest.approx(np.abs(run["p_12"] - truth["p_12"]), abs=1e-12)
        assert (study.estimates["p_12"][row] <= run.errors["p_12"] + 1e-9).all()
        assert study.trusted_until[row] == max([0.0, *times[times <= run.trusted_until]])
        assert study.trajectories[row].degree == degree
    assert study.calibration.points >= 8
    assert study.calibration.covered == 1
    assert study.calibration.worst < 1
    assert "covers the true one at 100 %" in study.table()
    assert study.summary()["calibration"]["worst"] == study.calibration.worst


def test_no_calibration_without_a_degree_below():
    study = aim.truncation_study(aim.models.load("tied-softmax"), degrees=[2, 3], times=[0.05, 0.1])
    assert all(np.isnan(table).all() for table in study.estimates.values())
    assert np.isnan(study.trusted_until).all()
    assert study.calibration.points == 0
    assert "covers" not in study.table()
    with pytest.raises(aim.InputError, match="closure 'exact' needs"):
        aim.truncation_study(aim.models.load("untied-linear"), degrees=[3, 5], times=[0.1], reference="exact")


def test_a_trajectory_as_reference_and_its_table():
    model = aim.models.load("tied-softmax")
    times = [0.1, 0.2]
    reference = aim.solve(model, degree=13, times=times, check=False)
    study = aim.truncation_study(model, degrees=[4, 6], times=times, reference=reference)
    assert (study.error[1] < study.error[0]).all()
    table = study.table()
    assert "rate" in table
    assert "M" in table
    assert study._repr_latex_().startswith("$$")
    assert np.isnan(study.rate_error).all()  # two degrees leave no residual to estimate an uncertainty from
    with pytest.raises(aim.InputError, match="other times"):
        aim.truncation_study(model, degrees=[4, 6], times=[0.1, 0.3], reference=reference)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees": [4]}, "at least two"),
        ({"degrees": [6, 4]}, "increasing"),
        ({"degrees": [4, 6], "reference": "truth"}, "unknown reference"),
        ({"degrees": [1, 4]}, "degree"),
        ({"degrees": [4, 6], "times": [0.2, 0.1]}, "increase"),
        ({"degrees": [4, 6], "observables": ["z"]}, "unknown observable"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(aim.InputError, match=message):
        aim.truncation_study(aim.models.load("exact-linear"), **({"times": [0.1, 0.2]} | options))
