"""The spectrum of an attention matrix: the theory's smoothed density against the eigenvalues of a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from aimtheory.errors import InputError
from aimtheory.report.style import OKABE_ITO, letter_symbol, new_figure
from aimtheory.spectra import SpectralMeasure

_FINEST = 0.055
"""Smallest default resolution as a part of the span."""


def spectrum_plot(
    measure: SpectralMeasure,
    eigenvalues: ArrayLike | None = None,
    *,
    time: float | None = None,
    matrix: str = "S1",
    resolution: float | None = None,
    simulation: str = "SGD",
) -> Figure:
    """The spectral density (left) and its integral (right) of a measure, over the eigenvalues of a simulation if given.

    The measure is a Gauss quadrature, so a density exists only after smoothing: ``resolution`` is the deviation of
    the Gaussian kernel, see ``default_resolution``. It is written into the figure, and the eigenvalues are smoothed
    alike for comparison (dashed). The integral is shown unsmoothed. ``matrix`` is the name of the matrix for the
    labels. Raises ``InputError`` for eigenvalues that are not finite.
    """
    spectrum = None if eigenvalues is None else np.sort(np.ravel(np.asarray(eigenvalues, dtype=np.float64)))
    if spectrum is not None and (not spectrum.size or not np.isfinite(spectrum).all()):
        raise InputError(
            "the eigenvalues to compare with are empty or hold a NaN; the simulation did not reach this time"
        )
    low, high = float(measure.nodes[0]), float(measure.nodes[-1])
    width = default_resolution(measure) if resolution is None else resolution
    if spectrum is not None:
        low, high = min(low, float(spectrum[0])), max(high, float(spectrum[-1]))
    grid = np.linspace(low - 3 * width, high + 3 * width, 801)
    figure, (density, integral) = new_figure(10.0, 4.0, panels=2)
    if spectrum is not None:
        bins = int(np.clip(2 * (high - low) / width, 12, 60))
        style: dict[str, Any] = {"color": OKABE_ITO[5], "alpha": 0.55, "edgecolor": "white", "linewidth": 0.4}
        # The same kernel on both sides: what remains of a difference is not the smoothing.
        alike = SpectralMeasure(spectrum, np.full(spectrum.size, 1 / spectrum.size))
        density.plot(
            grid, alike.density(grid, width), color=OKABE_ITO[0], linewidth=1.5, linestyle=(0, (5, 2)), zorder=3,
            label=f"{simulation}, smoothed alike",
        )  # fmt: skip
        density.hist(
            spectrum,
            bins=bins,
            range=(low, high),
            density=True,
            **style,
            label=f"{simulation}, {spectrum.size} eigenvalues",
        )
        steps = np.arange(1, spectrum.size + 1) / spectrum.size
        integral.step(spectrum, steps, where="post", color=OKABE_ITO[5], linewidth=3.0, label=simulation)
    density.plot(
        grid,
        measure.density(grid, width),
        color=OKABE_ITO[1],
        linewidth=1.8,
        label=f"theory, smoothed over {width:.2g}",
    )
    integral.plot(
        grid,
        measure.cdf(grid),
        color=OKABE_ITO[1],
        linewidth=1.3,
        drawstyle="steps-post",
        label="theory, Gauss quadrature",
    )
    for axes, name in ((density, "spectral density"), (integral, r"fraction of eigenvalues $\leq \lambda$")):
        axes.set_xlabel(rf"eigenvalue $\lambda$ of ${letter_symbol(matrix)}$")
        axes.set_ylabel(name)
        axes.legend(frameon=False, fontsize=8)
    density.set_ylim(bottom=0)
    if time is not None:
        figure.suptitle(rf"spectrum of ${letter_symbol(matrix)}$ at $t = {time:.3g}$", fontsize=10, x=0.01, ha="left")
    return figure


def default_resolution(measure: SpectralMeasure) -> float:
    """0.7 x the span of the nodes over their effective number 1/sum(w^2): finer detail is that of the quadrature.

    Late nodes cluster, which inflates that number; hence at least a fixed part of the span.
    """
    span = float(measure.nodes[-1] - measure.nodes[0])
    if span == 0:
        return measure.resolution
    weights = measure.weights / measure.mass
    return span * max(0.7 * float(weights @ weights), _FINEST)


__all__ = ["default_resolution", "spectrum_plot"]
