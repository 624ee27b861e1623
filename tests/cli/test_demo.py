"""The tour, at a small size by default and at its own size when slow tests run."""

import json
import re

import pytest

import aimtheory as aim
from aimtheory.cli import demo, main


@pytest.fixture
def small(monkeypatch):
    for name, value in {"_DIM": 30, "_SEEDS": 3, "_RATE": 0.1, "_BATCH": 16}.items():
        monkeypatch.setattr(demo, name, value)


def check(folder, out):
    assert {path.name for path in folder.iterdir()} == set(demo.FILES)
    for name in demo.FILES:
        assert (folder / name).stat().st_size > 500
        assert name in out
    record = json.loads((folder / "demo.json").read_text())
    assert set(record["files"]) == set(demo.FILES)
    assert len(record["derivation"]["words"]) == 9
    assert record["trajectory"]["status"] == "complete"
    assert len(record["comparison"]["sigmas"][0]) == len(record["trajectory"]["times"])
    # Exactly solvable case: the errors of M = 4, 8, 12 against the closed solution cross between t = 0.1 and 0.2.
    assert 0.1 < record["truncation"]["convergence_time"] < 0.2
    assert aim.Trajectory.load(folder / "run.nc")["p_12"].tolist() == record["trajectory"]["values"]["p_12"]
    return record


def test_tour_writes_what_it_lists_and_keeps_an_earlier_one(small, capsys, tmp_path):
    folder = tmp_path / "tour"
    assert main(["demo", "--directory", str(folder)]) == 0
    out = capsys.readouterr().out
    check(folder, out)
    assert "-2*g_11*tr(S1 S1) - 2*g_12*tr(S1 S2)" in out
    assert "sigmas" in out
    assert "t* =" in out
    before = (folder / "demo.json").read_bytes()
    assert main(["demo", "--directory", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "--force" in error
    assert "--directory" in error
    assert (folder / "demo.json").read_bytes() == before
    other = folder / "notes.txt"
    other.write_text("mine")
    assert main(["demo", "--directory", str(other)]) == 2
    assert main(["demo", "--directory", str(tmp_path / "a" / "b")]) == 2


@pytest.mark.slow
def test_a_tour_replaces_its_own_files_only(small, capsys, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    (tmp_path / "demo.json").write_text("{}")
    assert main(["demo", "--directory", str(tmp_path), "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "demo"
    assert other.read_text() == "mine"
    assert len((tmp_path / "demo.json").read_text()) > 500


@pytest.mark.slow
def test_the_whole_tour_agrees_with_sgd_within_four_standard_errors(capsys, tmp_path):
    assert main(["demo", "--directory", str(tmp_path / "tour")]) == 0
    out = capsys.readouterr().out
    record = check(tmp_path / "tour", out)
    assert record["comparison"]["largest"] < 4
    assert re.search(r"Done in \d+ s", out)
