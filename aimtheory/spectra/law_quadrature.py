"""Quadrature of a spectral law that resolves every scale towards 0, where slow modes of a flow live."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray, SpectralLaw, jacobi_of_atoms

FINEST = 2e-3
"""Least angle that the grading resolves: a fraction FINEST^2/4 of the length of a band, 1e-6."""

_LOST = 1e-6
"""Largest defect of mass, mean or second moment with which a rule may be used."""


@dataclass(frozen=True)
class Band:
    """One interval of the continuous part: x(tau) = near + (far - near) sin^2(theta/2), tau in [0, 1].

    theta = scale sinh(growth tau) runs from 0 to pi. ``near`` is the end nearest to 0. The squared sine takes away
    square-root edges (and x^{-1/2} at a hard edge), the hyperbolic sine spreads the nodes over all scales between
    ``scale`` and pi, so that a function with structure at any of them is integrated with the same number of nodes.
    """

    near: float
    far: float
    scale: float

    @property
    def growth(self) -> float:
        """asinh(pi / scale)."""
        return math.asinh(math.pi / self.scale)

    def points(self, tau: FloatArray) -> FloatArray:
        """x(tau)."""
        return self.near + (self.far - self.near) * np.sin(0.5 * self.scale * np.sinh(self.growth * tau)) ** 2

    def slopes(self, tau: FloatArray) -> FloatArray:
        """|dx/dtau|."""
        theta = self.scale * np.sinh(self.growth * tau)
        stretch = self.scale * self.growth * np.cosh(self.growth * tau)
        return abs(self.far - self.near) * 0.5 * np.sin(theta) * stretch


@dataclass(frozen=True, eq=False)
class LawQuadrature:
    """sum_j weights_j h(nodes_j) for the integral of h against a law: shapes (n,), weights > 0 of sum 1.

    The first ``atoms`` nodes are point masses; band b of the continuous part holds the next ``counts[b]`` nodes, at the
    Gauss-Legendre points of its variable tau. ``defect`` is the largest error of mass, mean and second moment.
    """

    nodes: FloatArray
    weights: FloatArray
    atoms: int
    bands: tuple[Band, ...]
    counts: tuple[int, ...]
    defect: float


def law_quadrature(law: SpectralLaw, count: int, cut: float | None = None) -> LawQuadrature:
    """A rule of about ``count`` nodes a band, exact to rounding for functions that are smooth, or smooth in log x near
    0 down to 1e-6 of the band.

    Bands are cut at 0, the place where modes of a flow exp(-t S) are slow, and at ``cut``, and graded towards both.
    Isolated masses are nodes by themselves; more than 2 x ``count`` of them are compressed to a Gauss rule in
    asinh(x/scale). A density that the map does not resolve (a jump, an interior singularity) falls back to the Gauss
    rule of its Jacobi coefficients.
    Raises ``InputError`` when neither gives mass, mean and second moment of the law to 1e-6.

    >>> from aimtheory.spectra import Wishart
    >>> rule = law_quadrature(Wishart(width=1, trace=1), 40)
    >>> round(float(rule.weights @ rule.nodes**4), 11), rule.defect < 1e-12
    (14.0, True)
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 2:
        raise InputError(f"count = {count!r} of a quadrature must be an integer of at least 2")
    masses = np.array([weight for _, weight in law.atoms])
    places = np.array([place for place, _ in law.atoms])
    if len(places) > 2 * count:
        places, masses = _compressed(places, masses, count)
    intervals = [(low, high) for low, high in law.support if high > low]
    pieces = [piece for low, high in intervals for piece in _pieces(low, high, cut)]
    tau, rule = np.polynomial.legendre.leggauss(count)
    tau, rule = 0.5 * (tau + 1), 0.5 * rule
    points = [band.points(tau) for band in pieces]
    weights = [rule * band.slopes(tau) * law.density(x) for band, x in zip(pieces, points, strict=True)]
    built = _assemble(law, places, masses, points, weights, tuple(pieces))
    if built.defect > _LOST and pieces:
        gauss = _gauss(law, count)
        built = min(built, gauss, key=lambda candidate: candidate.defect)
    if not built.defect <= _LOST:
        raise InputError(
            f"no quadrature of {law!r} was found: {count} nodes miss its mass, mean or second moment by "
            f"{built.defect:.2g}; give the law as Empirical or Atomic, or raise the number of nodes"
        )
    return built


