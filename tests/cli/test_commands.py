"""Every command, in this process: what it prints, what it saves, its JSON."""

import json

import networkx as nx
import numpy as np
import pytest

import aimtheory as aim
from aimtheory.cli import main


@pytest.fixture
def run(capsys):
    """Runs a command that must succeed; returns its stdout."""

    def call(*arguments):
        assert main(list(arguments)) == 0
        return capsys.readouterr().out

    return call


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_derive_text_shows_the_equations(run):
    out = run("derive", "exact-linear", "--degree", "2")
    assert "d/dt tr(S1)    = -2*g_11*tr(S1 S1) - 2*g_12*tr(S1 S2)" in out
    assert "Phi = 2*q_11 - 4*q_12 + 2*q_22" in out
    assert "missing: 3 words of degree 3" in out


def test_derive_json_has_the_36_words_of_degree_six(run):
    record = strict(run("derive", "tied-softmax", "--degree", "6", "--json"))
    assert len(record["words"]) == 36
    assert set(record["equations"]) == set(record["words"])
    assert record["degree"] == 6


def test_derive_restricted_to_observables(run):
    full = strict(run("derive", "tied-softmax", "--degree", "4", "--json"))
    part = strict(run("derive", "tied-softmax", "--degree", "4", "--observables", "t_1", "--json"))
    assert set(part["words"]) < set(full["words"])


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".tex", r"\documentclass"), (".json", "{"), (".graphml", "<?xml"), (".py", '"""Closed'), (".txt", "tied")],
)
def test_derive_saves_in_the_format_of_the_suffix(run, tmp_path, suffix, start):
    path = tmp_path / f"file{suffix}"
    run("derive", "tied-softmax", "--degree", "2", "-o", str(path))
    assert path.read_text().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_derive_formats_on_stdout_agree_with_the_files(run, tmp_path):
    for name in ("latex", "graphml", "python", "json", "text"):
        path = tmp_path / name
        run("derive", "tied-softmax", "--degree", "3", "--format", name, "-o", str(path))
        assert run("derive", "tied-softmax", "--degree", "3", "--format", name).rstrip("\n") == path.read_text().rstrip(
            "\n"
        )


def test_graphml_is_the_dependency_graph(run, tmp_path):
    path = tmp_path / "graph.graphml"
    run("derive", "tied-softmax", "--degree", "3", "--format", "graphml", "-o", str(path))
    graph = nx.read_graphml(path)
    expected = aim.derive(aim.models.load("tied-softmax"), 3).graph
    assert set(graph.edges) == set(expected.edges)
    assert graph.nodes["tr(S1 S1)"]["initial"] == 2.0  # tr S^2 of MP(c=1) of unit trace


def test_derive_saves_a_file_and_prints_json_at_once(run, tmp_path):
    path = tmp_path / "x.tex"
    record = strict(run("derive", "tied-softmax", "--degree", "2", "--json", "-o", str(path)))
    assert record["kind"] == "derivation"
    assert path.read_text().startswith(r"\documentclass")


