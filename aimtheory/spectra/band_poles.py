"""Integrals with a pole near the real axis, on the Gauss-Legendre nodes of a spectral law.

int F(tau) n(tau)/D(tau) dtau over a band has a nearly real pole where D vanishes. The rule alone would see the nodes
one by one; the residue at the pole, times the difference of the exact integral of 1/(tau - tau_0) and its rule, mends
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aimtheory.spectra.law import FloatArray
from aimtheory.spectra.law_quadrature import Band, LawQuadrature

ComplexArray = NDArray[np.complex128]

_STENCIL = 14
"""Nodes of local interpolation: 1e-12 on functions that the rule resolves."""


@dataclass(frozen=True, eq=False)
class BandNodes:
    """One band of a law on its Gauss-Legendre nodes tau (n,): ``rule`` (n,) and the density F by tau, both real.

    ``part`` is the place of the band's nodes among those of the law.
    """

    band: Band
    tau: FloatArray
    rule: FloatArray
    density: FloatArray
    part: slice

    @cached_property
    def stencils(self) -> tuple[NDArray[np.int64], FloatArray]:
        """For each node the places of the nearest ones (n, k), and the weights of barycentric interpolation there."""
        count = len(self.tau)
        size = min(_STENCIL, count)
        first = np.clip(np.arange(count) - size // 2, 0, count - size)
        places = first[:, None] + np.arange(size)
        gaps = self.tau[places][:, :, None] - self.tau[places][:, None, :]
        gaps[:, np.arange(size), np.arange(size)] = 1.0
        # Distances in units of the stencil keep the products of order one.
        scale = 4.0 / (self.tau[places[:, -1]] - self.tau[places[:, 0]])
        return places, np.asarray(1 / np.prod(gaps * scale[:, None, None], axis=2))

    def interpolate(self, points: ComplexArray, *values: FloatArray) -> list[tuple[ComplexArray, ComplexArray]]:
        """Value and derivative, at complex tau (m,), of the local polynomials through real nodal ``values`` (n,)."""
        nearest = np.clip(np.searchsorted(self.tau, points.real), 0, len(self.tau) - 1)
        places, weights = self.stencils[0][nearest], self.stencils[1][nearest]
        offset = points[:, None] - self.tau[places]
        offset[offset == 0] = 1e-15
        reciprocal = 1 / offset
        cauchy = weights * reciprocal
        total = cauchy.sum(axis=1)
        result = []
        for nodal in values:
            local = nodal[places]
            value = (cauchy * local).sum(axis=1) / total
            slope = (cauchy * reciprocal * (value[:, None] - local)).sum(axis=1) / total
            result.append((value, slope))
        return result

    @property
    def reach(self) -> float:
        """|Im tau| beyond which a pole does not disturb the rule: its error falls as exp(-4 n |Im tau|) or faster."""
        return 8.0 / len(self.tau)

    def points(self, tau: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """x(tau) and dx/dtau at complex tau."""
        band = self.band
        theta = band.scale * np.sinh(band.growth * tau)
        length = band.far - band.near
        slope = 0.5 * length * np.sin(theta) * band.scale * band.growth * np.cosh(band.growth * tau)
        return np.asarray(band.near + length * np.sin(0.5 * theta) ** 2, dtype=np.complex128), np.asarray(slope)

    def inverse(self, x: ComplexArray) -> ComplexArray:
        """tau with x(tau) = x."""
        band = self.band
        theta = 2 * np.arcsin(np.sqrt((x - band.near) / (band.far - band.near)))
        return np.asarray(np.arcsinh(theta / band.scale) / band.growth)

    def pole(self, tau: ComplexArray, slope: ComplexArray) -> ComplexArray:
        """F(tau_0)/D'(tau_0) x (integral of 1/(tau - tau_0) minus its rule); zero far from the band.

        Im D >= 0 on the band says on which side of it the pole of an (almost) real zero lies.
        """
        result = np.zeros(tau.shape, dtype=np.complex128)
        with np.errstate(all="ignore"):
            near = (np.abs(tau.imag) < self.reach) & (tau.real > 0) & (tau.real < 1) & np.isfinite(slope) & (slope != 0)
        if not near.any():
            return result
        t, s = tau[near], slope[near]
        side = -np.sign(s.real)
        # A zero on the wrong side, or on the axis, is a rounded one: it belongs just beyond the axis.
        t = np.where((t.imag * side <= 0) & (np.abs(t.imag) < 1e-9), t.real + 1e-300j * side, t)
        flat = np.abs(t.imag) < 1e-250
        exact = np.where(
            flat,
            np.log((1 - t.real) / t.real) + 1j * math.pi * side,
            np.log(1 - t) - np.log(-t),
        )
        ((density, _),) = self.interpolate(t, self.density)
        gap = self.tau - t[:, None]
        gap = np.where(gap == 0, 1e-15, gap)
        result[near] = density / s * (exact - (self.rule / gap).sum(axis=1))
        return result


def band_nodes(rule: LawQuadrature) -> tuple[BandNodes, ...]:
    """The bands of a quadrature on their nodes."""
    found, start = [], rule.atoms
    for band, count in zip(rule.bands, rule.counts, strict=True):
        tau, weights = np.polynomial.legendre.leggauss(count)
        tau, weights = 0.5 * (tau + 1), 0.5 * weights
        part = slice(start, start + count)
        found.append(BandNodes(band, tau, weights, rule.weights[part] / weights, part))
        start += count
    return tuple(found)


Denominator = Callable[[BandNodes, ComplexArray, NDArray[np.int64]], tuple[ComplexArray, ComplexArray]]
"""D and dD/dtau at complex tau (m,) of a band, for the rows given."""


def real_zeros(
    nodes: BandNodes, values: ComplexArray, evaluate: Denominator
) -> list[tuple[NDArray[np.int64], ComplexArray, ComplexArray]]:
    """Zeros tau_0 of D near the band: for every change of sign of Re D (rows, n) between nodes, Newton's iteration.

    Each entry is (rows, tau_0, dD/dtau); the second entry holds the rows with a second zero, and so on. Zeros that are
    too far from the band to matter are left out.
    """
    own = values[:, nodes.part]
    real = own.real
    rows, places = np.nonzero(real[:, 1:] * real[:, :-1] < 0)
    before, after = own[rows, places], own[rows, places + 1]
    left, right = nodes.tau[places], nodes.tau[places + 1]
    tau = left + (right - left) * before / (before - after)
    kept = np.abs(tau.imag) < 2 * nodes.reach
    rows, tau, slope = rows[kept], tau[kept], np.ones(int(kept.sum()), dtype=np.complex128)
    if not len(rows):
        return []
    active = np.arange(len(rows))
    with np.errstate(all="ignore"):
        for _ in range(12):
            value, slope[active] = evaluate(nodes, tau[active], rows[active])
            step = value / slope[active]
            # No step leaves the neighbourhood of the sign change.
            size = np.abs(step)
            step = np.where(size > 0.1, 0.1 * step / size, step)
            tau[active] -= np.where(np.isfinite(step), step, 0.0)
            active = active[np.isfinite(size) & (size > 1e-9)]
            if not len(active):
                break
    order = np.concatenate([np.arange(count) for count in np.unique(rows, return_counts=True)[1]])
    return [(rows[order == k], tau[order == k], slope[order == k]) for k in range(int(order.max()) + 1)]


__all__ = ["BandNodes", "band_nodes", "real_zeros"]
