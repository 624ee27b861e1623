"""``aimtheory demo``: derive, close, solve, simulate, compare, plot: the tour, under a minute on two cores."""

from __future__ import annotations

import argparse
import os
import sys
import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimtheory.cli.options import Subparsers, command
from aimtheory.cli.session import Session
from aimtheory.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from aimtheory.dynamics import Trajectory
    from aimtheory.simulate import SgdRun

MODEL = "tied-softmax"
EXACT = "exact-linear"
FILES = {
    "derivation.tex": "model, potential and equations, a LaTeX document",
    "graph.graphml": "dependency graph of the moments, for a graph viewer",
    "graph.png": "the same graph as a picture",
    "truncation.png": "error of the zero closure by degree and time",
    "comparison.png": "theory and SGD: overlap, loss and how the zero closure leaves them",
    "spectrum.png": "spectrum of the student, theory against SGD eigenvalues",
    "run.nc": "the trajectory; read it with aim.Trajectory.load or xarray",
    "sgd.json": "the SGD runs, every seed",
    "demo.json": "every number of this tour",
}
_DIM, _SEEDS, _RATE, _BATCH = 150, 4, 0.02, 64


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "demo",
        "take the tour: derive, close, solve, simulate, compare, plot (under a minute)",
        "  aimtheory demo\n  aimtheory demo --directory somewhere --force",
        output=None,
    )
    parser.add_argument(
        "-o", "--directory", default="aimtheory-demo", metavar="FOLDER", help="where to write (default ./%(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the files of an earlier demo")
    parser.set_defaults(run=run, saves=True)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """The tour, one stop after another."""
    folder = _folder(Path(arguments.directory), session.force)
    _one_thread()
    start = clock.perf_counter()
    record: dict[str, Any] = {"kind": "demo"}
    _derivation(folder, session, record)
    _truncation(folder, session, record)
    theory = _trajectory(folder, session, record)
    simulation = _simulation(folder, session, record, theory)
    _comparison(folder, session, record, theory, simulation)
    _spectrum(folder, session, simulation)
    seconds = clock.perf_counter() - start
    record |= {"seconds": seconds, "directory": str(folder), "files": list(FILES)}

    from aimtheory.report import to_json

    (folder / "demo.json").write_text(to_json(record), encoding="utf-8")
    session.say(f"\nDone in {seconds:.0f} s. Written to {folder}/")
    session.say("\n".join(f"  {name:<15} {what}" for name, what in FILES.items()))
    session.say(
        "\nWhere to go next\n"
        f"  aimtheory derive {MODEL} --degree 4                     more equations; --format latex, graphml, python\n"
        f"  aimtheory solve {MODEL} --times 0:8:17                  longer; --closure gns --degree 11; -o run.nc\n"
        f"  aimtheory models --show {MODEL} > mine.toml             a model of your own; every command takes the file\n"
        f"  aimtheory plot {folder}/run.nc {folder}/sgd.json --observables p_12 -o mine.png"
    )
    session.emit(record)
    return 0


def _folder(folder: Path, force: bool) -> Path:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give the name of a folder with --directory")
    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise InputError(
            f"{folder} holds files of an earlier demo ({', '.join(there)}) and is kept; use --force to overwrite them, "
            "or --directory FOLDER"
        )
    if not folder.parent.is_dir():
        raise InputError(f"the folder {folder.parent} does not exist; make it first")
    folder.mkdir(exist_ok=True)
    return folder


def _one_thread() -> None:
    """Linear algebra on one thread, unless the user chose otherwise.

    At this size more threads gain little and, on a busy machine, cost much in waiting for each other.
    """
    if "numpy" not in sys.modules:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")


def _heading(session: Session, number: int, text: str) -> None:
    session.say(f"\n{number}. {text}\n")


def _save(figure: Figure, path: Path) -> None:
    from aimtheory.report import save_figure

    save_figure(figure, path)


def _derivation(folder: Path, session: Session, record: dict[str, Any]) -> None:
    from aimtheory import library
    from aimtheory.cli.derive import closed_potential, graphml, text
    from aimtheory.hierarchy import derive
    from aimtheory.records import as_data
    from aimtheory.report import derivation_latex, graph_plot

    _heading(
        session, 1, f"The moment equations of {MODEL} to degree 3: softmax attention, 2 tokens, S = W W^T, squared loss"
    )
    hierarchy = derive(library.load(MODEL), 3)
    potential = closed_potential(hierarchy)
    session.say(text(hierarchy, potential).rstrip("\n"))
    (folder / "derivation.tex").write_text(derivation_latex(hierarchy, potential), encoding="utf-8")
    (folder / "graph.graphml").write_text(graphml(hierarchy), encoding="utf-8")
    _save(graph_plot(hierarchy), folder / "graph.png")
    record["derivation"] = as_data(hierarchy, potential=None if potential is None else str(potential))


