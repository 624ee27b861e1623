"""Bad input is named, interruption and blow-up keep what was done, and files come back whole."""

from itertools import pairwise

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.spectra import JointMoments, MatrixFamily


@pytest.fixture(scope="module")
def model():
    return aim.models.load("tied-hermite2")


@pytest.mark.parametrize("degree", [1, 0, -3, 2.5, "4", True, float("nan")])
def test_bad_degree(model, degree):
    with pytest.raises(aim.InputError, match="degree"):
        aim.solve(model, degree=degree, times=[0, 0.01])


def test_a_degree_may_be_left_out_where_nothing_is_truncated(model, tmp_path):
    times, watched = [0, 0.5], ["t_1", "p_12"]
    run = aim.solve(model, times=times, observables=watched)
    assert (run.closure.name, run.degree, run.method) == ("exact", None, "exact")
    assert any("'auto' took 'exact'" in note for note in run.status.notes)
    given = aim.solve(model, degree=7, times=times, closure="exact", observables=watched)
    assert all(np.array_equal(run[name], given[name]) for name in watched)
    assert not any("auto" in note for note in given.status.notes)
    back = aim.load(run.save(tmp_path / "run.json"))
    assert back == run
    assert np.array_equal(back["tr(S1 S1 S2)"], run["tr(S1 S1 S2)"])
    matrix = aim.solve(model, times=times, closure="matrix", dim=20, observables=watched, check=False)
    assert matrix.degree is None
    for closure in ("gns", "zero"):
        with pytest.raises(aim.InputError, match=f"closure '{closure}' truncates the hierarchy, and no degree"):
            aim.solve(model, times=times, closure=closure)


@pytest.mark.parametrize(("name", "reason"), [("untied-linear", "one trained matrix"), ("direct-linear", "tied")])
def test_auto_says_why_it_truncates(name, reason):
    model = aim.models.load(name)
    with pytest.raises(aim.InputError, match=f"no degree is given.*'auto' took 'gns'.*{reason}"):
        aim.solve(model, times=[0, 0.1])
    run = aim.solve(model, degree=3, times=[0, 0.05], observables=["q1_12"], check=False)
    assert run.closure.name == "gns"
    assert any("'auto' took 'gns'" in note and reason in note for note in run.status.notes)


def test_a_teacher_with_a_negative_spectrum_is_allowed_and_said():
    """No weight decay, teacher of eigenvalues -1 and 2: late, S_1 is its positive part, so q_12 = 2 and t_1 = 1."""
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="tied",
        student=aim.Atomic([1]), teacher=aim.Atomic([-1, 2]),
    )  # fmt: skip
    run = aim.solve(model, times=[0, 40.0], observables=["t_1", "q_12"])
    assert run.status.code == "complete"
    assert any("S2 has eigenvalues below 0, down to about -1" in note for note in run.status.notes)
    assert run["t_1"][-1] == pytest.approx(1, abs=1e-6)
    assert run["q_12"][-1] == pytest.approx(2, abs=1e-6)


