"""A Wishart matrix plus GOE noise in closed form: bands, density, potential and denoiser without choosing a branch.

In units of the trace, S ~ MP(c) and Delta = delta. The Stieltjes transform g = 1/s of S + sqrt(delta) Z solves
``x = s + 1 + c/(s - c) + delta/s``, a cubic. On a band the imaginary part of this equation reads
``c/|s - c|^2 + delta/|s|^2 = 1``, a hyperbola in (|s-c|^2, |s|^2); its uniformizing parameter is the denoised
eigenvalue D itself:

    |s|^2 = n = delta + c D,    |s - c|^2 = n / D,    2 Re s = c - 1 + delta/c + D - delta/(c D),
    x = D + delta/c - delta/(c D) + c delta/n,        density f = Im s / (pi n),
    posterior variance = delta c D / n,
    U(x) = log(n)/2 - log(D)/(2c) + D (Re s - c)/n + delta Re(1/s^2)/2.

D is positive and increases with x, and (Im s)^2 is a quartic of D over 4 D^2 whose roots are the band edges. So every
integral over the spectrum is an integral over log D between roots of a quartic, with no cubic to solve and no wrong
branch to take. A gap opens below ``delta_c = c (c^{1/3} - 1)^3`` for c > 1; just above it two complex roots sit close
to the real axis, and the substitution grades the nodes towards them. (Equation of g: [B], free-probability appendix;
this parametrization is derived here.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import NumericsError
from aimtheory.spectra.band_quadrature import HALF_PI, BandQuadrature, BoundaryValues, gauss_legendre
from aimtheory.spectra.law import FloatArray

ComplexArray = NDArray[np.complex128]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class WishartBands:
    """Roots s of ``dx/ds = 1 - c/(s-c)^2 - delta/s^2``, arrays over noise levels: the band edges in the s-plane.

    ``low`` < 0 and ``high`` > c are the outer edges; ``inner`` (complex) and its partner are the edges of the gap when
    ``gap`` holds (both real) and a conjugate pair otherwise.
    """

    aspect: float
    noise: FloatArray
    low: FloatArray
    high: FloatArray
    inner_low: ComplexArray
    inner_high: ComplexArray
    gap: BoolArray

    def rows(self, mask: BoolArray) -> WishartBands:
        """The noise levels selected by a mask."""
        return WishartBands(
            self.aspect,
            self.noise[mask],
            self.low[mask],
            self.high[mask],
            self.inner_low[mask],
            self.inner_high[mask],
            self.gap[mask],
        )

    def log_denoised(self) -> tuple[ComplexArray, ComplexArray, ComplexArray, ComplexArray]:
        """``log D = 2 log(s / (s - c))`` at low, inner_low, inner_high, high.

        A conjugate pair at strong noise sits close to s = c, where it is better known from the sum
        ``2c + 2 - 2 delta/c`` and the product ``delta^2/c^2`` of the four D.
        """
        c, delta = self.aspect, self.noise
        low, high = _log_denoised(self.low, c), _log_denoised(self.high, c)
        inner_low, inner_high = _log_denoised(self.inner_low, c), _log_denoised(self.inner_high, c)
        strong = ~self.gap & (delta > c)
        if np.any(strong):
            modulus = np.log(delta / c) - 0.5 * (low.real + high.real)
            total = 2 * c + 2 - 2 * delta / c - np.exp(low.real) - np.exp(high.real)
            angle = np.arccos(np.clip(0.5 * total * np.exp(-modulus), -1.0, 1.0))
            inner_low = np.where(strong, modulus - 1j * angle, inner_low)
            inner_high = np.where(strong, modulus + 1j * angle, inner_high)
        return low, inner_low, inner_high, high

    def low_band_length(self) -> FloatArray:
        """``log D(inner_low) - log D(low)`` at a gap, without cancellation when both are near -+sqrt(delta)."""
        c, low, inner = self.aspect, self.low, self.inner_low.real
        low_square, inner_square = 1 / (1 - c / (low - c) ** 2), 1 / (1 - c / (inner - c) ** 2)
        total = np.sqrt(self.noise) * c * (low - inner) * (low + inner - 2 * c) * low_square * inner_square
        total /= (low - c) ** 2 * (inner - c) ** 2 * (np.sqrt(low_square) + np.sqrt(inner_square))
        return np.asarray(2 * (np.log1p(-total / low) + np.log1p((inner - low) / (c - inner))))

    def edge_points(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """x at low, inner_low, inner_high, high (the inner two are NaN where there is no gap)."""
        inside = np.where(self.gap, 0.0, np.nan)
        return (
            _position(self.low, self.aspect, self.noise),
            _position(self.inner_low.real, self.aspect, self.noise) + inside,
            _position(self.inner_high.real, self.aspect, self.noise) + inside,
            _position(self.high, self.aspect, self.noise),
        )


def wishart_bands(aspect: float, noise: FloatArray) -> WishartBands:
    """Band edges for MP(c) + semicircle(delta), vectorised over ``noise`` (1-d); every root by a monotone Newton walk.

    The slope function is concave between its poles 0 and c, so Newton started where it is negative converges
    monotonically to the root ahead; whether there is a gap is decided by the closed form of its maximum.
    """
    c, delta = aspect, noise
    root_c, root_delta = math.sqrt(c), np.sqrt(delta)
    low = _newton(np.minimum(-root_delta, c - root_c), c, delta)
    high = _newton(np.maximum(root_delta, c + root_c), c, delta)
    gap = np.zeros(delta.shape, dtype=bool)
    if c > 1:
        gap = delta < c * (math.expm1(math.log(c) / 3)) ** 3
    # The other two roots of s^2 (s-c)^2 - c s^2 - delta (s-c)^2: sum 2c and product -delta c^2 over all four.
    inner_low: ComplexArray
    inner_high: ComplexArray
    half = c - 0.5 * (low + high)
    square = half**2 + delta * c**2 / (low * high)
    step = np.sqrt(square.astype(np.complex128))
    inner_low, inner_high = np.asarray(half - step), np.asarray(half + step)
    if np.any(gap):
        first = _newton(root_delta[gap], c, delta[gap])
        second = _newton(np.full(first.shape, c - root_c), c, delta[gap])
        # Nearly double roots are known only to sqrt(1e-16) each, but their sum and product to 1e-16.
        apart = second - first > 1e-3 * second
        inner_low[gap] = np.where(apart, first, (half - step.real)[gap])
        inner_high[gap] = np.where(apart, second, (half + step.real)[gap])
    if not np.all(gap):
        pair: ComplexArray = half + 1j * np.where(square < 0, np.sqrt(np.abs(square)), c * np.sqrt(c / delta))
        for _ in range(3):
            slope = 2 * c / (pair - c) ** 3 + 2 * delta / pair**3
            value = 1 - c / (pair - c) ** 2 - delta / pair**2
            change = np.divide(value, slope, out=np.zeros_like(pair), where=slope != 0)
            pair = np.where(np.abs(change) < 0.1 * np.abs(pair.imag), pair - change, pair)
        inner_low[~gap], inner_high[~gap] = np.conj(pair[~gap]), pair[~gap]
    return WishartBands(c, delta, low, high, inner_low, inner_high, gap)


def _position(s: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    return s + s / (s - c) + delta / s


def _newton(start: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    s = start.astype(np.float64)
    for _ in range(200):
        value = 1 - c / (s - c) ** 2 - delta / s**2
        slope = 2 * c / (s - c) ** 3 + 2 * delta / s**3
        # Past convergence rounding makes the value >= 0 or the step invisible, which ends the monotone walk.
        following = np.where(value < 0, s - value / slope, s)
        if np.all(np.abs(following - s) <= 2e-16 * np.abs(s)):
            return following
        s = following
    return s


def wishart_quadrature(bands: WishartBands, count: int = 64) -> BandQuadrature:
    """Spectrally accurate nodes on the bands, shape noise.shape + (2 count,), x ascending; units of the trace.

    Each half runs from the gap (or from the complex near-gap) to an outer edge with Gauss-Legendre in an angle phi:
    ``tau = T sin(phi)`` and ``log D`` at distance ``eps sinh(tau)`` from the near-gap of half width eps, or
    ``eps (cosh(tau) - 1)`` from a gap edge. Square-root edges become analytic and narrow gaps cost only log(1/eps).
    """
    c, delta = bands.aspect, bands.noise[:, None]
    rise, imaginary, jacobian = _band_nodes(bands, count)
    curve = _Curve(c, delta, bands.low[:, None])
    d = curve.denoised(rise)
    modulus = delta + c * d
    return BandQuadrature(
        points=curve.start + curve.climb(rise),
        weights=jacobian * curve.slope(rise),
        density=imaginary / (math.pi * modulus),
        denoised=d,
        posterior_variance=delta * c * d / modulus,
        potential=curve.potential(rise, imaginary),
    )


HalfNodes = tuple[FloatArray, FloatArray, FloatArray]


class _Curve:
    """x, Re s and U along a spectrum as functions of ``rise = log(D / D_low)``, measured from the lowest edge.

    Differences to the edge are exact algebra, so a band that is narrow (the eigenvalues near 0 at weak noise) keeps its
    digits: ``x - x_low = (D - D_low) (1 + delta/(c D D_low) - c^2 delta/(n n_low))``.
    """

    def __init__(self, c: float, delta: FloatArray, low: FloatArray) -> None:
        self.c, self.delta, self.low = c, delta, low
        self.log_low = _log_denoised(low, c).real
        self.edge = np.exp(self.log_low)
        self.start = _position(low, c, delta)

    def denoised(self, rise: FloatArray) -> FloatArray:
        """D."""
        return np.asarray(self.edge * np.exp(rise))

    def climb(self, rise: FloatArray) -> FloatArray:
        """x - x_low."""
        c, delta, d = self.c, self.delta, self.denoised(rise)
        product = (delta + c * d) * (delta + c * self.edge)
        return np.asarray(self.edge * np.expm1(rise) * (1 + delta / (c * d * self.edge) - c**2 * delta / product))

    def slope(self, rise: FloatArray) -> FloatArray:
        """dx / d(log D)."""
        c, delta, d = self.c, self.delta, self.denoised(rise)
        return np.asarray(d + delta / (c * d) - c**2 * delta * d / (delta + c * d) ** 2)

    def real_part(self, rise: FloatArray) -> FloatArray:
        """Re s."""
        grown = self.edge * np.expm1(rise)
        return np.asarray(self.low + 0.5 * grown * (1 + self.delta / (self.c * self.denoised(rise) * self.edge)))

    def potential(self, rise: FloatArray, imaginary: FloatArray) -> FloatArray:
        """U(x); ``Re(1/s^2) = (n - 2 (Im s)^2) / n^2``."""
        c, delta, d = self.c, self.delta, self.denoised(rise)
        n = delta + c * d
        tail = d * (self.real_part(rise) - c) / n + 0.5 * delta * (n - 2 * imaginary**2) / n**2
        return np.asarray(0.5 * np.log(n) - (rise + self.log_low) / (2 * c) + tail)


def _band_nodes(bands: WishartBands, count: int) -> HalfNodes:
    """rise, Im s and d(log D) at the nodes, x ascending, shape noise.shape + (2 count,)."""
    shape = (len(bands.noise), 2 * count)
    rise, imaginary, jacobian = np.empty(shape), np.empty(shape), np.empty(shape)
    for is_gap, half_nodes in ((True, _gap_half), (False, _merged_half)):
        rows = bands.gap == is_gap
        if np.any(rows):
            part = bands.rows(rows)
            for side, columns in ((-1.0, slice(count - 1, None, -1)), (1.0, slice(count, None))):
                rise[rows, columns], imaginary[rows, columns], jacobian[rows, columns] = half_nodes(part, side, count)
    return rise, imaginary, jacobian


def _angles(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """sin(phi), 1 - sin(phi) and cos(phi) dphi at Gauss-Legendre nodes of (0, pi/2)."""
    nodes, rule = gauss_legendre(count)
    back = HALF_PI * (1 - nodes)
    return np.sin(HALF_PI * nodes), 2 * np.sin(0.5 * back) ** 2, np.sin(back) * HALF_PI * rule


def _gap_half(bands: WishartBands, side: float, count: int) -> HalfNodes:
    """rise, Im s and d(log D) from a gap edge to the outer edge on one side."""
    log_low, log_a, log_b, log_high = (value.real[:, None] for value in bands.log_denoised())
    half_gap = np.maximum(0.5 * (log_b - log_a), 1e-14)
    start, outer_edge = (log_a, log_low) if side < 0 else (log_b, log_high)
    length = bands.low_band_length()[:, None] if side < 0 else log_high - log_b
    sine, remainder, measure = _angles(count)
    ratio = length / half_gap
    top = np.log1p(ratio + np.sqrt(ratio * (ratio + 2)))
    tau, left = top * sine, top * remainder
    offset = half_gap * 2 * np.sinh(0.5 * tau) ** 2
    distance = 2 * half_gap * np.sinh(top - 0.5 * left) * np.sinh(0.5 * left)
    log_d = start + side * offset
    # |(D - D_outer)(D - D_far)(D - D_start)(D - D_other)|, each difference by expm1 of a known distance in log D.
    factor = np.abs(np.exp(outer_edge) * np.expm1(-side * distance))
    far = log_high if side < 0 else log_low
    factor *= np.abs(np.exp(far) * np.expm1(log_d - far))
    factor *= np.abs(np.expm1(side * offset) * np.expm1(side * (offset + 2 * half_gap))) * np.exp(log_a + log_b)
    rise = distance if side < 0 else log_d - log_low
    return rise, np.sqrt(factor) / (2 * np.exp(log_d)), half_gap * np.sinh(tau) * top * measure


def _merged_half(bands: WishartBands, side: float, count: int) -> HalfNodes:
    """rise, Im s and d(log D) from the near-gap (or the middle, when there is none) to the outer edge on one side."""
    first, _, pole, last = (value[:, None] for value in bands.log_denoised())
    log_low, log_high, pole_center, pole_height = first.real, last.real, pole.real, np.abs(pole.imag)
    inside = (pole_center > log_low) & (pole_center < log_high) & (pole_height < 1.0)
    start = np.where(inside, pole_center, 0.5 * (log_low + log_high))
    scale = np.where(inside, np.maximum(pole_height, 1e-14), 1.0)
    length = start - log_low if side < 0 else log_high - start
    sine, remainder, measure = _angles(count)
    top = np.arcsinh(length / scale)
    tau, left = top * sine, top * remainder
    distance = 2 * scale * np.cosh(top - 0.5 * left) * np.sinh(0.5 * left)
    log_d = start + side * scale * np.sinh(tau)
    near, far = (log_low, log_high) if side < 0 else (log_high, log_low)
    factor = np.abs(np.exp(near) * np.expm1(-side * distance) * np.exp(far) * np.expm1(log_d - far))
    # |D - D_pole|^2 with D_pole = exp(center + i height).
    growth = np.expm1(log_d - pole_center)
    factor *= np.exp(2 * pole_center) * (growth**2 + 4 * (1 + growth) * np.sin(0.5 * pole_height) ** 2)
    rise = distance if side < 0 else log_d - log_low
    return rise, np.sqrt(factor) / (2 * np.exp(log_d)), scale * np.cosh(tau) * top * measure


def _log_denoised(s: FloatArray | ComplexArray, c: float) -> ComplexArray:
    """``2 log(s / (s - c))``, real for a real root (between the poles s / (s - c) < 0 and only its square is meant)."""
    ratio = c / np.asarray(s, dtype=np.complex128)
    real = (ratio.imag == 0) & (ratio.real != 1)
    between = real & (ratio.real > 1)
    # Real log1p keeps the digits of |s| >> c; the complex one does not.
    outside = np.log1p(-np.where(real & ~between, ratio.real, 0.0))
    inside = np.log(np.where(between, ratio.real - 1, 1.0))
    rest = np.where(real | (ratio == 1), 1.0, 1 - ratio)
    # The square first: near a gap 1 - c/s is close to the negative axis and its own logarithm to i pi.
    return np.where(real, -2 * (outside + inside), -np.log(rest**2))


def wishart_boundary(bands: WishartBands, points: FloatArray) -> BoundaryValues:
    """Boundary values at points x of any shape for one noise level. Units of the trace.

    On a band log D is found by Newton between neighbouring quadrature nodes; off the bands s is real and found
    between an edge and its bound, where x(s) is monotone. Raises ``NumericsError`` when a root fails to converge.
    """
    c, delta = bands.aspect, float(bands.noise[0])
    x = points.ravel()
    low, inner_low, inner_high, high = (float(value[0]) for value in bands.edge_points())
    on_gap = (x >= inner_low) & (x <= inner_high) if bands.gap[0] else np.zeros(x.shape, dtype=bool)
    on_band = (x > low) & (x < high) & ~on_gap
    g, denoised, potential = np.empty(x.shape, dtype=np.complex128), np.empty(x.shape), np.empty(x.shape)
    s_low, s_high = np.full(x.shape, bands.low[0]), np.full(x.shape, bands.high[0])
    gap_low, gap_high = (np.full(x.shape, value[0].real) for value in (bands.inner_low, bands.inner_high))
    for mask, left, right in (
        (x <= low, np.minimum(x - 1, s_low), s_low),
        (x >= high, s_high, np.maximum(x - 1, s_high)),
        (on_gap, gap_low, gap_high),
    ):
        if np.any(mask):
            s = bracketed_root(
                lambda v: v + v / (v - c) + delta / v,
                lambda v: 1 - c / (v - c) ** 2 - delta / v**2,
                x[mask],
                left[mask],
                right[mask],
                floor=1.0,
            )
            g[mask] = 1 / s
            denoised[mask] = s + s / (s - c) - delta / s
            potential[mask] = np.log(np.abs(s)) + np.log(np.abs(1 - c / s)) / c + 1 / (s - c) + 0.5 * delta / s**2
    if np.any(on_band):
        g[on_band], denoised[on_band], potential[on_band] = _on_band(bands, x[on_band])
    shape = points.shape
    return BoundaryValues(g.reshape(shape), denoised.reshape(shape), potential.reshape(shape))


def _on_band(bands: WishartBands, x: FloatArray) -> tuple[ComplexArray, FloatArray, FloatArray]:
    c, delta = bands.aspect, bands.noise[0]
    curve = _Curve(c, np.asarray(delta), np.asarray(bands.low[0]))
    low, inner_low, inner_high, high = (value[0] for value in bands.log_denoised())
    gap = bool(bands.gap[0])
    top = high.real - low.real
    inner = [float(bands.low_band_length()[0]), inner_high.real - low.real] if gap else []
    nodes = _band_nodes(bands, 32)[0][0]
    grid = np.concatenate([[0.0], nodes[:32], inner, nodes[32:], [top]])
    target = x - curve.start
    heights = np.maximum.accumulate(curve.climb(grid))
    right = np.clip(np.searchsorted(heights, target), 1, len(grid) - 1)
    start = np.interp(target, heights, grid)
    rise = bracketed_root(curve.climb, curve.slope, target, grid[right - 1], grid[right], start)
    d = curve.denoised(rise)
    factor = curve.edge * np.exp(high.real) * np.abs(np.expm1(rise) * np.expm1(rise - top))
    if gap:
        scale = np.exp(inner_low.real + inner_high.real)
        factor = factor * scale * np.abs(np.expm1(rise - inner[0]) * np.expm1(rise - inner[1]))
    else:
        growth = np.expm1(rise + low.real - inner_high.real)
        pair = growth**2 + 4 * (1 + growth) * np.sin(0.5 * inner_high.imag) ** 2
        factor = factor * np.exp(2 * inner_high.real) * pair
    imaginary = np.sqrt(factor) / (2 * d)
    g = (curve.real_part(rise) - 1j * imaginary) / (delta + c * d)
    return g, d, curve.potential(rise, imaginary)


class WishartSpectrum:
    """Noisy spectrum of ``Wishart(width, trace = t)`` at one noise variance, with the trace put back."""

    def __init__(self, aspect: float, trace: float, noise: float) -> None:
        self.trace = trace
        self._bands, self._rule, _ = next(iter(wishart_rules(aspect, np.array([noise / trace**2]))))

    @property
    def bands(self) -> tuple[tuple[float, float], ...]:
        """The bands, ascending."""
        low, inner_low, inner_high, high = (self.trace * float(value[0]) for value in self._bands.edge_points())
        return ((low, inner_low), (inner_high, high)) if self._bands.gap[0] else ((low, high),)

    @property
    def quadrature(self) -> BandQuadrature:
        """The rule at which the mass has converged, 1-d arrays."""
        return self._rule.row(0).scaled(self.trace)

    def boundary(self, points: FloatArray) -> BoundaryValues:
        """Boundary values at real points."""
        values = wishart_boundary(self._bands, points / self.trace)
        return values.scaled(self.trace)


def wishart_rules(
    aspect: float, noise: FloatArray, tolerance: float = 2e-14
) -> Iterator[tuple[WishartBands, BandQuadrature, NDArray[np.int64]]]:
    """Converged rules for an array of noise levels: yields (bands, rule, indices into ``noise``) in batches.

    The number of nodes doubles, for the noise levels that need it, until the mass is 1 to ``tolerance``, or within
    1e-11 and no longer improving (rounding is then the limit); else ``NumericsError``.
    """
    left = np.arange(len(noise))
    bands = wishart_bands(aspect, noise)
    before = np.full(len(noise), np.inf)
    for count in (32, 64, 128, 256, 512, 1024):
        rule = wishart_quadrature(bands, count)
        error = np.abs(rule.mass - 1)
        done = (error <= tolerance) | ((error <= 1e-11) & (error > 0.3 * before))
        before = error[~done]
        if np.all(done):
            yield bands, rule, left
            return
        if np.any(done):
            yield bands.rows(done), rule.row(done), left[done]
        left, bands = left[~done], bands.rows(~done)
    raise NumericsError(
        f"the density of MP(c = {aspect:.6g}) plus noise {noise[left[0]]:.6g} (trace units) does not integrate to 1 "
        "within 1e-11; the width or the noise is too extreme for float64, use digits= for arbitrary precision"
    )


def bracketed_root(
    function: Callable[[FloatArray], FloatArray],
    derivative: Callable[[FloatArray], FloatArray],
    target: FloatArray,
    low: FloatArray,
    high: FloatArray,
    start: FloatArray | None = None,
    floor: float = 0.0,
) -> FloatArray:
    """Root of an increasing function by Newton kept inside a shrinking bracket; vectorised.

    Ends when the step or the bracket is below 4e-16 |value|, or the residual below 4e-16 (|target| + floor).
    """
    value = 0.5 * (low + high) if start is None else np.clip(start, low, high)
    size = np.abs(target) + floor
    for _ in range(200):
        residual = function(value) - target
        low, high = np.where(residual < 0, value, low), np.where(residual > 0, value, high)
        slope = derivative(value)
        step = np.divide(residual, slope, out=np.full(value.shape, np.inf), where=slope > 0)
        done = (np.abs(step) <= 4e-16 * np.abs(value)) | (np.abs(residual) <= 4e-16 * size)
        if np.all(done):
            return value
        newton = value - step
        following = np.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        done |= high - low <= 4e-16 * np.abs(value)
        if np.all(done):
            return value
        value = np.where(done, value, following)
    raise NumericsError("a root of x(s) did not converge in 200 steps; report the law and the noise level")


__all__ = [
    "WishartBands",
    "WishartSpectrum",
    "wishart_bands",
    "wishart_boundary",
    "wishart_quadrature",
    "wishart_rules",
]