def _truncation(folder: Path, session: Session, record: dict[str, Any]) -> None:
    import numpy as np

    from aimtheory import library
    from aimtheory.dynamics import truncation_study
    from aimtheory.records import as_data
    from aimtheory.report import truncation_plot

    _heading(session, 2, f"Truncation: setting words above degree M to zero, on the exactly solvable model {EXACT}")
    times = np.array([0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5])
    study = truncation_study(
        library.load(EXACT),
        degrees=[4, 6, 8, 10, 12],
        times=times,
        closure="zero",
        progress=session.progress("truncation"),
    )
    session.say(study.table())
    _save(truncation_plot(study), folder / "truncation.png")
    record["truncation"] = as_data(study)


def _trajectory(folder: Path, session: Session, record: dict[str, Any]) -> Trajectory:
    import numpy as np

    from aimtheory import library
    from aimtheory.dynamics import solve
    from aimtheory.records import as_data

    _heading(session, 3, f"The trajectory of {MODEL}, which is solved without truncation (closure 'auto')")
    theory = solve(library.load(MODEL), times=np.linspace(0, 4, 9))
    session.say(theory.table())
    session.say(str(theory.status))
    theory.save(folder / "run.nc", overwrite=True)
    record["trajectory"] = as_data(theory)
    return theory


def _simulation(folder: Path, session: Session, record: dict[str, Any], theory: Trajectory) -> SgdRun:
    from aimtheory.records import as_data
    from aimtheory.simulate import compare, sgd

    _heading(session, 4, f"Online SGD at d = {_DIM}, {_SEEDS} seeds, against that trajectory")
    simulation = sgd(
        theory.model,
        dim=_DIM,
        learning_rate=_RATE,
        batch=_BATCH,
        times=theory.times,
        seeds=range(_SEEDS),
        observables=["p_12", "t_1", "loss"],
        eigenvalues=["S1"],
        progress=session.progress("SGD"),
    )
    if session.interrupted:
        raise KeyboardInterrupt
    comparison = compare(theory, simulation, ["p_12"])
    session.say(str(comparison))
    simulation.save(folder / "sgd.json", overwrite=True, matrices=False)
    record["sgd"] = as_data(simulation)
    record["comparison"] = as_data(comparison)
    return simulation


def _comparison(folder: Path, session: Session, record: dict[str, Any], theory: Trajectory, simulation: SgdRun) -> None:
    from aimtheory.dynamics import solve
    from aimtheory.report import comparison_plot

    curves: dict[str, Trajectory] = {str(theory.closure): theory}
    trust = {}
    for degree in (4, 6, 8):
        zero = solve(theory.model, degree=degree, times=theory.times, closure="zero", observables=["p_12", "loss"])
        curves[f"zero, M = {degree}"] = zero
        trust[degree] = zero.trusted_until
    session.say(
        "the zero closure is trusted until "
        + ", ".join(f"t = {until:.2f} at M = {degree}" for degree, until in trust.items())
    )
    _save(
        comparison_plot(curves, simulation, ["p_12", "loss"], title=f"{MODEL}: theory and online SGD"),
        folder / "comparison.png",
    )
    record["zero_trusted_until"] = trust


def _spectrum(folder: Path, session: Session, simulation: SgdRun) -> None:
    from aimtheory.dynamics import solve
    from aimtheory.report import spectrum_plot

    middle = len(simulation.times) // 2
    time = float(simulation.times[middle])
    _heading(
        session,
        5,
        f"The spectrum of the student at t = {time:.3g}: the exact law, and eigenvalues of SGD",
    )
    fine = solve(simulation.model, times=[0.0, time], closure="exact", observables=["p_12"], check=False)
    measure = fine.spectral_measure(time, "S1")
    eigenvalues = simulation.eigenvalues["S1"][:, middle]
    for order in (1, 2, 3):
        session.say(f"tr S1^{order}: theory {measure.moment(order):.4f}, SGD {float((eigenvalues**order).mean()):.4f}")
    _save(spectrum_plot(fine.spectral_law(time, "S1"), eigenvalues, time=time), folder / "spectrum.png")


__all__ = ["FILES", "register", "run"]