@pytest.mark.parametrize(("nodes", "expected"), [(12, "untrusted"), (64, "complete")])
def test_the_error_of_exact_is_that_of_its_nodes(nodes, expected):
    """Too few nodes at a late time, against five times as many: the error told is the true one within a factor two."""
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="erf", parameterization="tied",
        student=aim.Wishart(width=0.5, trace=0.5), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    asked = {"times": [0.5, 8.0, 30.0], "observables": ["p_12", "loss"], "closure": "exact"}
    run = aim.solve(model, nodes=nodes, trust_tolerance=1e-4, **asked)
    truth = aim.solve(model, nodes=160, check=False, rtol=1e-11, atol=1e-12, **asked)
    assert run.status.code == expected
    for name, errors in run.errors.items():
        assert (np.abs(run[name] - truth[name]) < 2 * errors + 1e-8).all()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "non-empty"),
        ([0, 0.1, 0.1], "must increase"),
        ([0.2, 0.1], "must increase"),
        ([0, np.nan], r"times\[1\] = nan"),
        ([0, np.inf], "not finite"),
        ([-0.1, 0.1], "negative"),
        ("soon", "not a list of numbers"),
        ([[0, 1]], "shape"),
    ],
)
def test_bad_times(model, times, message):
    with pytest.raises(aim.InputError, match=message):
        aim.solve(model, degree=3, times=times)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"closure": "cumulant"}, "unknown closure 'cumulant'; choose one of .*gns, matrix, zero"),
        ({"closure": "gns", "dim": 3}, "does not take the options dim"),
        ({"observables": ["x_12"]}, "unknown observable 'x_12'"),
        ({"observables": ["q_13"]}, "does not fit a model with 2 indices"),
        ({"observables": ["tr(S3)"]}, "unknown letter 'S3'"),
        ({"observables": "p_12"}, "give a list"),
        ({"observables": []}, "empty"),
        ({"rtol": 0.0}, "rtol"),
        ({"trust_tolerance": float("nan")}, "trust_tolerance"),
    ],
)
def test_bad_options(model, options, message):
    with pytest.raises(aim.InputError, match=message):
        aim.solve(model, degree=5, times=[0, 0.01], **options)


def test_bad_event_level():
    with pytest.raises(aim.InputError, match="level"):
        aim.Event("p_12", float("nan"))


def test_mean_of_centred_forms_is_refused_by_name(model):
    with pytest.raises(aim.InputError, match="forms of this model are centred"):
        aim.solve(model, degree=3, times=[0, 0.01], observables=["m_1"])
    with pytest.raises(aim.InputError, match="initial_mean is given"):
        aim.solve(model, degree=3, times=[0, 0.01], initial_mean=[0, 0])
    with pytest.raises(aim.InputError, match="2 finite numbers"):
        aim.solve(aim.models.load("untied-linear"), degree=3, times=[0, 0.01], initial_mean=[0])


def test_word_above_the_degree_names_the_next_step(model):
    run = aim.solve(model, degree=4, closure="zero", times=[0, 0.01], check=False)
    with pytest.raises(aim.InputError, match="raise the degree"):
        run["tr(S1 S1 S1 S1 S2)"]


def test_unrealizable_initial_moments_are_refused(model):
    """tr S_1^2 < (tr S_1)^2 belongs to no matrix."""
    words = {("S1",): 1, ("S2",): 1, ("S1", "S1"): "1/2", ("S1", "S2"): 1, ("S2", "S2"): 2}
    with pytest.raises(aim.AssumptionError, match="eigenvalue"):
        aim.solve(model, degree=2, closure="zero", times=[0, 0.01], initial=JointMoments(words))


def test_teacher_of_finite_rank_is_refused(model):
    rng = np.random.default_rng(0)
    student, spike = rng.standard_normal((100, 100)) / 10, np.zeros((100, 100))
    spike[:2, :2] = np.eye(2)
    initial = MatrixFamily({"S1": student @ student.T, "S2": spike})
    for closure in ("zero", "matrix"):
        with pytest.raises(aim.AssumptionError, match=r"S2 has .*Assumption 1.1"):
            aim.solve(model, degree=3, closure=closure, times=[0, 0.01], initial=initial)
    with pytest.raises(aim.AssumptionError, match="finite rank"):
        aim.AttentionModel.teacher_student(
            tokens=1,
            activation="linear",
            parameterization="tied",
            student=aim.Wishart(1),
            teacher=aim.Empirical([1.0] + [0.0] * 99),
        )


def test_initial_law_with_other_letters(model):
    matrix = np.eye(3)
    with pytest.raises(aim.InputError, match="needs S1, S2"):
        aim.solve(model, degree=3, closure="zero", times=[0, 0.01], initial=MatrixFamily({"A": matrix, "B": matrix}))


