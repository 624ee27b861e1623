"""Theory against simulation: curves of closed hierarchies, points of SGD with their standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aimtheory.dynamics import Trajectory
from aimtheory.errors import InputError
from aimtheory.report.style import (
    GREY,
    LINES,
    MARKERS,
    UNTRUSTED_LINE,
    colour,
    new_figure,
    observable_label,
    plain_text,
    shades,
    time_label,
)
from aimtheory.report.trajectory_plot import draw_curve, mark_trust
from aimtheory.simulate import SgdRun
from aimtheory.simulate.comparison import time_unit


def comparison_plot(
    theory: Mapping[str, Trajectory] | Trajectory = MappingProxyType({}),
    simulation: SgdRun | None = None,
    observables: Sequence[str] = ("p_12",),
    *,
    title: str | None = None,
) -> Figure:
    """Curves of one or more trajectories, by label, and the mean over seeds of an SGD run, bars of one standard error.

    One panel an observable. A curve is dotted and faded after its ``trusted_until``; curves that diverge are clipped to
    the range of the first trajectory and the simulation, so put the best closure first. Without at least two seeds
    there are no error bars. Curves of another model than the simulation (or than the first trajectory) are named as
    such below the title. Raises ``InputError`` when there is nothing to draw, and when the times of two models are in
    different units, which no axis shows.
    """
    curves = {theory.closure.name: theory} if isinstance(theory, Trajectory) else dict(theory)
    names = (observables,) if isinstance(observables, str) else tuple(observables)
    if not (curves or simulation) or not names:
        raise InputError("a comparison needs at least one trajectory or simulation, and one observable")
    figure, panels = new_figure(1.8 + 4.9 * len(names), 4.3, panels=len(names))
    colours = [colour(n) for n in range(len(curves))] if len(curves) <= 4 else [colour(1), *shades(len(curves) - 1)]
    model = (next(iter(curves.values())) if simulation is None else simulation).model
    foreign = [label for label, run in curves.items() if run.model != model]
    for label, run in curves.items():
        if run.model.clock != model.clock:
            raise InputError(
                f"the times of {label!r} are {time_unit(run.model)}, those of {model.name!r} {time_unit(model)}: they "
                "cannot share an axis; draw them apart"
            )
    for axes, name in zip(panels, names, strict=True):
        lows, highs = [], []
        for n, (label, run) in enumerate(curves.items()):
            if not len(run.times):
                raise InputError(f"the trajectory {label!r} reached no time ({run.status.code}), so it cannot be drawn")
            draw_curve(
                axes,
                run,
                name,
                label=label,
                color=colours[n],
                linestyle=LINES[n % len(LINES)],
                width=2.2 if n == 0 else 1.5,
                marker="" if n == 0 else MARKERS[n % len(MARKERS)],
            )
            if n == 0:
                mark_trust(axes, run)
                lows.append(np.min(run[name]))
                highs.append(np.max(run[name]))
        if simulation is not None:
            mean, error = simulation.mean(name), simulation.standard_error(name)
            bars = None if not np.isfinite(error).any() else np.nan_to_num(error)
            seeds = len(simulation.seeds)
            label = f"SGD, d = {simulation.dim}, {seeds} seed{'s' if seeds > 1 else ''}"
            axes.errorbar(
                simulation.times, mean, yerr=bars, fmt="o", color="black", markersize=4.5,
                markerfacecolor="white", capsize=2.5, linewidth=1.1, zorder=5, label=label,
            )  # fmt: skip
            lows.append(np.nanmin(mean))
            highs.append(np.nanmax(mean))
        low, high = float(min(lows)), float(max(highs))
        margin = 0.12 * (high - low or 1.0)
        axes.set_ylim(low - margin, high + margin)
        axes.set_xlabel(time_label(model) if len(names) == 1 else time_label(model).split("   ")[0])
        axes.set_ylabel(observable_label(name))
        axes.margins(x=0.02)
    untrusted = any(len(run.times) and run.trusted_until < run.times[-1] for run in curves.values())
    handles, labels = panels[0].get_legend_handles_labels()
    if untrusted:
        handles.append(Line2D([], [], color=GREY, linestyle=UNTRUSTED_LINE, linewidth=1.5))
        labels.append("dotted: past trusted_until")
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=9)
    heading = title or plain_text(model.name)
    if foreign:
        first = "SGD" if simulation is not None else next(iter(curves))
        heading += f"\nNot one model: {', '.join(foreign)} of another than {first}"
    figure.suptitle(heading, fontsize=10, x=0.01, ha="left")
    return figure


__all__ = ["comparison_plot"]
