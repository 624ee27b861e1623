"""Gauss quadrature of an operator's spectral measure."""

import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.integrate import quad

from aimtheory.errors import InputError
from aimtheory.spectra import GOE, FreeFamily, Wishart, spectral_measure

RNG = np.random.default_rng(8)
MATRIX = RNG.standard_normal((30, 30))
MATRIX = MATRIX + MATRIX.T
STATE = RNG.standard_normal(30)


def power_moment(order):
    vector = STATE.copy()
    for _ in range(order):
        vector = MATRIX @ vector
    return STATE @ vector


def test_moments_are_those_of_the_operator():
    full = spectral_measure(MATRIX, STATE)
    assert full.mass == pytest.approx(STATE @ STATE, rel=1e-13)
    for order in range(8):
        assert full.moment(order) == pytest.approx(power_moment(order), rel=1e-10, abs=1e-8)


def test_lanczos_rule_is_exact_to_twice_its_steps():
    rule = spectral_measure(sparse.csr_array(MATRIX), STATE, steps=5)
    assert len(rule.nodes) == 5
    for order in range(10):
        assert rule.moment(order) == pytest.approx(power_moment(order), rel=1e-10, abs=1e-8)
    assert abs(rule.moment(10) / power_moment(10) - 1) > 1e-6


def test_free_sum_of_compressed_operators_has_the_law_of_the_sum():
    # Independent route: A + B of two free Wisharts with equal scale is Wishart with added width and trace.
    system = FreeFamily({"A": Wishart("1/2", "1/2"), "B": Wishart("3/2", "3/2")}).operators(7)
    measure = spectral_measure(system.operators["A"] + system.operators["B"])
    for n, moment in enumerate(Wishart(2, 2).moments(15), start=1):
        assert measure.moment(n) == pytest.approx(float(moment), rel=1e-11)


def test_smoothed_density_and_distribution():
    measure = spectral_measure(FreeFamily({"A": GOE(1)}).operators(60).operators["A"])
    x = np.linspace(-1.5, 1.5, 7)
    assert measure.density(x) == pytest.approx(GOE(1).density(x), abs=5e-3)
    assert measure.resolution < 0.1
    assert quad(lambda y: float(measure.density(y, 0.2)), -5, 5)[0] == pytest.approx(1, abs=1e-8)
    for resolution in (None, 0.05):
        assert measure.cdf(0.0, resolution) == pytest.approx(0.5, abs=0.02)
        assert measure.cdf([-3.0, 3.0], resolution) == pytest.approx([0.0, 1.0], abs=1e-12)
    z = x + 0.3j
    lorentzian = measure.density(x, 0.3, kernel="lorentzian")
    assert lorentzian == pytest.approx(-GOE(1).stieltjes(z).imag / np.pi, abs=1e-8)


def test_invariant_state_stops_early():
    measure = spectral_measure(np.diag([1.0, 2.0, 3.0]), [1.0, 0.0, 1.0], steps=3)
    assert measure.nodes == pytest.approx([1.0, 3.0])
    assert measure.weights == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)),), "square"),
        (([[0.0, 1.0], [0.0, 0.0]],), "not symmetric"),
        (([[np.nan]],), "NaN"),
        ((np.eye(2), [0.0, 0.0]), "zero vector"),
        ((np.eye(2), [1.0]), "shape"),
        ((np.eye(2), None, 0), "steps"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        spectral_measure(*arguments)
    with pytest.raises(InputError, match="kernel"):
        spectral_measure(np.eye(2)).density(0.0, 0.1, kernel="box")
