"""JSON: stable keys, no NaN, and nothing lost on the way back."""

import json

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.dynamics import truncation_study
from aimtheory.errors import InputError
from aimtheory.report import to_json
from aimtheory.report.export import (
    hierarchy_record,
    read_record,
    sgd_from_record,
    sgd_record,
    study_from_record,
    study_record,
    trajectory_record,
)
from aimtheory.simulate import sgd


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_json_lacks_become_null():
    record = {
        "a": np.array([[1.0, np.nan], [np.inf, -np.inf]]),
        "b": float("nan"),
        "c": np.float64(2),
        "d": np.int64(3),
    }
    assert strict(to_json(record)) == {"a": [[1.0, None], [None, None]], "b": None, "c": 2.0, "d": 3}


def test_trajectory_keys_and_full_precision():
    run = aim.solve(aim.models.load("tied-softmax"), degree=5, times=[0, 0.1, 0.3], observables=["p_12", "tr(S1 S1)"])
    record = strict(to_json(trajectory_record(run)))
    assert {"times", "values", "status", "trusted_until", "model", "degree", "closure", "errors", "advice"} <= set(
        record
    )
    assert record["values"]["p_12"] == run["p_12"].tolist()
    assert record["times"] == [0.0, 0.1, 0.3]
    assert record["closure"] == "gns"


def test_a_closure_that_was_not_checked_has_null_errors():
    run = aim.solve(
        aim.models.load("tied-softmax"), degree=5, times=[0, 0.1], closure="matrix", dim=20, observables=["t_1"]
    )
    record = strict(to_json(trajectory_record(run)))
    assert record["errors"] == {"t_1": [None, None]}
    assert record["closure_options"] == {"dim": 20, "seed": 0}


def test_derivation_terms_rebuild_the_equations():
    hierarchy = aim.derive(aim.models.load("tied-softmax"), 3)
    record = strict(to_json(hierarchy_record(hierarchy)))
    assert record["words"] == list(hierarchy.names)
    assert len(record["words"]) == 9
    assert record["equations"]["tr(S1)"] == "-2*g_11*tr(S1 S1) - 2*g_12*tr(S1 S2)"
    # Theory (11) by hand: d tr(S1 S1 S2) has both insertions of S2 beside each S1.
    terms = {(word, coupling): int(c) for c, coupling, word in record["terms"]["tr(S1 S1 S2)"]}
    assert terms == {
        ("tr(S1 S1 S1 S2)", "g_11"): -4,
        ("tr(S1 S1 S2 S2)", "g_12"): -2,
        ("tr(S1 S2 S1 S2)", "g_12"): -2,
    }
    assert record["constant"] == ["tr(S2)", "tr(S2 S2)", "tr(S2 S2 S2)"]
    assert len(record["missing"]) == 5


def test_a_study_comes_back():
    study = truncation_study(aim.models.load("exact-linear"), degrees=[4, 6], times=[0.05, 0.3])
    back = study_from_record(read_record(to_json(study_record(study))))
    assert back.degrees == study.degrees
    assert np.array_equal(back.error, study.error)
    assert np.array_equal(back.rate_error, study.rate_error, equal_nan=True)
    assert back.convergence_time == study.convergence_time
    assert back.model == study.model


def test_an_infinite_convergence_time_comes_back():
    study = truncation_study(aim.models.load("exact-linear"), degrees=[4, 6], times=[0.02, 0.05])
    assert study.convergence_time == float("inf")
    record = read_record(to_json(study_record(study)))
    assert record["convergence_time"] is None
    assert study_from_record(record).convergence_time == float("inf")


def test_a_simulation_comes_back():
    run = sgd(
        aim.models.load("tied-softmax"), dim=20, learning_rate=0.05, batch=8, times=[0, 0.2], seeds=[4, 7],
        observables=["p_12", "loss"], eigenvalues=["S1"],
    )  # fmt: skip
    back = sgd_from_record(read_record(to_json(sgd_record(run))))
    assert back.seeds == (4, 7)
    for name in ("p_12", "loss"):
        assert np.array_equal(back.values[name], run.values[name])
        assert np.array_equal(back.standard_error(name), run.standard_error(name))
    assert np.array_equal(back.eigenvalues["S1"], run.eigenvalues["S1"])
    assert back.model == run.model
    assert back.status == run.status


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[1]", "not a result"), ('{"kind": "pickle"}', "not a result"), ("[" * 100_000, "not JSON")],
)
def test_foreign_json_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        read_record(text, "it")


def test_damaged_results_are_refused():
    study = truncation_study(aim.models.load("exact-linear"), degrees=[4, 6], times=[0.05, 0.1])
    record = json.loads(to_json(study_record(study)))
    with pytest.raises(InputError, match="damaged"):
        study_from_record({key: value for key, value in record.items() if key != "rate"})
    with pytest.raises(InputError, match="without its model"):
        study_from_record(record | {"model_toml": None})
    with pytest.raises(InputError, match="damaged"):
        sgd_from_record(record)
