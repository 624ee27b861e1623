"""Every kind of result: to a file and back in a fresh process, through a process pool, into tables and figures."""

import argparse
import contextlib
import copy
import multiprocessing
import os
import pickle
import runpy
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.bayes import FixedPoint, Threshold
from aimtheory.cli import main
from aimtheory.cli.plot import draw
from aimtheory.records import Result, kind_of
from aimtheory.records import registry as known

EVERY = Path(__file__).with_name("every_result.py")
ROOT = Path(aim.__file__).parents[1]


@pytest.fixture(scope="module")
def results():
    return runpy.run_path(str(EVERY))["results"]()


def test_every_kind_is_here(results):
    """A result whose kind has no example here is not tested."""
    defined = {
        entry.kind
        for entry in known._BY_KIND.values()
        if issubclass(entry.cls, Result) and entry.cls.__module__.startswith("aimtheory.")
    }
    absent = {"bayes-multi-index-fixed-point"}  # needs seconds of cubature; below by hand
    assert defined - {kind_of(result) for result in results.values()} == absent


def test_files_survive_a_fresh_process(results, tmp_path):
    """Saved here, loaded and saved there, loaded here: equal, and unstored observables read there are those here."""
    for name, result in results.items():
        result.save(tmp_path / f"{name}.nc")
        assert aim.load(result.save(tmp_path.parent / f"{name}.json", overwrite=True)) == result, name
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(EVERY), str(tmp_path)], check=True, env=environment)
    read = np.load(tmp_path / "unstored.npz")
    assert len(read.files) == 2 * sum(name.startswith("trajectory") or name == "softmax" for name in results)
    for key in read.files:
        file, observable = key.split("|")
        here = results[Path(file).stem][observable]
        assert np.array_equal(read[key], here), key
    for name, result in results.items():
        back = aim.load(tmp_path / f"{name}.nc")
        assert back == result, name
        assert repr(back) == repr(result)


def test_results_travel_to_spawned_processes(results):
    values = list(results.values())
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(copy.deepcopy, values, chunksize=len(values))) == values


def test_results_compare_copy_and_hash_or_refuse(results):
    values = list(results.values())
    for n, result in enumerate(values):
        assert result == copy.deepcopy(result)
        assert pickle.loads(pickle.dumps(result)) == result
        assert [result == other for other in values].count(True) == 1, list(results)[n]
        if isinstance(result, Threshold | FixedPoint):
            assert {result: n}[copy.deepcopy(result)] == n
        else:
            with contextlib.suppress(TypeError):
                assert hash(result) == hash(copy.deepcopy(result))
    with pytest.raises(TypeError, match=r"Trajectory\.times is an array, which has no hash"):
        hash(results["trajectory-law"])


def test_results_become_tables(results, tmp_path):
    for name, result in results.items():
        table = result.to_dataframe()
        assert list(table.index.names) == (list(result.frame_dims) or [None])
        assert len(table.columns)
        data = result.to_xarray()
        assert all({"long_name", "units"} <= set(variable.attrs) for variable in data.variables.values()), name
        assert data.attrs["kind"] == kind_of(result)
        result.save(tmp_path / f"{name}.csv")


def test_every_result_is_drawn(results, tmp_path, capsys):
    arguments = argparse.Namespace(observables=None, spectrum=None, matrix=None, resolution=None)
    for name, result in results.items():
        assert draw({name: result}, arguments).axes, name
    path = results["amp"].save(tmp_path / "amp.nc")
    assert main(["plot", str(path)]) == 0
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "wrote" in capsys.readouterr().out


def test_a_large_trajectory_is_a_small_file(tmp_path):
    """Without its states; curves between the stored times are drawn from the file."""
    run = aim.solve(
        aim.models.load("exact-linear"), degree=9, closure="gns", times=np.linspace(0, 0.4, 9),
        observables=["t_1", "q_11", "q_12", "p_12", "p_11", "loss"], check=False,
    )  # fmt: skip
    path = run.save(tmp_path / "run.nc")
    assert path.stat().st_size < 60_000
    assert run.save(tmp_path / "states.nc", states=True).stat().st_size > 10 * path.stat().st_size
    back = aim.load(path)
    assert back.states is None
    assert np.array_equal(back["tr(S1 S1 S2 S2)"], run["tr(S1 S1 S2 S2)"])
    for name in run.values:
        for one, other in zip(back.curve(name), run.curve(name, 101), strict=True):
            assert np.array_equal(one, other)
    assert np.array_equal(back.at([0.17])["p_12"], run.at([0.17])["p_12"])
    assert len(back.curve("p_12")[0]) > 100
    measure = back.spectral_measure(0.4)
    assert measure == run.spectral_measure(0.4)
