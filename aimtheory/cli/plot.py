"""``aimtheory plot``: figures of saved results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aimtheory.cli.options import Subparsers, command, positive_float, read_names
from aimtheory.cli.session import Session, suffix_of
from aimtheory.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "plot",
        "draw saved results: trajectories, a simulation over theory, a spectrum, Bayes curves, or any other alone",
        "  aimtheory plot run.nc -o run.png\n"
        "  aimtheory plot run.nc sgd.json --observables p_12,t_1 -o comparison.png\n"
        "  aimtheory plot run.nc sgd.json --spectrum 2 -o spectrum.png\n"
        "  aimtheory plot softmax.json hardmax.json -o curves.png",
        output="the figure, .png .pdf or .svg (default: the first FILE with .png)",
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="results saved with -o (.nc or .json): trajectories and a simulation, curves of 'bayes', or any other one",
    )
    parser.add_argument("--observables", metavar="LIST", help="what to draw, separated by commas")
    parser.add_argument(
        "--spectrum", metavar="T", help="the spectrum at time T of a trajectory (gns or matrix closure)"
    )
    parser.add_argument(
        "--matrix", default=None, metavar="S1", help="whose spectrum (default: the first trained matrix)"
    )
    parser.add_argument("--resolution", type=positive_float, help="smoothing of --spectrum, in eigenvalue units")
    parser.set_defaults(run=run, saves=True)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Read, draw, save."""
    from aimtheory.report import save_figure
    from aimtheory.results import load

    target = session.target(arguments.output or Path(arguments.files[0]).with_suffix(".png"))
    assert target is not None
    suffix_of(target, (".png", ".pdf", ".svg"))
    results = {path: load(path) for path in arguments.files}
    figure = draw(results, arguments)
    save_figure(figure, target)
    notes = differences(list(results.values()))
    session.say(f"wrote {target}")
    session.emit({"figure": str(target), "files": list(results), "notes": notes})
    for note in notes:
        session.remark(note)
    return 0


def differences(results: list[Any]) -> list[str]:
    """What a figure of these results shows side by side though it is not of one model, as ``compare`` says it."""
    from aimtheory.dynamics import Trajectory
    from aimtheory.simulate import SgdRun
    from aimtheory.simulate.comparison import model_differences

    runs = [item for item in results if isinstance(item, Trajectory)]
    simulations = [item for item in results if isinstance(item, SgdRun)]
    notes = [note for one in simulations for run in runs for note in model_differences(run.model, one.model)]
    if not simulations and any(run.model != runs[0].model for run in runs):
        notes.append("the trajectories are not of one model: " + ", ".join(repr(run.model) for run in runs))
    return list(dict.fromkeys(notes))


def draw(results: dict[str, Any], arguments: argparse.Namespace) -> Figure:
    """The figure that fits the results."""
    from aimtheory.bayes import PhaseDiagram
    from aimtheory.dynamics import Trajectory, TruncationStudy
    from aimtheory.report import (
        LearningCurve,
        comparison_plot,
        mmse_plot,
        phase_diagram_plot,
        trajectory_plot,
        truncation_plot,
    )
    from aimtheory.report.style import plain_text
    from aimtheory.simulate import SgdRun

    names = read_names(arguments.observables)
    drawn = (Trajectory, SgdRun, TruncationStudy, LearningCurve, PhaseDiagram)
    for path, item in results.items():
        if not isinstance(item, drawn):
            if len(results) > 1:
                raise InputError(f"{path} holds a {type(item).__name__}, which is drawn alone; give one file")
            return draw_alone(item, names)
    runs = {path: item for path, item in results.items() if isinstance(item, Trajectory)}
    simulations = [item for item in results.values() if isinstance(item, SgdRun)]
    studies = [item for item in results.values() if isinstance(item, TruncationStudy)]
    learning = [item for item in results.values() if isinstance(item, LearningCurve)]
    diagrams = [item for item in results.values() if isinstance(item, PhaseDiagram)]
    if learning or diagrams:
        if len(learning) < len(results) and len(results) > 1:
            raise InputError("Bayes curves are drawn with each other only, and a diagram alone; give these files apart")
        return mmse_plot(learning) if learning else phase_diagram_plot(diagrams[0])
    if studies:
        if len(results) > 1:
            raise InputError("a truncation study is drawn alone; give one file")
        return truncation_plot(studies[0])
    if len(simulations) > 1:
        raise InputError("one simulation can be drawn over theory; give one")
    if arguments.spectrum is not None:
        return _spectrum(list(runs.values()), simulations, arguments)
    if len(runs) == 1 and not simulations:
        return trajectory_plot(next(iter(runs.values())), names)
    labels = {run.method: run for run in runs.values()}
    if len(labels) < len(runs):
        distinct = len({Path(path).stem for path in runs}) == len(runs)
        fronts = [("" if distinct else f"{n}. ") + plain_text(Path(path).stem, 40) for n, path in enumerate(runs, 1)]
        labels = {f"{front}: {run.method}": run for front, run in zip(fronts, runs.values(), strict=True)}
    return comparison_plot(labels, simulations[0] if simulations else None, names or ["p_12"])


