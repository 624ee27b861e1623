"""Phase diagrams of recovery: escape velocity, and threshold time where it was followed, over two parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from aimtheory.dynamics import RecoveryDiagram
from aimtheory.errors import InputError
from aimtheory.report.phase_diagram_plot import cell_edges
from aimtheory.report.style import GREY, new_figure


def recovery_diagram_plot(diagram: RecoveryDiagram, *, title: str | None = None) -> Figure:
    """The velocity dp_12/dt by colour over the two parameters, zero white, and beside it the threshold time when known.

    Points without recovery carry a cross; points outside the theory's assumptions are grey. Raises ``InputError`` for
    fewer than two values of a parameter, or with nothing finite to draw.
    """
    first, second = diagram.first, diagram.second
    if len(first) < 2 or len(second) < 2:
        raise InputError(f"a diagram of {len(first)} x {len(second)} points cannot be drawn; give at least two of each")
    if not np.isfinite(diagram.velocity).any():
        raise InputError("the diagram has no finite velocity, so it cannot be drawn; see its failures")
    rows, columns = np.argsort(first, kind="stable"), np.argsort(second, kind="stable")
    first, second = first[rows], second[columns]

    def ordered(table: np.ndarray) -> np.ndarray:
        return table[np.ix_(rows, columns)]

    followed = np.isfinite(diagram.threshold_time).any()
    figure, axes = new_figure(9.6 if followed else 5.6, 4.2, 2 if followed else 1)
    velocity = ordered(diagram.velocity)
    size = max(float(np.nanmax(np.abs(velocity))), 1e-12)
    diverging: dict[str, Any] = {"cmap": "RdBu_r", "norm": TwoSlopeNorm(0.0, -size, size)}
    panels = [(velocity, "escape velocity $dp_{12}/dt$ at $t = 0$", diverging)]
    if followed:
        panels.append((ordered(diagram.threshold_time), "threshold time $T$", {"cmap": "viridis_r"}))
    stuck = ordered(diagram.recovers) == 0
    for ax, (table, label, look) in zip(axes, panels, strict=True):
        ax.grid(False)
        ax.set_facecolor("#cfcfcf")
        image = ax.pcolormesh(first, second, np.ma.masked_invalid(table.T), shading="nearest", **look)
        image.set_rasterized(True)
        if stuck.any():
            i, j = np.nonzero(stuck)
            (crosses,) = ax.plot(first[i], second[j], "x", color="black", markersize=5)
        ax.set_xlim(cell_edges(first))
        ax.set_ylim(cell_edges(second))
        ax.set_xlabel(diagram.first_name)
        ax.set_ylabel(diagram.second_name)
        bar = figure.colorbar(image, ax=ax)
        bar.set_label(label)
        bar.outline.set_edgecolor(GREY)
    if stuck.any():
        figure.legend([crosses], ["does not recover"], loc="outside lower center", frameon=False, fontsize=9)
    figure.suptitle(title or "weak recovery", fontsize=10, x=0.01, ha="left")
    return figure


__all__ = ["recovery_diagram_plot"]
