"""Digits beyond float64, against float64, another precision and closed forms."""

from fractions import Fraction

import mpmath as mp
import pytest
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.spectra import (
    GOE,
    Atomic,
    Empirical,
    Wishart,
    bayes_wishart,
    mmse,
    mmse_digits,
    mutual_information,
    mutual_information_digits,
)


@pytest.mark.parametrize(
    ("law", "qhat"),
    [
        (bayes_wishart("1/2"), 100),
        (bayes_wishart("1/2"), Fraction(57)),
        (bayes_wishart(2), 10),
        (bayes_wishart(1), 10**6),
        (bayes_wishart("1/3"), "1/100000"),
        (Wishart("1/100", 3), 7),
        (Atomic([-1, 1]), "3/4"),
        (Atomic([0, 1, 3], ["1/2", "1/4", "1/4"]), 20),
    ],
    ids=str,
)
def test_thirty_digits_agree_with_more_and_with_floats(law, qhat):
    thirty, forty = mmse_digits(law, qhat, 30), mmse_digits(law, qhat, 36)
    with mp.workdps(45):
        assert abs(thirty / forty - 1) < mp.mpf(10) ** -30
    value = float(Fraction(qhat))
    assert float(mmse(law, value)) == pytest.approx(float(thirty), rel=1e-12)
    information = mutual_information_digits(law, qhat, 20)
    assert float(mutual_information(law, value)) == pytest.approx(float(information), abs=1e-13)


def test_derivative_of_information_to_twenty_digits():
    law, step = bayes_wishart("1/2"), Fraction(1, 10**10)
    with mp.workdps(45):
        up = mutual_information_digits(law, 3 + step, 40)
        down = mutual_information_digits(law, 3 - step, 40)
        slope = (up - down) / (2 * mp.mpf(step.numerator) / step.denominator)
        # Truncation step^2 I''' / 6 ~ 1e-21.
        assert abs(slope - mmse_digits(law, 3, 40) / 4) < mp.mpf(10) ** -19


def test_closed_forms():
    with mp.workdps(60):
        assert abs(mmse_digits(GOE("1/3"), 2, 50) - mp.mpf(1) / 5) < mp.mpf(10) ** -50
        assert abs(mmse_digits(Atomic([2]), 3, 30)) < mp.mpf(10) ** -50
        # One over rho large: Wishart -> shifted GOE: kappa_2 = 1, corrections of order 1/rho.
        assert abs(mmse_digits(bayes_wishart(10**8), 2, 30) - mp.mpf(1) / 3) < 1e-7


def test_second_derivation_of_the_weak_signal_series():
    # MMSE = kappa_2 - kappa_2^2 qhat + ...: with [B]'s Wishart kappa_2 = 1.
    q = Fraction(1, 10**9)
    with mp.workdps(40):
        value = mmse_digits(bayes_wishart("1/2"), q, 30)
        assert abs(value - (1 - mp.mpf(10) ** -9)) < 10 * mp.mpf(10) ** -18


def test_bad_input_is_named():
    with pytest.raises(InputError, match="digits"):
        mmse_digits(GOE(1), 1, 0)
    with pytest.raises(InputError, match="qhat"):
        mmse_digits(GOE(1), 0)
    with pytest.raises(InputError, match="Wishart, GOE and Atomic"):
        mmse_digits(Empirical([1.0, 2.0]), 1)
    with pytest.raises(InputError, match="symbolic"):
        mmse_digits(Wishart(sp.Symbol("rho")), 1)
