"""Phase diagrams: the Bayes-optimal error over width and sample complexity."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from aimtheory.bayes import PhaseDiagram
from aimtheory.errors import InputError
from aimtheory.report.mmse_plot import ALPHA_LABEL
from aimtheory.report.style import GREY, OKABE_ITO, new_figure

LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Errors at which contours are drawn, in units of the prior's variance, which is 1."""


def phase_diagram_plot(diagram: PhaseDiagram, *, title: str | None = None) -> Figure:
    """MMSE by colour over width (across) and alpha (up), contours, and the line of perfect recovery.

    The prior of [B] has variance tr S^2 - (tr S)^2 = 1 at every width, so that 1 is "nothing learned" and 0 perfect
    recovery. Points that did not converge or were not reached are left grey. Raises ``InputError`` for a diagram with
    fewer than two widths or two alphas, or with nothing finite in it.
    """
    width, alpha, mmse = diagram.width, diagram.alpha, diagram.mmse
    if len(width) < 2 or len(alpha) < 2:
        raise InputError(
            f"a diagram of {len(width)} x {len(alpha)} points cannot be drawn; give at least two of each, "
            "or draw one width with 'aimtheory bayes curve'"
        )
    if not np.isfinite(mmse).any():
        raise InputError(f"the diagram has no finite point ({diagram.status}), so it cannot be drawn")
    columns, rows = np.argsort(width, kind="stable"), np.argsort(alpha, kind="stable")
    width, alpha, mmse, perfect = width[columns], alpha[rows], mmse[np.ix_(columns, rows)], diagram.perfect[columns]
    figure, (axes,) = new_figure(7.0, 4.6)
    axes.grid(False)
    axes.set_facecolor("#cfcfcf")
    shown = np.ma.masked_invalid(mmse.T)
    image = axes.pcolormesh(width, alpha, shown, shading="nearest", cmap="viridis_r", vmin=0.0, vmax=1.0)
    image.set_rasterized(True)
    values = mmse[np.isfinite(mmse)]
    levels = [level for level in LEVELS if values.min() < level < values.max()]
    if levels:
        contours = axes.contour(width, alpha, shown, levels=levels, colors="white", linewidths=0.9)
        axes.clabel(contours, fmt="%.1f", fontsize=8)
    visible = np.isfinite(perfect) & (perfect <= alpha[-1]) & (perfect >= alpha[0])
    if visible.any():
        axes.plot(
            width, np.where(np.isfinite(perfect), perfect, np.nan), color=OKABE_ITO[1], linewidth=2.2,
            label="perfect recovery",
        )  # fmt: skip
        axes.legend(frameon=True, framealpha=0.85, fontsize=9, loc="upper right")
    axes.set_ylim(cell_edges(alpha))
    axes.set_xlim(cell_edges(width))
    axes.set_xlabel(r"width $\rho = r/d$")
    axes.set_ylabel(ALPHA_LABEL)
    bar = figure.colorbar(image, ax=axes)
    bar.set_label(r"MMSE $= \| \hat S - S \|_F^2 / d$   (prior: 1)")
    bar.outline.set_edgecolor(GREY)
    figure.suptitle(title or rf"{diagram.channel}, $T = {diagram.tokens}$", fontsize=10, x=0.01, ha="left")
    return figure


def cell_edges(centres: np.ndarray) -> tuple[float, float]:
    """The outer borders of cells with these centres."""
    return (
        float(centres[0] - (centres[1] - centres[0]) / 2),
        float(centres[-1] + (centres[-1] - centres[-2]) / 2),
    )


__all__ = ["LEVELS", "cell_edges", "phase_diagram_plot"]
