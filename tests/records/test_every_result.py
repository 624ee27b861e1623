"""Every kind of result: to a file and back in a fresh process, through a process pool, into tables and figures."""

import contextlib
import copy
import importlib
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import aimtheory as aim
from aimtheory.bayes import FixedPoint, Threshold
from aimtheory.cli import main
from aimtheory.dynamics import trajectory
from aimtheory.records import Result, kind_of
from aimtheory.records import registry as known


@pytest.fixture(scope="module")
def every_result():
    """The module beside this one, under a name that another process can import."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parent)
        yield importlib.import_module("every_result")


@pytest.fixture(scope="module")
def results(every_result):
    return every_result.results()


@pytest.fixture(scope="module")
def fresh(every_result):
    """One process that has computed nothing of this."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_every_kind_is_here(results):
    """A result whose kind has no example here is not tested."""
    defined = {
        entry.kind
        for entry in known._BY_KIND.values()
        if issubclass(entry.cls, Result) and entry.cls.__module__.startswith("aimtheory.")
    }
    absent = {"bayes-multi-index-fixed-point"}  # needs seconds of cubature; below by hand
    assert defined - {kind_of(result) for result in results.values()} == absent


def test_files_survive_a_fresh_process(every_result, results, fresh, tmp_path):
    """Saved here, loaded and saved there, loaded here: equal, and unstored observables read there are those here."""
    for name, result in results.items():
        result.save(tmp_path / f"{name}.nc")
    read = fresh.submit(every_result.read_and_write, tmp_path).result()
    assert len(read) == 2 * sum(name.startswith("trajectory") or name == "softmax" for name in results)
    for (file, observable), values in read.items():
        assert np.array_equal(values, results[Path(file).stem][observable]), (file, observable)
    for name, result in results.items():
        back = aim.load(tmp_path / f"{name}.back.json")
        assert back == result, name
        assert repr(back) == repr(result)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_random_models_survive_from_every_start(every_result, fresh, tmp_path, monkeypatch, every):
    """Ten random models, from one kind of start each or from every one: equal after a trip through a fresh process, and
    the states, which the files leave out, are made again there to the last bit.
    """
    monkeypatch.setattr(trajectory, "_SMALL", 0)
    runs, kinds = {}, set()
    for n, model in enumerate(every_result.random_models()):
        starts = every_result.initials(model)
        for kind in starts if every else [list(starts)[(n - 3) % len(starts)]]:
            options = {"degree": 3, "closure": "zero", "check": False, "observables": ["t_1"]} | starts[kind]
            run = runs[f"random {n} {kind}"] = aim.solve(model, times=[0, 0.01], **options)
            assert aim.load(run.save(tmp_path / f"random {n} {kind}.json")).states is None
            kinds.add(kind)
    assert kinds == {"laws", "initial law", "family", "moments", "parameters", "mean"}
    assert len(runs) >= (50 if every else 10)
    read = fresh.submit(every_result.read_and_write, tmp_path).result()
    assert len(read) == 2 * len(runs)
    for (file, observable), values in read.items():
        assert np.array_equal(values, runs[Path(file).stem][observable]), (file, observable)
    for name, run in runs.items():
        assert aim.load(tmp_path / f"{name}.back.json") == run, name


def test_results_travel_to_spawned_processes(results, fresh):
    values = list(results.values())
    assert list(fresh.map(copy.deepcopy, values, chunksize=len(values))) == values


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


def test_every_result_is_drawn_from_its_file(results, tmp_path, capsys, monkeypatch):
    """By the command; ``slow`` renders each, this one only lays out the figure of each and renders one."""
    whole, drawn = Figure.savefig, {}
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: drawn.update({str(path): figure}))
    for name, result in results.items():
        path = result.save(tmp_path / f"{name}.json")
        assert main(["plot", str(path), "-o", str(tmp_path / f"{name}.png")]) == 0, name
    assert len(drawn) == len(results)
    assert all(figure.axes for figure in drawn.values())
    monkeypatch.setattr(Figure, "savefig", whole)
    assert main(["plot", str(tmp_path / "amp.json"), "-o", str(tmp_path / "real.png")]) == 0
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote" in capsys.readouterr().out


@pytest.mark.slow
def test_every_figure_is_rendered(results, tmp_path):
    for name, result in results.items():
        path = result.save(tmp_path / f"{name}.nc")
        assert main(["plot", str(path)]) == 0, name
        assert path.with_suffix(".png").stat().st_size > 5_000, name


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


def test_a_run_of_degree_fifteen_is_below_two_hundred_kilobytes(tmp_path):
    """65,025 variables at each of 9 times, 6 observables: the states alone are 40 MB, and are made again when read."""
    run = aim.solve(
        aim.models.load("exact-linear"), degree=15, closure="gns", times=np.linspace(0, 0.4, 9),
        observables=["t_1", "q_11", "q_12", "p_12", "p_11", "loss"], check=False,
    )  # fmt: skip
    assert run.states.size > 5e5
    path = run.save(tmp_path / "run.nc")
    assert path.stat().st_size < 200_000
    assert aim.load(path) == run
