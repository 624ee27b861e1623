"""JSON: stable keys, no NaN, full precision."""

import json

import numpy as np

import aimtheory as aim
from aimtheory.records import as_data
from aimtheory.report import to_json


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
    run = aim.solve(
        aim.models.load("tied-softmax"), degree=5, closure="gns", times=[0, 0.1, 0.3], observables=["p_12", "tr(S1 S1)"]
    )
    record = strict(to_json(as_data(run)))
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
    record = strict(to_json(as_data(run)))
    assert record["errors"] == {"t_1": [None, None]}
    assert record["closure_options"] == {"dim": 20, "seed": 0}


def test_derivation_terms_rebuild_the_equations():
    hierarchy = aim.derive(aim.models.load("tied-softmax"), 3)
    record = strict(to_json(as_data(hierarchy)))
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