def test_figure_of_the_graph(run, tmp_path):
    path = tmp_path / "graph.png"
    run("derive", "tied-softmax", "--degree", "3", "-o", str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_solve_json_has_the_values_of_the_library(run):
    record = strict(
        run("solve", "tied-softmax", "--degree", "7", "--times", "0:1:3", "--observables", "p_12,tr(S1 S1)", "--json")
    )
    expected = aim.solve(
        aim.models.load("tied-softmax"), degree=7, times=[0, 0.5, 1], observables=["p_12", "tr(S1 S1)"]
    )
    assert record["times"] == [0.0, 0.5, 1.0]
    assert record["values"]["p_12"] == pytest.approx(expected["p_12"].tolist(), abs=1e-12)
    assert record["values"]["tr(S1 S1)"] == pytest.approx(expected["tr(S1 S1)"].tolist(), abs=1e-12)
    assert record["status"] == "complete"
    assert record["trusted_until"] == 1.0
    # From an independent program with operators of degree 7 (M = 15): p_12(0.5) = .11237, p_12(1) = .22110.
    assert record["values"]["p_12"][1:] == pytest.approx([0.11237, 0.22110], abs=2e-4)


def test_solve_says_what_it_was_checked_against(run):
    options = ("--closure", "zero", "--degree", "6", "--times", "0,0.01,4", "--observables", "p_12", "--json")
    degrees = strict(run("solve", "tied-softmax", *options))
    assert degrees["status"] == "untrusted"
    assert degrees["errors"]["p_12"][2] is None or degrees["errors"]["p_12"][2] > 0.01
    assert strict(run("solve", "tied-softmax", *options, "--check", "none"))["status"] == "unchecked"
    short = ("--times", "0,0.001", "--observables", "p_12", "--json")
    assert (
        "6 flows of matrices at d = 200" in strict(run("solve", "tied-linear", *short, "--check", "matrix"))["advice"]
    )


def test_solve_saves_a_trajectory_that_loads(run, tmp_path):
    path = tmp_path / "run.nc"
    out = run("solve", "tied-softmax", "--degree", "5", "--times", "0,0.1,0.2", "-o", str(path))
    loaded = aim.Trajectory.load(path)
    assert loaded.times.tolist() == [0, 0.1, 0.2]
    assert f"{loaded['p_12'][2]:12.6f}" in out
    as_json = tmp_path / "run.json"
    run("solve", "tied-softmax", "--degree", "5", "--times", "0,0.1,0.2", "-o", str(as_json))
    assert strict(as_json.read_text())["values"]["p_12"] == loaded["p_12"].tolist()


def test_solve_reports_events_and_stops_at_them(run):
    record = strict(run("solve", "tied-softmax", "--degree", "7", "--times", "0:1:5", "--events", "p_12=0.1", "--json"))
    (time,) = record["events"]["p_12 = 0.1"]
    at = aim.solve(aim.models.load("tied-softmax"), degree=7, times=[0, time])
    assert at["p_12"][-1] == pytest.approx(0.1, abs=1e-8)
    stopped = strict(run("solve", "tied-softmax", "--degree", "7", "--times", "0:1:5", "--stop", "p_12=0.1", "--json"))
    assert stopped["status"] == "stopped at event"
    assert max(stopped["times"]) <= time
    text = run("solve", "tied-softmax", "--degree", "7", "--times", "0:1:5", "--events", "p_12=0.9")
    assert "p_12 = 0.9 at t = never" in text
    both = run("solve", "tied-linear", "--times", "0:4:3", "--events", "q_11=1.6 falling,q_11=1.6 rising,q_11=1.6")
    falling, rising, every = (line.partition(" at t = ")[2] for line in both.splitlines() if line.startswith("q_11 ="))
    assert every == f"{falling}, {rising}"


def test_solve_with_the_matrix_closure_takes_dim_and_seed(run):
    arguments = ("solve", "direct-linear", "--closure", "matrix", "--times", "0:0.5:3", "--json", "--dim", "30")
    first, again, other = (strict(run(*arguments, "--seed", seed)) for seed in ("1", "1", "2"))
    assert first["closure_options"] == {"dim": 30, "seed": 1}
    assert first["values"] == again["values"] != other["values"]


def test_advice_is_on_stderr_when_the_result_is_not_to_be_trusted(capsys):
    assert main(["solve", "tied-softmax", "--degree", "4", "--closure", "zero", "--times", "0:3:4", "--json"]) == 0
    captured = capsys.readouterr()
    record = strict(captured.out)
    assert record["status"] == "untrusted"
    assert "closure='gns'" in captured.err
    assert "trusted_until" in captured.err


def test_truncation_table_and_json(run, tmp_path):
    path = tmp_path / "study.json"
    arguments = ("truncation", "exact-linear", "--degrees", "4,8", "--closure", "zero", "--times", "0.05,0.1,0.5")
    record = strict(run(*arguments, "--json", "-o", str(path)))
    assert strict(path.read_text())["error"] == record["error"]
    # Errors against the closed solution of [D] D.3 on matrices of d = 600, two digits, from an independent program.
    expected = np.array([[8.0e-4, 6.1e-3, 9.7e-1], [2.9e-6, 3.0e-4, 4.7e1]])
    assert np.allclose(record["error"], expected, rtol=0.03)
    out = run(*arguments)
    assert "t* =" in out


def test_models_are_listed_and_shown(run, tmp_path):
    names = aim.models.names()
    assert [line.split()[0] for line in run("models").splitlines()] == list(names)
    record = strict(run("models", "--json"))
    assert record["models"] == list(names)
    assert "softmax" in record["descriptions"]["tied-softmax"]
    for name in names:
        path = tmp_path / f"{name}.toml"
        path.write_text(run("models", "--show", name))
        assert aim.models.load(path) == aim.models.load(name)
    assert 'activation = "softmax"' in run("models", "--show", "tied-softmax")
    assert strict(run("models", "--show", "tied-softmax", "--json"))["activation"] == "softmax"


def test_a_model_file_is_a_model(run, tmp_path):
    path = tmp_path / "mine.toml"
    run("models", "--show", "tied-softmax", "-o", str(path))
    arguments = ("--degree", "5", "--times", "0:0.5:3", "--json")
    from_file, built_in = (strict(run("solve", model, *arguments)) for model in (str(path), "tied-softmax"))
    assert from_file["values"] == built_in["values"]


SGD = (
    "simulate",
    "sgd",
    "tied-softmax",
    "--dim",
    "24",
    "--batch",
    "8",
    "--learning-rate",
    "0.05",
    "--times",
    "0:0.4:3",
)


def test_simulate_sgd_is_the_simulation_of_the_library(run, tmp_path):
    from aimtheory.simulate import sgd

    path = tmp_path / "sgd.json"
    record = strict(run(*SGD, "--seeds", "0..2", "--observables", "p_12,t_1", "--json", "-o", str(path)))
    expected = sgd(
        aim.models.load("tied-softmax"), dim=24, batch=8, learning_rate=0.05, times=[0, 0.2, 0.4], seeds=[0, 1, 2],
        observables=["p_12", "t_1"],
    )  # fmt: skip
    assert record["seed_values"]["p_12"] == expected.values["p_12"].tolist()
    assert record["values"]["p_12"] == expected.mean("p_12").tolist()
    assert record["seeds"] == [0, 1, 2]
    assert strict(path.read_text())["seed_values"] == record["seed_values"]
    one = strict(run(*SGD, "--seed", "1", "--observables", "p_12", "--json"))
    assert one["seed_values"]["p_12"][0] == record["seed_values"]["p_12"][1]
    assert one["standard_errors"]["p_12"] == [None, None, None]


def test_plot_draws_each_kind_of_result(run, tmp_path):
    nc, js, study = (str(tmp_path / name) for name in ("run.nc", "sgd.json", "study.json"))
    run("solve", "tied-softmax", "--degree", "7", "--times", "0:0.4:3", "-o", nc)
    run(*SGD, "--seeds", "0,1", "--eigenvalues", "S1", "-o", js)
    run("truncation", "exact-linear", "--degrees", "4,6", "-o", study)
    for number, arguments in enumerate(
        [
            (nc, js),
            (js,),
            (study,),
            (nc, "--spectrum", "0.2"),
            (nc, js, "--spectrum", "0.4"),
            (nc, "--observables", "p_12"),
        ]
    ):
        path = tmp_path / f"figure{number}.png"
        record = strict(run("plot", *arguments, "-o", str(path), "--json"))
        assert record["figure"] == str(path)
        assert path.read_bytes().startswith(b"\x89PNG")
    assert "run.png" in run("plot", nc)
    assert (tmp_path / "run.png").exists()


def test_recovery_json_has_the_verdict(run, tmp_path):
    record = strict(run("recovery", "direct-hermite2", "--json"))
    assert record["recovers"] is False
    assert record["velocity"] == 0
    assert "no first-order signal" in record["reason"]
    path = tmp_path / "verdict.json"
    out = run("recovery", "tied-hermite2", "--degree", "5", "--dim", "400", "--learning-rate", "0.01", "-o", str(path))
    assert "PSD symmetry breaking" in out
    saved = strict(path.read_text())
    assert saved["recovers"] is True
    assert saved["sample_count"] == pytest.approx(saved["threshold_time"] * 400 / 0.04)
    assert saved["threshold_time"] > 0
