"""Truncation studies: error by degree and by time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from aimtheory.dynamics import TruncationStudy
from aimtheory.report.style import GREY, MARKERS, new_figure, observable_label, plain_text, shades, time_label


def truncation_plot(study: TruncationStudy) -> Figure:
    """The error of a closure against its degree (left, a line a time) and against time (right, a line a degree).

    Log scales; the vertical line on the right is t*, past which a larger degree makes it worse.
    """
    figure, (by_degree, by_time) = new_figure(11.5, 4.3, panels=2)
    error = np.where(np.isfinite(study.error) & (study.error > 0), study.error, np.nan)
    shown = [n for n, time in enumerate(study.times) if time > 0]
    for shade, n in zip(shades(len(shown)), shown, strict=True):
        by_degree.semilogy(
            study.degrees,
            error[:, n],
            color=shade,
            marker=MARKERS[n % len(MARKERS)],
            markersize=5,
            label=f"$t = {study.times[n]:.3g}$",
        )
    by_degree.set_xlabel("truncation degree $M$")
    by_degree.set_xticks(study.degrees)
    by_degree.set_ylabel("error in " + ", ".join(map(observable_label, study.observables)))
    by_degree.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for n, (shade, degree) in enumerate(zip(shades(len(study.degrees)), study.degrees, strict=True)):
        by_time.loglog(
            study.times[shown],
            error[n, shown],
            color=shade,
            marker=MARKERS[n % len(MARKERS)],
            markersize=5,
            label=f"$M = {degree}$",
        )
    by_time.set_xlabel(time_label(study.model))
    by_time.set_ylabel(f"error against {study.reference}")
    if np.isfinite(study.convergence_time):
        by_time.axvline(study.convergence_time, color=GREY, linewidth=0.9)
        by_time.annotate(
            rf"$t^\star \approx {study.convergence_time:.2g}$",
            (study.convergence_time, 0.03),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=GREY,
            fontsize=9,
        )
    by_time.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    if study.times[shown[-1]] < 30 * study.times[shown[0]]:
        # Less than a decade or two: the automatic ticks of a log axis overlap or are missing.
        ticks = [study.times[shown[n]] for n in sorted({0, len(shown) // 3, 2 * len(shown) // 3, len(shown) - 1})]
        by_time.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
        by_time.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(
        f"{plain_text(study.model.name)}: {study.closure} closure against {study.reference}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return figure


__all__ = ["truncation_plot"]
