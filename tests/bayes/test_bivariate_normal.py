"""Orthant probabilities against mpmath, known values and identities."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_symmetric():
    h, k = np.linspace(-9, 9, 37), np.linspace(7, -8, 37)
    assert np.allclose(log_orthant(h, k, -1 / 3), log_orthant(k, h, -1 / 3), rtol=1e-14, atol=0)


def test_correlation_range():
    with pytest.raises(InputError, match="correlation"):
        log_orthant(0, 0, 1.0)
