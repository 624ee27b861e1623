"""The spectrum of an attention matrix: the theory's density, exact or smoothed, against eigenvalues of a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError
from aimtheory.report.style import OKABE_ITO, letter_symbol, new_figure
from aimtheory.spectra import DressedSpectrum, SpectralMeasure

FloatArray = NDArray[np.float64]

_FINEST = 0.055
"""Smallest default resolution as a part of the span."""

_POINTS = 401
_BARS: dict[str, Any] = {"color": OKABE_ITO[5], "alpha": 0.55, "edgecolor": "white", "linewidth": 0.4}


def spectrum_plot(
    law: SpectralMeasure | DressedSpectrum,
    eigenvalues: ArrayLike | None = None,
    *,
    time: float | None = None,
    matrix: str = "S1",
    resolution: float | None = None,
    simulation: str = "SGD",
) -> Figure:
    """The spectral density (left) and its integral (right) of a law, over the eigenvalues of a simulation if given.

    The limiting law of the exact closure is drawn as it is, between its edges, its atoms as stems of their mass. A
    measure of nodes is a Gauss quadrature, so a density exists only after smoothing: ``resolution`` is the deviation
    of the Gaussian kernel, see ``default_resolution``. It is written into the figure, and the eigenvalues are smoothed
    alike for comparison (dashed). The integral is shown unsmoothed. ``matrix`` is the name of the matrix for the
    labels. Raises ``InputError`` for eigenvalues that are not finite, and for a resolution of an exact law.
    """
    spectrum = None if eigenvalues is None else np.sort(np.ravel(np.asarray(eigenvalues, dtype=np.float64)))
    if spectrum is not None and (not spectrum.size or not np.isfinite(spectrum).all()):
        raise InputError(
            "the eigenvalues to compare with are empty or hold a NaN; the simulation did not reach this time"
        )
    if isinstance(law, DressedSpectrum):
        if resolution is not None:
            raise InputError(f"resolution = {resolution}: the density is exact and is not smoothed; leave it out")
        figure, panels = _exact_panels(law, spectrum, simulation)
        return _labelled(figure, panels, matrix, time)
    measure = law
    low, high = float(measure.nodes[0]), float(measure.nodes[-1])
    width = default_resolution(measure) if resolution is None else resolution
    if spectrum is not None:
        low, high = min(low, float(spectrum[0])), max(high, float(spectrum[-1]))
    grid = np.linspace(low - 3 * width, high + 3 * width, 801)
    figure, (density, integral) = new_figure(10.0, 4.0, panels=2)
    if spectrum is not None:
        bins = int(np.clip(2 * (high - low) / width, 12, 60))
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
            **_BARS,
            label=f"{simulation}, {spectrum.size} eigenvalues",
        )
        _integral_of(integral, spectrum, simulation)
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
    return _labelled(figure, (density, integral), matrix, time)


def _integral_of(axes: Axes, spectrum: FloatArray, simulation: str) -> None:
    steps = np.arange(1, spectrum.size + 1) / spectrum.size
    axes.step(spectrum, steps, where="post", color=OKABE_ITO[5], linewidth=3.0, label=simulation)


def _exact_panels(
    law: DressedSpectrum, spectrum: FloatArray | None, simulation: str
) -> tuple[Figure, tuple[Axes, Axes]]:
    """The density of the continuous part on points that crowd at its edges, and the distribution function."""
    figure, panels = new_figure(10.0, 4.0, panels=2)
    density, integral = panels
    places = [place for place, _ in law.atoms]
    low = min([0.0, *places, *(edge[0] for edge in law.edges)])
    high = max([*places, *(edge[1] for edge in law.edges), 1e-12])
    if spectrum is not None:
        low, high = min(low, float(spectrum[0])), max(high, float(spectrum[-1]))
        # An atom fills bars of its own, which would hide the rest.
        apart = np.min(np.abs(spectrum[:, None] - np.array([*places, np.inf])), axis=1) > 1e-6 * high
        rest = spectrum[apart]
        if rest.size:
            bars = int(np.clip(3 * rest.size**0.5, 12, 60))
            density.hist(
                rest,
                bins=bars,
                range=(low, high),
                weights=np.full(rest.size, bars / ((high - low) * spectrum.size)),
                **_BARS,
                label=f"{simulation}, {rest.size} of {spectrum.size} eigenvalues",
            )
        _integral_of(integral, spectrum, simulation)
    tallest = 0.0
    for number, (left, right) in enumerate(law.edges):
        grid = left + (right - left) * (1 - np.cos(np.linspace(0, np.pi, _POINTS))) / 2
        inside = law.density(grid[1:-1])
        tallest = max(tallest, float(np.quantile(inside, 0.9)))
        density.plot(
            grid, np.r_[0.0, inside, 0.0] if left > 0 else np.r_[np.nan, inside, 0.0], color=OKABE_ITO[1],
            linewidth=1.8, label="_" if number else "theory, exact",
        )  # fmt: skip
    top = 1.6 * tallest if tallest else 1.0
    for number, (place, mass) in enumerate(law.atoms):
        density.vlines(
            place, 0, top, color=OKABE_ITO[0], linewidth=2.5, label="_" if number else "atoms, with their mass"
        )
        density.annotate(
            f"{mass:.3g}", (place, 0.97 * top), xytext=(5, 0), textcoords="offset points", va="top", fontsize=8
        )
    margin = 0.03 * (high - low)
    points = np.unique(np.concatenate([np.linspace(low - margin, high + margin, _POINTS), places]))
    integral.plot(points, law.cdf(points), color=OKABE_ITO[1], linewidth=1.3, label="theory, exact")
    density.set_ylim(top=top)
    density.set_xlim(low - margin, high + margin)
    return figure, (density, integral)


def _labelled(figure: Figure, panels: tuple[Axes, Axes], matrix: str, time: float | None) -> Figure:
    density, integral = panels
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