def test_blow_up_keeps_the_trajectory_and_says_so(model):
    run = aim.solve(model, degree=6, closure="zero", times=np.linspace(0, 0.1, 11))
    assert run.status.code == "diverged"
    assert 1 < len(run.times) < 11
    assert "weight decay" in run.status.advice
    assert run.trusted_until < 0.02
    assert all(np.isfinite(values).all() for values in run.values.values())
    assert aim.solve(model, degree=13, times=np.linspace(0, 0.1, 11)).status.code == "complete"


def test_interruption_keeps_what_is_done(model):
    def stop(time, final):
        if time > 0.04:
            raise KeyboardInterrupt

    run = aim.solve(model, degree=7, times=np.linspace(0, 0.2, 21), progress=stop)
    assert run.status.code == "interrupted"
    assert 4 <= len(run.times) < 21
    whole = aim.solve(model, degree=7, times=np.linspace(0, 0.2, 21))
    assert np.allclose(run["p_12"], whole["p_12"][: len(run.times)], atol=1e-12)


def test_progress_reaches_the_end(model):
    seen = []
    aim.solve(model, degree=5, times=[0, 0.1], progress=lambda now, end: seen.append((now, end)))
    assert seen[-1] == (0.1, 0.1)
    assert all(a < b for (a, _), (b, _) in pairwise(seen))


@pytest.mark.parametrize("closure", ["gns", "zero", "matrix"])
def test_save_and_load_lose_nothing(model, closure, tmp_path):
    options = {"dim": 12, "seed": 3} if closure == "matrix" else {}
    run = aim.solve(
        model, degree=5, closure=closure, times=[0, 0.01, 0.02], events=[aim.Event("p_12", 0.05)], **options
    )
    path = run.save(tmp_path / "run.nc")
    back = aim.Trajectory.load(path)
    assert back.model == run.model
    assert back.closure == run.closure
    assert back.status == run.status
    assert back.events == run.events
    for name in run.values:
        assert np.array_equal(back[name], run[name])
        assert np.array_equal(back.errors[name], run.errors[name], equal_nan=True)
    assert back == run
    kept = aim.Trajectory.load(run.save(tmp_path / "states.nc", states=True))
    assert np.array_equal(kept.states, run.states)
    assert np.array_equal(back["tr(S1 S1 S2)"], run["tr(S1 S1 S2)"])
    assert np.array_equal(back.at([0.013])["q_12"], run.at([0.013])["q_12"])
    assert back.trusted_until == run.trusted_until or np.isnan(run.trusted_until)


def test_existing_files_are_kept(model, tmp_path):
    run = aim.solve(model, degree=3, times=[0, 0.01], check=False)
    path = tmp_path / "run.nc"
    path.write_text("precious")
    with pytest.raises(aim.InputError, match="is kept"):
        run.save(path)
    assert path.read_text() == "precious"
    run.save(path, overwrite=True)
    assert aim.Trajectory.load(path)["p_12"].shape == (2,)
    with pytest.raises(aim.InputError, match="does not exist"):
        run.save(tmp_path / "nowhere" / "run.nc")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc"]


def test_representations(model):
    run = aim.solve(model, degree=3, closure="gns", times=[0, 0.01], check=False)
    assert "degree=3" in repr(run)
    assert run._repr_latex_().startswith("$$")
    assert run.status.code == "unchecked"
    assert len(run.times) == 2


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (aim.Event("p_12", 0.1), "is not a list of events"),
        (3, "is not a list of events"),
        (["p_12"], "'p_12' is not an Event"),
        ([aim.Event("spectrum", 0.1)], "unknown observable 'spectrum'"),
        ([aim.Event(("p_12", "t_1"), 0.1)], "neither a name such as 'p_12' nor a word"),
        ([aim.Event("q_1", 0.1)], "does not fit a model with 2 indices"),
    ],
)
def test_events_that_are_none_or_not_scalar(events, message):
    with pytest.raises(aim.InputError, match=message):
        aim.solve(aim.models.load("tied-linear"), times=[0, 1], events=events)
