"""Trajectories over time, with the part that is not trusted drawn differently."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aimtheory.dynamics import Trajectory
from aimtheory.errors import InputError
from aimtheory.report.style import (
    GREY,
    LINES,
    UNTRUSTED_LINE,
    colour,
    new_figure,
    observable_label,
    plain_text,
    time_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]


def trajectory_plot(run: Trajectory, observables: Sequence[str] | None = None) -> Figure:
    """Observables of one trajectory over time.

    Solid up to ``trusted_until``, dotted and faded after, which a vertical line marks; the band is the estimated error.
    Raises ``InputError`` for a trajectory that reached no time.
    """
    names = tuple(run.values) if observables is None else tuple(observables)
    if not len(run.times):
        raise InputError(f"the trajectory reached no time ({run.status.code}), so there is nothing to plot")
    if not names:
        raise InputError("no observables to plot; name at least one, such as 'p_12'")
    figure, (axes,) = new_figure(7.2, 4.4)
    for n, name in enumerate(names):
        draw_curve(axes, run, name, label=observable_label(name), color=colour(n), linestyle=LINES[n % len(LINES)])
    mark_trust(axes, run)
    axes.set_xlabel(time_label(run.model))
    axes.set_ylabel(observable_label(names[0]) if len(names) == 1 else "order parameters")
    axes.set_title(f"{plain_text(run.model.name)}: {run.method}", fontsize=10, loc="left")
    axes.margins(x=0.02)
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def draw_curve(
    axes: Axes,
    run: Trajectory,
    name: str,
    *,
    label: str,
    color: Any,
    linestyle: Any = "-",
    width: float = 1.8,
    marker: str = "",
) -> None:
    """One observable of a trajectory into given axes: solid to ``trusted_until``, faded after, with its error band."""
    times, values = run.curve(name)
    trusted = ~(times > run.trusted_until * (1 + 1e-12))  # all of a run that was not compared
    last = int(trusted.sum())
    if len(times) == len(run.times) <= 40 and not marker:
        marker = "."  # straight lines between few stored times: show where the values are
    marks: dict[str, Any] = (
        {"marker": marker, "markersize": 4.5, "markevery": max(1, len(times) // 14)} if marker else {}
    )
    if last:
        axes.plot(times[:last], values[:last], color=color, linestyle=linestyle, linewidth=width, label=label, **marks)
    if last < len(times):
        start = max(0, last - 1)
        faded = {"color": color, "linestyle": UNTRUSTED_LINE, "linewidth": width, "alpha": 0.6}
        axes.plot(times[start:], values[start:], **faded, **marks, label="_" if last else label)
    errors = run.errors.get(name)
    if errors is not None and np.isfinite(errors).any():
        shown = np.isfinite(errors) & (run.times <= run.trusted_until)
        low, high = run[name] - errors, run[name] + errors
        axes.fill_between(run.times, low, high, where=list(shown), color=color, alpha=0.15, linewidth=0)
    if len(run.times) == 1:
        axes.plot(run.times, run[name], "o", color=color)


def mark_trust(axes: Axes, run: Trajectory, color: str = GREY) -> None:
    """A vertical line where trust ends, when it ends before the last time."""
    if not len(run.times) or not run.trusted_until < run.times[-1]:
        return
    axes.axvline(run.trusted_until, color=color, linewidth=0.9)
    late = run.trusted_until > 0.6 * run.times[-1]
    axes.annotate(
        f"trusted until t = {run.trusted_until:.3g}",
        (run.trusted_until, 0.98),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if late else 4, 0),
        textcoords="offset points",
        ha="right" if late else "left",
        va="top",
        fontsize=8,
        color=color,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )


__all__ = ["draw_curve", "mark_trust", "trajectory_plot"]