def draw_alone(result: Any, names: list[str] | None) -> Figure:
    """The figure of a result that is not drawn with others."""
    from aimtheory.bayes import BranchCurve
    from aimtheory.dynamics import Recovery, RecoveryDiagram
    from aimtheory.hierarchy import MomentHierarchy
    from aimtheory.report import (
        graph_plot,
        mmse_plot,
        recovery_diagram_plot,
        result_plot,
        spectrum_plot,
        trajectory_plot,
    )
    from aimtheory.spectra import SpectralMeasure

    if isinstance(result, MomentHierarchy):
        return graph_plot(result)
    if isinstance(result, RecoveryDiagram):
        return recovery_diagram_plot(result)
    if isinstance(result, BranchCurve):
        return mmse_plot({result.branch: result})
    if isinstance(result, SpectralMeasure):
        return spectrum_plot(result)
    if isinstance(result, Recovery) and result.trajectory is not None and len(result.trajectory.times):
        return trajectory_plot(result.trajectory, names)
    return result_plot(result, None if names is None else tuple(names))


def _spectrum(runs: list[Any], simulations: list[Any], arguments: argparse.Namespace) -> Figure:
    import numpy as np

    from aimtheory.report import spectrum_plot
    from aimtheory.scalars import to_scalar
    from aimtheory.simulate.comparison import time_unit

    if len(runs) != 1:
        raise InputError(f"--spectrum reads one trajectory, not {len(runs)}")
    run, time = runs[0], float(to_scalar(arguments.spectrum, "--spectrum"))
    for simulation in simulations:
        if simulation.model.clock != run.model.clock:
            units = f"{time_unit(run.model)} in the trajectory and {time_unit(simulation.model)} in the simulation"
            raise InputError(f"t = {time:g} is two times, {units}: their models are different ones")
    matrix = arguments.matrix or str(run.views.trainable_letters[0])
    smoothed = arguments.resolution is not None
    law = run.spectral_measure(time, matrix) if smoothed else run.spectral_law(time, matrix)
    eigenvalues = None
    if simulations:
        simulation = simulations[0]
        if matrix not in simulation.eigenvalues:
            raise InputError(f"the simulation kept no eigenvalues of {matrix}; simulate with --eigenvalues {matrix}")
        # SGD times are whole steps: the nearest one, within half a step of what was asked for.
        column = int(np.argmin(np.abs(simulation.times - time)))
        if abs(simulation.times[column] - time) > 1e-2 * max(1.0, time):
            raise InputError(
                f"the simulation has no time {time:g}; its times are {', '.join(f'{t:g}' for t in simulation.times)}"
            )
        eigenvalues = simulation.eigenvalues[matrix][:, column]
    return spectrum_plot(law, eigenvalues, time=time, matrix=matrix, resolution=arguments.resolution)


__all__ = ["draw", "register", "run"]
