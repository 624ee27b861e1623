"""Channels whose output depends on h only up to scale: everything is a function of r = q/V.

    signal(q, V) = G(r)/V,        Psi_out(q) = psi(r),        G(r) = 4 (1 + r) psi'(r),  psi(inf) = 0.

G falls like r^{-1/2}: where V << q only forms near a decision boundary say anything new. So
``H(s) = sqrt(1 + r) G(r)`` with ``s = sqrt(r)/(1 + sqrt(r))`` in [0, 1] is smooth up to both ends and has a short
Chebyshev series, built once a process from a direct quadrature in r and then evaluated for whole arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from aimtheory.bayes.channel import Channel, check_overlap, check_split
from aimtheory.bayes.measured import Measured
from aimtheory.errors import InputError, NumericsError
from aimtheory.spectra.law import FloatArray

DirectRule = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Ratios r, 1-d, to (G(r), error)."""


def _to_unit(ratio: FloatArray) -> FloatArray:
    root = np.sqrt(ratio)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(root), 1.0, root / (1 + root))


@dataclass(frozen=True, eq=False)
class RatioTable:
    """Chebyshev series on s in [0, 1] of H(s), and of the potential psi with psi(s = 1) = 0; ``method`` as Measured."""

    series: FloatArray
    potential: FloatArray
    relative_error: float
    method: str

    def signal(self, ratio: FloatArray) -> FloatArray:
        """G(r), for any array of r in [0, inf]."""
        return np.asarray(chebyshev.chebval(2 * _to_unit(ratio) - 1, self.series) / np.sqrt(1 + ratio))

    def entropy(self, ratio: FloatArray) -> FloatArray:
        """``psi(r) = -int_r^inf G/(4 (1 + r')) dr'`` = E log Z <= 0."""
        return np.asarray(chebyshev.chebval(2 * _to_unit(ratio) - 1, self.potential))


def build_table(rule: DirectRule, tolerance: float, sizes: tuple[int, ...] = (48, 96)) -> RatioTable:
    """Interpolate H at Chebyshev points, doubling their number until the tail of the series is below ``tolerance``."""
    tail = np.inf
    for size in sizes:
        nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
        s = 0.5 * (nodes + 1)
        ratio = (s / (1 - s)) ** 2
        value, error = rule(ratio)
        scaled = value * np.sqrt(1 + ratio)
        series = chebyshev.chebfit(nodes, scaled, size - 1)
        tail = float(np.max(np.abs(series[-3:]))) / float(np.max(np.abs(series)))
        if tail <= tolerance:
            noise = float(np.max(error * np.sqrt(1 + ratio) / scaled))
            return table_from_series(np.asarray(series, float), max(noise, tail), "quadrature")
    raise NumericsError(f"the channel integral is resolved only to {tail:.2g} by {sizes[-1]} Chebyshev nodes")


def table_from_series(series: FloatArray, relative_error: float, method: str) -> RatioTable:
    """The table of a Chebyshev series of H(s), s in [0, 1]: psi is integrated from it."""
    # d psi/ds = H s / (2 ((1-s)^2 + s^2)^{3/2}); the extra factor needs more coefficients than H itself.
    fine = np.cos(np.pi * (np.arange(192) + 0.5) / 192)
    s = 0.5 * (fine + 1)
    slope = 0.5 * chebyshev.chebval(fine, series) * s / ((1 - s) ** 2 + s**2) ** 1.5
    potential = 0.5 * chebyshev.chebint(chebyshev.chebfit(fine, slope, 191))
    potential[0] -= chebyshev.chebval(1.0, potential)
    return RatioTable(np.asarray(series, float), np.asarray(potential, float), relative_error, method)


class ScaleFreeChannel(Channel):
    """A channel with ``g(lambda h) = g(h)`` for lambda > 0; subclasses say how G(r) is tabulated."""

    @property
    @abstractmethod
    def table(self) -> RatioTable:
        """The table of G and psi, shared by all equal channels of the process."""

    @abstractmethod
    def direct(self, ratio: ArrayLike, refinement: int = 0) -> Measured:
        """G(r) without the table, by direct quadrature; each ``refinement`` halves its step (or doubles its points)."""

    @property
    def exact_directions(self) -> float:
        """0: a finite number of answers a sample never fixes h."""
        return 0.0

    def signal(self, q: ArrayLike, variance: ArrayLike) -> Measured:
        """``G(q/V)/V``; infinite at V = 0."""
        overlap, spread = check_overlap(q, variance)
        if np.any((overlap == 0) & (spread == 0)):
            raise InputError("q = V = 0: the matrix would vanish")
        with np.errstate(divide="ignore"):
            ratio = overlap / spread
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.where(np.isinf(ratio), np.inf, self.table.signal(ratio) / spread)
        return Measured(value, np.abs(value) * self.table.relative_error, self.table.method)

    def psi_out(self, q: ArrayLike, second_moment: float) -> Measured:
        """``psi(q/(Q0 - q))``, the mean log probability of an answer, at most 0 and 0 at q = Q0."""
        overlap, spread = check_split(q, second_moment)
        with np.errstate(divide="ignore"):
            ratio = overlap / spread
        value = self.table.entropy(ratio)
        return Measured(value, np.abs(value) * self.table.relative_error + 1e-15, self.table.method)


def check_ratio(ratio: ArrayLike) -> FloatArray:
    """Ratios r = q/V, finite and >= 0, 1-d at least, else ``InputError``."""
    values = np.atleast_1d(np.asarray(ratio, dtype=np.float64))
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        raise InputError("the ratio q/V must be finite and >= 0")
    return values


__all__ = ["RatioTable", "ScaleFreeChannel", "build_table", "table_from_series"]
