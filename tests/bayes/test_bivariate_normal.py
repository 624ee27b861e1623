"""Orthant probabilities against mpmath, known values and identities."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from aimtheory.bayes import log_orthant, log_orthant_derivative, orthant
from aimtheory.errors import InputError

ARGUMENTS = st.floats(-8, 8)
CORRELATIONS = st.sampled_from([1 / 3, -1 / 3, 0.5, -0.6])


def reference(h, k, c):
    """int phi(x) Phi((K - c x)/t) dx up to the smaller argument, 30 digits, split into short pieces."""
    with mp.workdps(30):
        low, high = mp.mpf(min(h, k)), mp.mpf(max(h, k))
        t = mp.sqrt(1 - mp.mpf(c) ** 2)
        depth = 240 / (max(-low, 0) + mp.sqrt(low**2 + 80)) + max(low, 0)
        # Scaled to order one, for mpmath's tolerance is absolute.
        peak = mp.npdf(low) * mp.ncdf((high - c * low) / t)
        pieces = mp.linspace(low - depth, low, 16)
        return peak * mp.quad(lambda x: mp.npdf(x) * mp.ncdf((high - c * x) / t) / peak, pieces)


@pytest.mark.parametrize("c", [1 / 3, -1 / 3])
@pytest.mark.parametrize(
    ("h", "k"), [(0, 0), (-1, 2), (-5, -5), (-10, -1), (-0.01, -9), (2, -12), (0.5, 0.7), (-20, 3), (6, 6)]
)
def test_values_in_every_tail(h, k, c):
    expected = mp.log(reference(h, k, c))
    assert abs(float(expected) - float(log_orthant(h, k, c))) < 3e-13 * max(1, abs(float(expected)))


def test_sheppard():
    """Phi_2(0, 0; c) = 1/4 + asin(c)/(2 pi) (Sheppard 1899)."""
    for c in (-0.8, -1 / 3, 0.1, 0.7):
        assert float(orthant(0, 0, c)) == pytest.approx(0.25 + math.asin(c) / (2 * math.pi), abs=1e-15)


@given(ARGUMENTS, ARGUMENTS, CORRELATIONS)
def test_quadrants_add_up(h, k, c):
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    total = sum(float(orthant(s * h, r * k, s * r * c)) for s, r in signs)
    assert total == pytest.approx(1, abs=2e-13)


@given(st.floats(-6, 6), st.floats(-6, 6), CORRELATIONS)
def test_derivative_by_differences(h, k, c):
    step = 1e-4
    logs = log_orthant([h - 2 * step, h - step, h + step, h + 2 * step], [k] * 4, c)
    slope = (logs[0] - 8 * logs[1] + 8 * logs[2] - logs[3]) / (12 * step)
    assert float(np.exp(log_orthant_derivative(h, k, c) - log_orthant(h, k, c))) == pytest.approx(slope, abs=2e-8)


def near_one(h, k, c):
    """The same integral with the logarithm of its integrand, divided at the turn, for |c| near 1; 30 digits."""
    with mp.workdps(30):
        h, k, c = mp.mpf(h), mp.mpf(k), mp.mpf(c)
        low, high = min(h, k), max(h, k)
        t = mp.sqrt(1 - c**2)

        def log_integrand(x):
            return -x * x / 2 + mp.log(mp.erfc((c * x - high) / t / mp.sqrt(2)) / 2)

        marks = {low} | {high / c + side * t for side in (-30, -10, -5, -2, 0, 2, 5, 10, 30)}
        marks |= {low - mp.mpf(10) ** power for power in range(-8, 2)} | {mp.mpf(-x) for x in range(10)}
        marks = sorted(x for x in marks if low - 30 <= x <= low)
        peak = max(log_integrand(x) for x in marks)
        return mp.log(mp.quad(lambda x: mp.exp(log_integrand(x) - peak), marks)) + peak - mp.log(2 * mp.pi) / 2


@pytest.mark.parametrize(
    ("h", "k", "c"),
    [
        (-1, -1, 0.999),
        (0.3, 0.31, 1 - 1e-9),
        (0.3, 0.31, 1 - 1e-4),
        (-2, 1.5, -0.98),
        (2, 1.9, -1 + 1e-12),
        (-3, 3 + 1e-6, -1 + 1e-13),
        (-6, -6.001, 1 - 1e-7),
        (-1, 0.9, -1 + 1e-5),
        (4, -0.3, 0.71),
    ],
)
def test_near_perfect_correlation(h, k, c):
    expected = float(near_one(h, k, c))
    assert float(log_orthant(h, k, c)) == pytest.approx(expected, rel=1e-13, abs=2e-13)


@settings(max_examples=25)
@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(1, 15), st.sampled_from([-1, 1]))
def test_at_any_correlation(h, k, digits, sign):
    """The four quadrants add up to 1, two of them to a margin, and Sheppard holds at the origin."""
    c = sign * (1 - 10**-digits)
    here, there = float(orthant(h, k, c)), float(orthant(h, -k, -c))
    assert here + there == pytest.approx(float(ndtr(h)), abs=1e-14, rel=1e-12)
    arc = math.atan2(c, math.sqrt((1 - c) * (1 + c)))
    origin = 0.25 + arc / (2 * math.pi) if c > 0 else math.atan2(math.sqrt((1 - c) * (1 + c)), -c) / (2 * math.pi)
    assert float(orthant(0, 0, c)) == pytest.approx(origin, rel=1e-13)


def test_infinite_arguments_are_margins():
    assert float(orthant(math.inf, 0.3, 0.999)) == pytest.approx(float(ndtr(0.3)), rel=1e-15)
    assert float(orthant(-math.inf, 0.3, -0.5)) == 0
    assert float(log_orthant(12.0, 11.0, 0.9)) == pytest.approx(-float(ndtr(-11.0)), rel=1e-4)
    with pytest.raises(InputError, match="NaN"):
        orthant(0, math.nan, 0.5)


def test_symmetric():
    h, k = np.linspace(-9, 9, 37), np.linspace(7, -8, 37)
    assert np.allclose(log_orthant(h, k, -1 / 3), log_orthant(k, h, -1 / 3), rtol=1e-14, atol=0)


def test_correlation_range():
    with pytest.raises(InputError, match="correlation"):
        log_orthant(0, 0, 1.0)
    with pytest.raises(InputError, match="correlation"):
        log_orthant_derivative(0, 0, -1.0)
