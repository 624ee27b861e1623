r"""The spectrum of S = E (A^{-1} + Y)^{-1} E: Stieltjes transform, density, atoms, edges, quantiles.

    tr (z - S)^{-1} = 1/z + z^{-2} tr E^2 (Y - E^2/z + omega_z)^{-1},

omega_z from the scalar equation of ``dressed_inverse`` with Y - E^2/z for Y. Both sides of that equation map the upper
half-plane into itself, so the solution there is unique and attracts, also for real z within the spectrum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError, NumericsError
from aimtheory.spectra.band_poles import BandNodes, band_nodes, real_zeros
from aimtheory.spectra.dressed_inverse import DressedInverse
from aimtheory.spectra.law import FloatArray, Interval
from aimtheory.spectra.law_quadrature import Band, LawQuadrature, graded_band
from aimtheory.spectra.spectral_measure import SpectralMeasure

ComplexArray = NDArray[np.complex128]

_BAND_NODES = 240
_SCAN = 240
_FLOOR = 1e-6
"""Density, in units of one over the largest eigenvalue, that counts as none: rounding at an edge leaves its root."""


@dataclass(frozen=True, eq=False)
class DressedSpectrum:
    """Law of S from its ``inverse``, the quadratures ``fixed`` of X and ``start`` of A, and log E^{-2} as a polynomial
    of X, ``exponent`` (coefficients, constant first).

    Exact but for the quadratures: the nearly real poles of the sums are integrated by their residues, so the density
    has no trace of the nodes. ``NumericsError`` where the scalar equation does not converge.
    """

    inverse: DressedInverse
    fixed: LawQuadrature
    start: LawQuadrature
    exponent: FloatArray

    @cached_property
    def _unit(self) -> float:
        """log omega at z = infinity, in units of which omega_z is carried."""
        return self.inverse.solution.log_omega

    @cached_property
    def _kappa(self) -> FloatArray:
        return np.exp(np.minimum(self.inverse.log_kappa + self._unit, 600.0))

    @cached_property
    def _scale(self) -> float:
        return math.exp(min(max(-self._unit, -600.0), 600.0))

    @cached_property
    def _bands(self) -> tuple[tuple[BandNodes, ...], tuple[BandNodes, ...]]:
        return band_nodes(self.fixed), band_nodes(self.start)

    @cached_property
    def _slope(self) -> FloatArray:
        return np.asarray(np.polynomial.polynomial.polyder(self.exponent), dtype=np.float64)

    def _dressing(self, nodes: BandNodes, tau: ComplexArray) -> tuple[ComplexArray, ...]:
        """Z, dZ/dtau, sigma, kappa, d log E^{-2}/dtau at complex tau of a band of X."""
        x, dx = nodes.points(tau)
        log_kernel = np.polynomial.polynomial.polyval(x, self.exponent)
        change = np.polynomial.polynomial.polyval(x, self._slope) * dx
        ((Z, dZ),) = nodes.interpolate(tau, self.inverse.scaled[nodes.part])
        # 1/(1 + E^2) and E^2/(1 + E^2) for complex exponents of either sign.
        large = log_kernel.real > 0
        small = np.exp(np.where(large, -log_kernel, log_kernel))
        kappa = np.where(large, 1 / (1 + small), small / (1 + small))
        sigma = np.where(large, small / (1 + small), 1 / (1 + small))
        log_kappa = np.where(large, 0, log_kernel) - np.log1p(small)
        shifted = log_kappa + self._unit
        scaled = np.exp(np.minimum(shifted.real, 600.0) + 1j * shifted.imag)
        return Z, dZ, sigma, scaled, change, kappa

    def _fixed_side(self, z: ComplexArray, omega: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """g and tr E^2 (Y - E^2/z + omega)^{-1}."""
        inverse, w = self.inverse, self.inverse.weights
        D = inverse.scaled - inverse.sigma / z[:, None] + omega[:, None] * self._kappa
        D[D == 0] = 1e-300
        # Two columns at once: a product of matrices, which BLAS does much faster than two with vectors.
        g, T = ((1 / D) @ np.stack([w * self._kappa, w * inverse.sigma], axis=1)).T

        def evaluate(nodes: BandNodes, tau: ComplexArray, rows: NDArray[np.int64]) -> tuple[ComplexArray, ComplexArray]:
            Z, dZ, sigma, scaled, change, kappa = self._dressing(nodes, tau)
            value = Z - sigma / z[rows] + omega[rows] * scaled
            # sigma' = -sigma kappa L', kappa' = kappa sigma L' with L = log E^{-2}.
            return value, dZ + sigma * (kappa / z[rows] + omega[rows] * scaled) * change

        for nodes in self._bands[0]:
            for rows, tau, slope in real_zeros(nodes, D, evaluate):
                # Zeros that have run far from the band overflow here, and count for nothing below.
                with np.errstate(all="ignore"):
                    _, _, sigma, scaled, _, _ = self._dressing(nodes, tau)
                pole = nodes.pole(tau, slope)
                used = pole != 0
                g[rows[used]] += pole[used] * scaled[used]
                T[rows[used]] += pole[used] * sigma[used]
        return g, T

    def _start_side(self, other: ComplexArray) -> ComplexArray:
        """h_A(omega'): (tr (1 + omega' A)^{-1})/(tr A (1 + omega' A)^{-1})."""
        s, u, m = self.start.nodes, self.start.weights, self._scale
        D = m + other[:, None] * s
        D[D == 0] = 1e-300
        top, bottom = ((1 / D) @ np.stack([m * u, u * s], axis=1)).T
        for nodes in self._bands[1]:
            with np.errstate(all="ignore"):
                at = -m / other
                tau = nodes.inverse(at)
                slope = other * nodes.points(tau)[1]
            pole = nodes.pole(tau, slope)
            used = pole != 0
            top[used] += m * pole[used]
            bottom[used] += pole[used] * at[used]
        return np.asarray(top / bottom)

    def _step(self, z: ComplexArray, omega: ComplexArray) -> ComplexArray:
        g, _ = self._fixed_side(z, omega)
        return self._start_side(1 / g - omega)

    def _solve(self, z: ComplexArray, guess: ComplexArray | None = None, strict: bool = True) -> ComplexArray:
        """omega_z in the closed upper half-plane by Steffensen's iteration on the attracting map."""
        omega = np.full(z.shape, 1 + 1j) if guess is None else np.where(guess.imag >= 0, guess, guess.conj())
        active = np.arange(len(z))
        tolerance = 1e-12
        with np.errstate(all="ignore"):
            for count in range(80 if strict else 25):
                here = z[active]
                w0 = omega[active]
                w1 = self._step(here, w0)
                done = np.abs(w1 - w0) <= tolerance * np.abs(w1)
                w2 = self._step(here, w1)
                # In the logarithm, which maps the half-plane to a strip that the leap seldom leaves.
                u0, u1, u2 = np.log(w0), np.log(w1), np.log(w2)
                leap = u0 - (u1 - u0) ** 2 / (u2 - 2 * u1 + u0)
                good = (leap.imag > -1) & (leap.imag < math.pi + 1) & (np.abs(leap.real - u0.real) < 30) & ~done
                leap = np.exp(
                    leap.real
                    + 1j * np.clip(leap.imag, 1e-3 * np.abs(u0.imag), math.pi - 1e-3 * np.abs(math.pi - u0.imag))
                )
                following = np.where(good, leap, np.where(np.isfinite(w2), w2, w1))
                following = following.real + 1j * np.maximum(following.imag, 0.0)
                omega[active] = np.where(done, w1, following)
                active = active[~done]
                if not len(active):
                    return omega
                # Next to an edge the map is all but neutral, and the residual quadratic in the error.
                tolerance = 1e-12 if count < 15 else 1e-9 if count < 30 else 1e-7
        if not strict or float((np.abs(w1 - w0) / np.abs(w1))[~done].max()) < 1e-4:
            return omega
        raise NumericsError(
            f"the equation of the Stieltjes transform did not converge at z = {z[active[0]]:.6g}; move the point"
        )

    def stieltjes(self, points: ArrayLike) -> ComplexArray:
        """tr (z - S)^{-1} for complex z off the spectrum, or its upper boundary value at real z > 0."""
        z = np.atleast_1d(np.asarray(points, dtype=np.complex128))
        if (z == 0).any():
            raise InputError("the Stieltjes transform is asked for at z = 0, the end of the spectrum; move the point")
        flat = z.ravel()
        upper = np.where(flat.imag < 0, flat.conj(), flat)
        _, T = self._fixed_side(upper, self._solve(upper))
        g = 1 / upper + T / upper**2
        return np.asarray(np.where(flat.imag < 0, g.conj(), g).reshape(np.shape(points)))

    def density(self, points: ArrayLike) -> FloatArray:
        """Density of the continuous part at real points, any shape; 0 at x <= 0. Atoms are not in it."""
        x = np.asarray(points, dtype=np.float64)
        result = np.zeros(x.size)
        positive = np.flatnonzero((x.ravel() > 0) & (x.ravel() <= self.largest))
        if len(positive):
            z = x.ravel()[positive].astype(np.complex128)
            result[positive] = self._density(z)
        return result.reshape(x.shape)

    def _density(self, z: ComplexArray) -> FloatArray:
        omega = self._solve(z, self._guess(z))
        _, T = self._fixed_side(z, omega)
        return self._above_rounding(-(T / z**2).imag / math.pi)

    def _above_rounding(self, density: FloatArray) -> FloatArray:
        return np.where(density > 1e-11 / self.largest, density, 0.0)

    def _guess(self, z: ComplexArray) -> ComplexArray | None:
        """omega interpolated from a few points, where there are many."""
        if len(z) < 64:
            return None
        order = np.argsort(z.real)
        few = order[np.unique(np.linspace(0, len(z) - 1, 32).astype(int))]
        values = self._solve(z[few])
        real, imag = (np.interp(z.real, z[few].real, part) for part in (values.real, values.imag))
        return np.asarray(real + 1j * np.maximum(imag, 1e-3 * np.abs(real)))

    @cached_property
    def largest(self) -> float:
        """A bound on the spectrum: the largest E^2/(1/|A| + Y)."""
        bottom = self.inverse.scaled + np.exp(self.inverse.log_kappa) / float(self.start.nodes.max())
        return float((self.inverse.sigma / bottom).max()) * 1.05

    @cached_property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """Pairs (location, weight) of the point masses, ascending: the kernel of A at 0, and joint eigenspaces.

        Eigenspaces of A (value s, mass u) and of X (value x, mass w) in free position meet in the mass u + w - 1 > 0,
        where S = E(x)^2/(1/s + Y(x)).
        """
        kernel = self.inverse.start.kernel
        found: dict[float, float] = {0.0: kernel} if kernel > 0 else {}
        sigma, kappa, Z = self.inverse.sigma, np.exp(self.inverse.log_kappa), self.inverse.scaled
        for s, u in zip(self.start.nodes[: self.start.atoms], self.start.weights[: self.start.atoms], strict=True):
            if s <= 0:
                continue
            places = sigma / (Z + kappa / s)
            # Where E and Y are the same on all of X, at time zero, X has a single eigenspace.
            same = bool(np.ptp(places) <= 1e-13 * places.max())
            count = len(places) if same else self.fixed.atoms
            groups: list[list[float]] = []
            for place, mass in sorted(zip(places[:count].tolist(), self.inverse.weights[:count].tolist(), strict=True)):
                if groups and place - groups[-1][0] <= 1e-12 * place:
                    groups[-1][1] += mass
                else:
                    groups.append([place, mass])
            for place, mass in groups:
                if mass + u - 1 > 1e-13:
                    found[place] = found.get(place, 0.0) + float(mass + u - 1)
        return tuple(sorted(found.items()))

    @cached_property
    def edges(self) -> tuple[Interval, ...]:
        """The intervals that carry the continuous part, ascending, to about 1e-9 of the largest.

        Found where the density vanishes on a scan of 240 points, spaced in the square root; an interval that the scan
        steps over is missed.
        """
        top = self.largest
        grid = top * np.linspace(0, 1, _SCAN + 1)[1:] ** 2
        values = self._density(grid.astype(np.complex128))
        positive = values > _FLOOR / top
        bands: list[list[float]] = []
        if positive[0]:
            bands.append([0.0])
        for k in np.flatnonzero(positive[1:] != positive[:-1]):
            out, within = (grid[k], grid[k + 1]) if positive[k + 1] else (grid[k + 1], grid[k])
            edge = self._edge(float(out), float(within))
            if positive[k + 1]:
                bands.append([edge])
            else:
                bands[-1].append(edge)
        if positive[-1]:
            bands[-1].append(float(top))
        return tuple((low, high) for low, high in bands)

    def _at(self, *points: float) -> FloatArray:
        """Density at a few points, next to edges too."""
        z = np.array(points, dtype=np.complex128)
        _, T = self._fixed_side(z, self._solve(z, strict=False))
        return self._above_rounding(-(T / z**2).imag / math.pi)

    def _edge(self, out: float, within: float) -> float:
        """Where the density ends between a point with none and one with some.

        By bisection; then, at a regular edge, where the square of the density is analytic, from its parabola through
        three points inside.
        """
        scale, floor = abs(within - out), _FLOOR / self.largest
        while abs(within - out) > 1e-3 * scale:
            middle = 0.5 * (out + within)
            out, within = (out, middle) if self._at(middle)[0] > floor else (middle, within)
        reach = 0.05 * scale * np.sign(within - out)
        places = within + reach * np.array([0.0, 1.0, 2.0])
        squares = self._at(*places) ** 2
        parabola = np.polynomial.Polynomial.fit(places - within, squares, 2).convert()
        roots = np.asarray(parabola.roots(), dtype=np.complex128) + within
        near = roots[np.abs(roots.imag) < 1e-9 * scale].real
        near = near[(near - out) * (near - within) <= 0]
        if len(near) == 1:
            return float(near[0])
        while abs(within - out) > 1e-8 * max(abs(within), 1e-3 * self.largest):
            middle = 0.5 * (out + within)
            out, within = (out, middle) if self._at(middle)[0] > floor else (middle, within)
        return 0.5 * (out + within)

    @cached_property
    def _pieces(self) -> tuple[tuple[Band, FloatArray, FloatArray], ...]:
        """Bands with the Legendre series of the mass up to tau, from their near ends, and the density by tau."""
        tau, _ = np.polynomial.legendre.leggauss(_BAND_NODES)
        tau = 0.5 * (tau + 1)
        result = []
        for low, high in self.edges:
            band = graded_band(low, high)
            density = self.density(band.points(tau)) * band.slopes(tau)
            series = np.polynomial.legendre.legfit(2 * tau - 1, density, _BAND_NODES - 1)
            mass = np.polynomial.legendre.legint(series, lbnd=-1) / 2
            result.append((band, mass, density))
        return tuple(result)

    @cached_property
    def mass(self) -> float:
        """Atoms and continuous part together: 1, up to the error of edges and density."""
        total = sum(float(np.polynomial.legendre.legval(1.0, mass)) for _, mass, _ in self._pieces)
        return total + sum(weight for _, weight in self.atoms)

    def measure(self) -> SpectralMeasure:
        """The law as nodes and weights: atoms, and Gauss-Legendre nodes of the continuous part."""
        tau, rule = np.polynomial.legendre.leggauss(_BAND_NODES)
        tau, rule = 0.5 * (tau + 1), 0.5 * rule
        nodes = [np.array([place for place, _ in self.atoms])]
        weights = [np.array([weight for _, weight in self.atoms])]
        for band, _, density in self._pieces:
            nodes.append(band.points(tau))
            weights.append(rule * density)
        places, masses = np.concatenate(nodes), np.concatenate(weights)
        order = np.argsort(places)
        return SpectralMeasure(places[order], masses[order])

    def cdf(self, points: ArrayLike) -> FloatArray:
        """Mass at or below each point."""
        x = np.asarray(points, dtype=np.float64)
        total = np.zeros(x.shape)
        for place, weight in self.atoms:
            total += weight * (x >= place)
        for band, mass, _ in self._pieces:
            low, high = sorted((band.near, band.far))
            inside = np.clip(x, low, high)
            share = np.sqrt(np.clip((inside - band.near) / (band.far - band.near), 0, 1))
            tau = np.arcsinh(2 * np.arcsin(share) / band.scale) / band.growth
            total += np.polynomial.legendre.legval(2 * tau - 1, mass)
        return total

    def quantiles(self, probabilities: ArrayLike) -> FloatArray:
        """The least x with mass at least p below or at it, for p in (0, 1); ``InputError`` outside.

        By bisection on the cumulative mass; the mass at 0 gives quantiles that are 0 exactly.
        """
        p = np.asarray(probabilities, dtype=np.float64)
        if not ((p > 0) & (p < 1)).all():
            raise InputError(f"quantiles are asked for at probabilities {probabilities!r}; they must lie in (0, 1)")
        ends = [0.0, *(place for place, _ in self.atoms), *(high for _, high in self.edges)]
        low, high = np.full(p.shape, -1e-300), np.full(p.shape, max(ends))
        target = p * min(1.0, self.mass)
        for _ in range(200):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < target
            low, high = np.where(below, middle, low), np.where(below, high, middle)
            if (high - low <= 1e-15 * np.maximum(high, 1e-300)).all():
                break
        kernel = self.inverse.start.kernel
        return np.where(target <= kernel, 0.0, high) if kernel > 0 else high


__all__ = ["DressedSpectrum"]
