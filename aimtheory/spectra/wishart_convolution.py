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
    shape = (len(bands.noise), 2 * count)
    log_d, imaginary, jacobian = np.empty(shape), np.empty(shape), np.empty(shape)
    for is_gap, half_nodes in ((True, _gap_half), (False, _merged_half)):
        rows = bands.gap == is_gap
        if np.any(rows):
            part = bands.rows(rows)
            for side, columns in ((-1.0, slice(count - 1, None, -1)), (1.0, slice(count, None))):
                log_d[rows, columns], imaginary[rows, columns], jacobian[rows, columns] = half_nodes(part, side, count)
    d = np.exp(log_d)
    modulus = delta + c * d
    return BandQuadrature(
        points=_position_of(log_d, d, c, delta),
        weights=jacobian * _slope_of(d, c, delta),
        density=imaginary / (math.pi * modulus),
        denoised=d,
        posterior_variance=delta * c * d / modulus,
        potential=_potential(log_d, d, c, delta),
    )


HalfNodes = tuple[FloatArray, FloatArray, FloatArray]


def _angles(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """sin(phi), 1 - sin(phi) and cos(phi) dphi at Gauss-Legendre nodes of (0, pi/2)."""
    nodes, rule = gauss_legendre(count)
    back = HALF_PI * (1 - nodes)
    return np.sin(HALF_PI * nodes), 2 * np.sin(0.5 * back) ** 2, np.sin(back) * HALF_PI * rule


def _gap_half(bands: WishartBands, side: float, count: int) -> HalfNodes:
    """log D, Im s and d(log D) from a gap edge to the outer edge on one side."""
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
    return log_d, np.sqrt(factor) / (2 * np.exp(log_d)), half_gap * np.sinh(tau) * top * measure


def _merged_half(bands: WishartBands, side: float, count: int) -> HalfNodes:
    """log D, Im s and d(log D) from the near-gap (or the middle, when there is none) to the outer edge on one side."""
    first, _, pole, last = (value[:, None] for value in bands.log_denoised())
    log_low, log_high, pole_center, pole_height = first.real, last.real, pole.real, np.abs(pole.imag)
    inside = (pole_center > log_low) & (pole_center < log_high) & (pole_height < 3.0)
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
    return log_d, np.sqrt(factor) / (2 * np.exp(log_d)), scale * np.cosh(tau) * top * measure


def _log_denoised(s: FloatArray | ComplexArray, c: float) -> ComplexArray:
    """``2 log(s / (s - c))``, real for a real root (between the poles s / (s - c) < 0 and only its square is meant)."""
    ratio = c / np.asarray(s, dtype=np.complex128)
    real = (ratio.imag == 0) & (ratio.real != 1)
    between = real & (ratio.real > 1)
    # Real log1p keeps the digits of |s| >> c; the complex one does not.
    outside = np.log1p(-np.where(real & ~between, ratio.real, 0.0))
    inside = np.log(np.where(between, ratio.real - 1, 1.0))
    rest = np.where(real | (ratio == 1), 1.0, 1 - ratio)
    return -2 * np.where(real, outside + inside, np.log(rest))


def _real_part(log_d: FloatArray, d: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    """Re s; ``delta/c (1 - 1/D)`` is written with expm1 because D tends to 1 when the noise is large."""
    return np.asarray(0.5 * (c - 1 + d - delta / c * np.expm1(-log_d)))


def _position_of(log_d: FloatArray, d: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    return np.asarray(d - delta / c * np.expm1(-log_d) + c * delta / (delta + c * d))


def _slope_of(d: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    """dx / d(log D)."""
    return np.asarray(d + delta / (c * d) - c**2 * delta * d / (delta + c * d) ** 2)


def _potential(log_d: FloatArray, d: FloatArray, c: float, delta: FloatArray) -> FloatArray:
    modulus = delta + c * d
    real = _real_part(log_d, d, c, delta)
    tail = d * (real - c) / modulus + 0.5 * delta * (2 * real**2 - modulus) / modulus**2
    return 0.5 * np.log(modulus) - log_d / (2 * c) + tail


def wishart_boundary(bands: WishartBands, rule: BandQuadrature, points: FloatArray) -> BoundaryValues:
    """Boundary values at points x of any shape for one noise level; ``rule`` is its quadrature. Units of the trace.

    On a band D(x) is found by Newton in log D between neighbouring quadrature nodes; off the bands s is real and found
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
            )
            g[mask] = 1 / s
            denoised[mask] = s + s / (s - c) - delta / s
            potential[mask] = np.log(np.abs(s)) + np.log(np.abs(1 - c / s)) / c + 1 / (s - c) + 0.5 * delta / s**2
    if np.any(on_band):
        g[on_band], denoised[on_band], potential[on_band] = _on_band(bands, rule, x[on_band])
    shape = points.shape
    return BoundaryValues(g.reshape(shape), denoised.reshape(shape), potential.reshape(shape))


def _on_band(bands: WishartBands, rule: BandQuadrature, x: FloatArray) -> tuple[ComplexArray, FloatArray, FloatArray]:
    c, delta = bands.aspect, float(bands.noise[0])
    logs = np.log(rule.denoised)
    low, inner_low, inner_high, high = (value[0] for value in bands.log_denoised())
    edges_x = [float(value[0]) for value in bands.edge_points()]
    half = len(logs) // 2
    gap_x, gap_log = (edges_x[1:3], [inner_low.real, inner_high.real]) if bands.gap[0] else ([], [])
    nodes_x = np.concatenate([edges_x[:1], rule.points[:half], gap_x, rule.points[half:], edges_x[3:]])
    nodes_log = np.concatenate([[low.real], logs[:half], gap_log, logs[half:], [high.real]])
    nodes_x = np.maximum.accumulate(nodes_x)
    right = np.clip(np.searchsorted(nodes_x, x), 1, len(nodes_x) - 1)

    noise, start = np.asarray(delta), np.interp(x, nodes_x, nodes_log)
    log_d = bracketed_root(
        lambda v: _position_of(v, np.exp(v), c, noise),
        lambda v: _slope_of(np.exp(v), c, noise),
        x,
        nodes_log[right - 1],
        nodes_log[right],
        start,
    )
    d = np.exp(log_d)
    factor = np.exp(low.real + high.real) * np.abs(np.expm1(log_d - low.real) * np.expm1(log_d - high.real))
    if bands.gap[0]:
        a, b = inner_low.real, inner_high.real
        factor = factor * np.exp(a + b) * np.abs(np.expm1(log_d - a) * np.expm1(log_d - b))
    else:
        growth = np.expm1(log_d - inner_high.real)
        pair = growth**2 + 4 * (1 + growth) * np.sin(0.5 * inner_high.imag) ** 2
        factor = factor * np.exp(2 * inner_high.real) * pair
    modulus = delta + c * d
    real = _real_part(log_d, d, c, noise)
    g = (real - 1j * np.sqrt(factor) / (2 * d)) / modulus
    return g, d, _potential(log_d, d, c, noise)


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
        values = wishart_boundary(self._bands, self._rule.row(0), points / self.trace)
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
) -> FloatArray:
    """Root of an increasing function by Newton kept inside a shrinking bracket; vectorised.

    Ends when the step or the bracket is below 4e-16 |value|, or the residual below the rounding of the function.
    """
    value = 0.5 * (low + high) if start is None else np.clip(start, low, high)
    size = 1 + np.abs(target)
    for _ in range(200):
        residual = function(value) - target
        low, high = np.where(residual < 0, value, low), np.where(residual > 0, value, high)
        slope = derivative(value)
        step = np.divide(residual, slope, out=np.full_like(value, np.inf), where=slope > 0)
        done = (np.abs(step) <= 4e-16 * np.abs(value)) | (np.abs(residual) <= 2e-16 * size)
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