def upper_quantile(law: SpectralLaw, mass: float) -> float | None:
    """The point of the continuous part above which the law has this mass, to rounding; None when an atom or a gap holds
    it.
    """
    above = 0.0
    atoms = sorted(law.atoms, reverse=True)
    tau, rule = np.polynomial.legendre.leggauss(64)
    tau, rule = 0.5 * (tau + 1), 0.5 * rule

    def tail(low: float, high: float) -> float:
        band = Band(low, high, math.pi)
        return float((rule * band.slopes(tau)) @ law.density(band.points(tau)))

    for low, high in sorted(((a, b) for a, b in law.support if b > a), reverse=True):
        above = sum(weight for place, weight in atoms if place > low)
        above += sum(tail(a, b) for a, b in law.support if b > a and a > low)
        inside = tail(low, high)
        if above < mass < above + inside:
            return float(brentq(lambda x, h=high, m=mass - above: tail(x, h) - m, low, high, xtol=1e-15, rtol=1e-14))
    return None


def _pieces(low: float, high: float, cut: float | None) -> list[Band]:
    """Bands from low to high: cut at 0 and at ``cut``, each with its near end where it is graded."""
    close = 1e-6 * (high - low)
    inner = {c for c in (0.0, cut) if c is not None and low + close < c < high - close}
    if cut is not None and abs(cut) < close:
        inner.discard(cut)
    pieces: list[Band] = []
    for a, b in pairwise(sorted({low, high, *inner})):
        near, far = (a, b) if abs(a) <= abs(b) else (b, a)
        if cut not in (a, b):
            pieces.append(graded_band(near, far))
        elif near == cut:
            pieces.append(Band(near, far, FINEST))
        else:
            middle = 0.5 * (a + b)
            pieces += [graded_band(near, middle), Band(far, middle, FINEST)]
    return pieces


def graded_band(near: float, far: float) -> Band:
    """Graded down to the distance of the near end from 0, at most to ``FINEST``; a band far from 0 is not graded."""
    reach = 2 * math.sqrt(abs(near) / abs(far - near))
    return Band(near, far, min(max(reach, FINEST), math.pi))


def _assemble(
    law: SpectralLaw,
    places: FloatArray,
    masses: FloatArray,
    points: list[FloatArray],
    weights: list[FloatArray],
    bands: tuple[Band, ...],
) -> LawQuadrature:
    nodes = np.concatenate([places, *points]) if len(places) or points else np.zeros(0)
    raw = np.concatenate([masses, *weights])
    total = float(raw.sum())
    moments = [float(m) for m in law.moments(2)]
    size = max(float(np.abs(nodes).max(initial=0.0)), 1e-300)
    defect = max(
        abs(total - 1),
        *(abs(float(raw @ nodes**n) - m) / size**n for n, m in enumerate(moments, start=1)),
    )
    # A tiny weight at an edge may round to nothing; the nodes keep their order all the same.
    counts = tuple(len(piece) for piece in points)
    return LawQuadrature(nodes, raw / total, len(places), bands, counts, defect)


def _gauss(law: SpectralLaw, count: int) -> LawQuadrature:
    nodes, weights = law.jacobi(count).gauss_quadrature()
    return _assemble(law, nodes, weights, [], [], ())


def _compressed(places: FloatArray, masses: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Gauss rule of many masses in the variable asinh(x/scale), which keeps the resolution near 0."""
    scale = FINEST * float(np.abs(places).max())
    graded = jacobi_of_atoms(np.arcsinh(places / scale), masses, count)
    nodes, weights = graded.gauss_quadrature()
    return scale * np.sinh(nodes), weights * masses.sum()


__all__ = ["Band", "LawQuadrature", "graded_band", "law_quadrature", "upper_quantile"]
