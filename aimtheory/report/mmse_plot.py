"""Learning curves: the Bayes-optimal error against the sample complexity, and measured errors over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from aimtheory.bayes import BranchCurve, LearningCurve
from aimtheory.errors import InputError
from aimtheory.report.style import GREY, LINES, MARKERS, colour, new_figure

ALPHA_LABEL = r"sample complexity $\alpha = n/d^2$"
SCALED_LABEL = r"$\alpha/\rho = n/(\rho\, d^2)$"
MMSE_LABEL = r"MMSE $= \| \hat S - S \|_F^2 / d$"


@dataclass(frozen=True, eq=False)
class MeasuredPoints:
    """Errors that were measured at some alpha, with one standard error or None.

    They are drawn in ``color``, else in that of the curve named ``curve``, else in black, filled or not; ``joined``
    draws a thin line through them.
    """

    alpha: ArrayLike
    mmse: ArrayLike
    error: ArrayLike | None = None
    curve: str | None = None
    joined: bool = False
    color: str | None = None
    filled: bool = False


def mmse_plot(
    curves: Mapping[str, BranchCurve] | Sequence[LearningCurve] | LearningCurve,
    points: Mapping[str, MeasuredPoints] = MappingProxyType({}),
    *,
    title: str | None = None,
    alpha_label: str | None = None,
    logarithmic: bool = False,
    legend_title: str | None = None,
) -> Figure:
    """MMSE against alpha, a line a curve, markers for measured errors.

    Jumps of a curve at its first-order transitions, and points that did not converge, are gaps. A thin vertical line
    stands at the perfect recovery of a ``LearningCurve`` where the axis reaches it, a grey band over its hard phase.
    ``logarithmic`` is the scale of the error. Raises ``InputError`` when there is nothing to draw, or when curves in
    alpha and in alpha/width would share the axis.
    """
    named, details = _named(curves)
    if not named and not points:
        raise InputError("a figure of learning curves needs at least one curve or one set of points")
    units = {curve.unit for curve in named.values()}
    if len(units) > 1 and alpha_label is None:
        raise InputError("curves in units of alpha and of alpha/width cannot share an axis; draw them apart")
    figure, (axes,) = new_figure(7.6, 4.4)
    colours = {label: colour(n) for n, label in enumerate(named)}
    marked: set[float] = set()
    for n, (label, curve) in enumerate(named.items()):
        detail = details.get(label)
        alpha, mmse = _with_gaps(curve, [] if detail is None else [item.alpha for item in detail.transitions])
        if logarithmic:
            mmse = np.where(mmse > 0, mmse, np.nan)
        axes.plot(
            alpha, mmse, color=colours[label], linestyle=LINES[n % len(LINES)], linewidth=1.9, label=label,
            marker="o" if len(curve.alpha) == 1 else "",
        )  # fmt: skip
        if detail is None:
            continue
        top = float(np.nanmax(curve.alpha))
        if detail.perfect <= top * (1 + 1e-12) and detail.perfect not in marked:
            marked.add(detail.perfect)
            axes.axvline(detail.perfect, color=colours[label], linewidth=0.8, alpha=0.7)
        for item in detail.transitions:
            if item.alpha < top:
                axes.axvspan(*item.hard_phase, color=GREY, alpha=0.18, linewidth=0)
    for n, (label, measured) in enumerate(points.items()):
        if measured.curve is not None and measured.curve not in colours:
            raise InputError(f"the points {label!r} follow the curve {measured.curve!r}, which is not drawn")
        shade = measured.color or ("black" if measured.curve is None else colours[measured.curve])
        axes.errorbar(
            np.asarray(measured.alpha, dtype=np.float64),
            np.asarray(measured.mmse, dtype=np.float64),
            yerr=None if measured.error is None else np.nan_to_num(np.asarray(measured.error, dtype=np.float64)),
            fmt=MARKERS[n % len(MARKERS)],
            color=shade,
            markerfacecolor=shade if measured.filled else "white",
            markersize=4.2,
            markeredgewidth=1.0,
            linewidth=0.9,
            linestyle=(0, (1.5, 2.0)) if measured.joined else "none",
            capsize=2.0,
            zorder=5,
            label=label,
        )
    axes.set_xlabel(alpha_label or (ALPHA_LABEL if "alpha" in units or not units else SCALED_LABEL))
    axes.set_ylabel(MMSE_LABEL)
    if logarithmic:
        axes.set_yscale("log")
    else:
        # A little below 0, so that a line at perfect recovery is seen whole.
        axes.set_ylim(bottom=-0.02)
    axes.margins(x=0.02)
    axes.legend(
        frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0), title=legend_title, alignment="left"
    )
    if title is not None:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def _named(
    curves: Mapping[str, BranchCurve] | Sequence[LearningCurve] | LearningCurve,
) -> tuple[dict[str, BranchCurve], dict[str, LearningCurve]]:
    """Curves by label, and what more is known of them."""
    if isinstance(curves, Mapping):
        return dict(curves), {}
    listed = [curves] if isinstance(curves, LearningCurve) else list(curves)
    details: dict[str, LearningCurve] = {}
    for item in listed:
        label, copy = item.label, 2
        while label in details:
            label, copy = f"{item.label} ({copy})", copy + 1
        details[label] = item
    return {label: item.curve for label, item in details.items()}, details


def _with_gaps(curve: BranchCurve, jumps: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The curve with a NaN at every jump, so that no line crosses it."""
    alpha, mmse = np.ravel(curve.alpha), np.ravel(curve.mmse)
    order = np.argsort(alpha, kind="stable")
    alpha, mmse = alpha[order], mmse[order]
    if curve.branch != "equilibrium":
        return alpha, mmse
    places = [int(np.searchsorted(alpha, jump)) for jump in jumps]
    return np.insert(alpha, places, jumps), np.insert(mmse, places, np.nan)


__all__ = ["ALPHA_LABEL", "MMSE_LABEL", "SCALED_LABEL", "MeasuredPoints", "mmse_plot"]
