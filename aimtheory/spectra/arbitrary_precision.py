"""MMSE and mutual information of matrix denoising to any number of digits, with mpmath.

The same integrals as in float64, over the same exact parametrizations of the spectrum, by tanh-sinh quadrature split at
every gap and near-gap. The mass of the density, which must be 1, certifies the rule at the precision asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import singledispatch

import mpmath as mp
import numpy as np
import sympy as sp

from aimtheory.errors import InputError, NumericsError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra.atomic import Atomic
from aimtheory.spectra.law import SpectralLaw
from aimtheory.spectra.semicircle import GOE
from aimtheory.spectra.subordination import AtomTransform
from aimtheory.spectra.wishart import Wishart
from aimtheory.spectra.wishart_convolution import wishart_bands

_Point = Callable[[mp.mpf], tuple[mp.mpf, mp.mpf, mp.mpf]]
"""Integration variable to (f dx, f dx times posterior variance, f dx times potential)."""


def mmse_digits(law: SpectralLaw, qhat: object, digits: int = 30) -> mp.mpf:
    """``MMSE(qhat)`` as in ``mmse``, correct to ``digits`` significant digits, for Wishart, GOE and Atomic laws.

    ``qhat`` > 0 and the law's parameters are used exactly as given (a float is the binary number it is). Raises
    ``InputError`` for other laws, ``NumericsError`` when the density does not integrate to 1 to that precision.

    >>> from aimtheory.spectra import bayes_wishart
    >>> mp.nstr(mmse_digits(bayes_wishart("1/2"), 100, digits=20), 20)
    '0.0074227277004130852779'
    """
    return _integrals(law, qhat, digits)[0]


def mutual_information_digits(law: SpectralLaw, qhat: object, digits: int = 30) -> mp.mpf:
    """``I(qhat)`` as in ``mutual_information``, to an absolute error below ``10^-digits``; same conditions.

    >>> mp.nstr(mutual_information_digits(GOE(1), 3, digits=20), 20)
    '0.34657359027997265471'
    """
    return _integrals(law, qhat, digits)[1]


def _integrals(law: SpectralLaw, qhat: object, digits: int) -> tuple[mp.mpf, mp.mpf]:
    if isinstance(digits, bool) or not 1 <= int(digits) <= 1000:
        raise InputError(f"digits = {digits!r} must be an integer between 1 and 1000")
    precision = to_scalar(qhat, "qhat") if not isinstance(qhat, mp.mpf) else qhat
    with mp.workdps(30):
        exponent = abs(float(mp.log10(_positive(precision, "qhat"))))
    # Close edges and small differences of large terms lose at most a few times log10 of the noise.
    with mp.workdps(int(digits) + 25 + int(3 * exponent)):
        return _denoised(law, 1 / _positive(precision, "qhat"), int(digits))


@singledispatch
def _denoised(law: SpectralLaw, noise: mp.mpf, digits: int) -> tuple[mp.mpf, mp.mpf]:  # noqa: ARG001
    """MMSE and mutual information at a noise variance; a law that offers them registers how."""
    raise InputError(f"arbitrary precision is offered for Wishart, GOE and Atomic laws, not {law!r}")


@_denoised.register
def _(law: GOE, noise: mp.mpf, digits: int) -> tuple[mp.mpf, mp.mpf]:  # noqa: ARG001
    variance = _positive(law.variance, "variance")
    return variance * noise / (variance + noise), mp.log1p(variance / noise) / 4


@_denoised.register
def _(law: Wishart, noise: mp.mpf, digits: int) -> tuple[mp.mpf, mp.mpf]:
    aspect, trace = 1 / _positive(law.width, "width"), _positive(law.trace, "trace")
    mmse, information = _integrated(*_wishart(aspect, noise / trace**2), noise / trace**2, digits)
    return trace**2 * mmse, information


@_denoised.register
def _(law: Atomic, noise: mp.mpf, digits: int) -> tuple[mp.mpf, mp.mpf]:
    return _integrated(*_atoms(law, noise), noise, digits)


def _integrated(
    point: _Point, breaks: Sequence[tuple[mp.mpf, mp.mpf]], noise: mp.mpf, digits: int
) -> tuple[mp.mpf, mp.mpf]:
    totals = [mp.mpf(0)] * 3
    for low, high in breaks:
        for index, value in enumerate(_tanh_sinh(point, low, high, digits + 8)):
            totals[index] += value
    error = abs(totals[0] - 1)
    if error > mp.mpf(10) ** (-digits - 2):
        raise NumericsError(
            f"the density integrates to 1 only within {mp.nstr(error, 3)}; ask for fewer than {digits} digits"
        )
    return totals[1], (totals[2] - mp.log(noise) / 2) / 2 + mp.mpf(1) / 8


def _tanh_sinh(point: _Point, low: mp.mpf, high: mp.mpf, digits: int) -> list[mp.mpf]:
    """Three integrals at once: the step is halved until they agree to ``digits`` digits."""
    middle, half = (low + high) / 2, (high - low) / 2
    # Square-root edges: the summand falls like exp(-3/2 pi sinh t / ...), so this range leaves nothing out.
    limit = mp.asinh(2 * (digits + 12) * mp.log(10) / (2 * mp.pi)) + 1
    step = mp.mpf(1) / 4

    def terms(offset: mp.mpf, stride: mp.mpf) -> list[mp.mpf]:
        sums = [mp.mpf(0)] * 3
        count = int(mp.floor((limit - offset) / stride)) + 1
        for k in range(count):
            t = offset + k * stride
            for sign in (1, -1) if t != 0 else (1,):
                inner = mp.pi / 2 * mp.sinh(sign * t)
                x = middle + half * mp.tanh(inner)
                weight = half * mp.pi / 2 * mp.cosh(t) / mp.cosh(inner) ** 2
                if not low < x < high:
                    continue
                for index, value in enumerate(point(x)):
                    sums[index] += weight * value
        return sums

    sums = terms(mp.mpf(0), step)
    previous = [step * value for value in sums]
    for _ in range(12):
        fresh = terms(step / 2, step)
        sums = [a + b for a, b in zip(sums, fresh, strict=True)]
        step /= 2
        current = [step * value for value in sums]
        change = max(abs(a - b) for a, b in zip(current, previous, strict=True))
        previous = current
        # Convergence is quadratic in the digits: half of them agreeing means the finer rule has them all.
        if change < mp.mpf(10) ** (-(digits + 4) / 2) * mp.mpf("1e-3") and change**2 < mp.mpf(10) ** -(digits + 4):
            return current
    return previous


def _wishart(c: mp.mpf, delta: mp.mpf) -> tuple[_Point, list[tuple[mp.mpf, mp.mpf]]]:
    """The parametrization by log D of ``wishart_convolution``, in units of the trace."""
    rough = wishart_bands(float(c), np.array([float(delta)]))
    low, high = (_polish(lambda s: _slope(s, c, delta), mp.mpf(float(s[0]))) for s in (rough.low, rough.high))
    half = c - (low + high) / 2
    square = half**2 + delta * c**2 / (low * high)
    ends = [2 * mp.log(abs(s / (s - c))) for s in (low, high)]
    is_gap = c > 1 and delta < c * (mp.cbrt(c) - 1) ** 3
    pair = half + mp.sqrt(mp.mpc(square))
    other = half - mp.sqrt(mp.mpc(square))
    roots = [mp.exp(ends[0]), mp.exp(ends[1]), (pair / (pair - c)) ** 2, (other / (other - c)) ** 2]
    inner = sorted(mp.log(abs(root)) for root in roots[2:])
    if is_gap:
        breaks = [(ends[0], inner[0]), (inner[1], ends[1])]
    elif ends[0] < inner[0] < ends[1] and abs(mp.arg(roots[2])) < 2:
        breaks = [(ends[0], inner[0]), (inner[0], ends[1])]
    else:
        breaks = [(ends[0], ends[1])]

    def point(log_d: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
        d = mp.exp(log_d)
        modulus = delta + c * d
        real = (c - 1 + delta / c + d - delta / (c * d)) / 2
        product = (d - roots[0]) * (roots[1] - d) * mp.re((d - roots[2]) * (d - roots[3]))
        imaginary = mp.sqrt(max(product, mp.mpf(0))) / (2 * d)
        slope = d + delta / (c * d) - c**2 * delta * d / modulus**2
        measure = imaginary / (mp.pi * modulus) * slope
        potential = mp.log(modulus) / 2 - log_d / (2 * c) + d * (real - c) / modulus
        potential += delta * (2 * real**2 - modulus) / (2 * modulus**2)
        return measure, measure * delta * c * d / modulus, measure * potential

    return point, breaks


def _slope(s: mp.mpf, c: mp.mpf, delta: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    return 1 - c / (s - c) ** 2 - delta / s**2, 2 * c / (s - c) ** 3 + 2 * delta / s**3


def _polish(function: Callable[[mp.mpf], tuple[mp.mpf, mp.mpf]], start: mp.mpf) -> mp.mpf:
    """Newton from a float64 root until the step is at the working precision."""
    value = start
    for _ in range(200):
        residual, slope = function(value)
        if slope == 0:
            return value
        step = residual / slope
        value -= step
        if abs(step) <= 4 * mp.eps * abs(value):
            break
    return value


def _atoms(law: Atomic, noise: mp.mpf) -> tuple[_Point, list[tuple[mp.mpf, mp.mpf]]]:
    """The curve of ``subordination`` in p, split at gaps and at the lowest point between merged atoms."""
    t = [_number(value, "atom") for value in law.locations]
    w = [_number(value, "weight") for value in law.weights]
    total = mp.fsum(w)
    w = [value / total for value in w]
    pairs = np.array(law.atoms)
    rough = AtomTransform(pairs[:, 0], pairs[:, 1])

    def phi(p: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        value = mp.fsum(a / (p - b) ** 2 for a, b in zip(w, t, strict=True)) - 1 / noise
        return value, -2 * mp.fsum(a / (p - b) ** 3 for a, b in zip(w, t, strict=True))

    def valley(p: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        return phi(p)[1], 6 * mp.fsum(a / (p - b) ** 4 for a, b in zip(w, t, strict=True))

    def climb(p: mp.mpf) -> mp.mpf:
        # From where phi > 1/Delta: convex, so Newton approaches the root monotonically.
        for _ in range(400):
            value, slope = phi(p)
            if value <= 0:
                break
            step = value / slope
            p -= step
            if abs(step) <= 4 * mp.eps * (abs(p) + 1):
                break
        return p

    breaks = []
    start = climb(t[0] - mp.sqrt(noise * w[0]))
    for index in range(len(t) - 1):
        bottom = rough.valley(pairs[index : index + 1, 0], pairs[index + 1 : index + 2, 0])
        lowest = _polish(valley, mp.mpf(float(bottom[0])))
        if phi(lowest)[0] < 0:
            breaks.append((start, climb(t[index] + mp.sqrt(noise * w[index]))))
            start = climb(t[index + 1] - mp.sqrt(noise * w[index + 1]))
        else:
            breaks.append((start, lowest))
            start = lowest
    breaks.append((start, climb(t[-1] + mp.sqrt(noise * w[-1]))))

    def point(p: mp.mpf) -> tuple[mp.mpf, mp.mpf, mp.mpf]:
        squares = [(p - b) ** 2 for b in t]
        # Started from float64, Newton needs few steps at full precision.
        rough_y = float(rough.height(np.array([float(p)]), float(noise))[0])
        least = max(max(noise * a - square for a, square in zip(w, squares, strict=True)), mp.mpf(0))
        y = max(mp.mpf(rough_y), least)
        for _ in range(400):
            first, second = mp.mpf(0), mp.mpf(0)
            for a, square in zip(w, squares, strict=True):
                inverse = 1 / (square + y)
                term = a * inverse
                first += term
                second += term * inverse
            step = (noise - 1 / first) * first**2 / second
            y += step
            # Quadratic convergence: a step below half of the digits leaves all of them right.
            if step**2 <= mp.eps * y**2:
                break
        y = max(y, mp.mpf(0))
        inverses = [1 / (square + y) for square in squares]
        kernel = [a * inverse for a, inverse in zip(w, inverses, strict=True)]
        quartic = [a * inverse for a, inverse in zip(kernel, inverses, strict=True)]
        fourth = mp.fsum(quartic)
        third = mp.fsum(k * (p - b) for k, b in zip(quartic, t, strict=True))
        slope = 2 * noise * (third**2 + y * fourth**2) / fourth
        measure = mp.sqrt(y) / (mp.pi * noise) * slope
        mean = noise * mp.fsum(k * b for k, b in zip(kernel, t, strict=True))
        variance = noise * mp.fsum(k * (b - mean) ** 2 for k, b in zip(kernel, t, strict=True))
        real = mp.fsum(k * (p - b) for k, b in zip(kernel, t, strict=True))
        logs = mp.fsum(a * mp.log(square + y) for a, square in zip(w, squares, strict=True)) / 2
        return measure, measure * variance, measure * (logs + noise * (real**2 - y / noise**2) / 2)

    return point, breaks


def _number(value: Scalar | mp.mpf, name: str) -> mp.mpf:
    if isinstance(value, Fraction):
        return mp.mpf(value.numerator) / value.denominator
    if isinstance(value, sp.Expr):
        if value.free_symbols:
            raise InputError(f"{name} = {value} is symbolic; give its symbols numbers first")
        return mp.mpf(sp.N(value, mp.mp.dps + 5)._to_mpmath(mp.mp.prec + 16))
    return mp.mpf(value)


def _positive(value: Scalar | mp.mpf, name: str) -> mp.mpf:
    number = _number(value, name)
    if not (mp.isfinite(number) and number > 0):
        raise InputError(f"{name} = {value} must be finite and > 0")
    return number


__all__ = ["mmse_digits", "mutual_information_digits"]
