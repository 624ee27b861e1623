"""Laws given by a density function."""

import math
import pickle

import numpy as np
import pytest
from scipy.special import gamma

import aimtheory as aim
from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import FreeFamily, UserDensity, Wishart, mmse


def beta_density(power):
    norm = gamma(power + 1.5) / (math.sqrt(math.pi) * gamma(power + 1))
    return lambda x: norm * (1 - x**2) ** power


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.5])
def test_moments_of_beta_laws(power):
    law = UserDensity(beta_density(power), [(-1.0, 1.0)])
    # E x^2 = 1/(2p + 3), E x^4 = 3 / ((2p+3)(2p+5)).
    expected = [0, 1 / (2 * power + 3), 0, 3 / ((2 * power + 3) * (2 * power + 5))]
    assert law.moments(4) == pytest.approx(expected, abs=1e-13)


def test_singular_edges_are_integrated():
    arcsine = UserDensity(lambda x: 1 / (math.pi * np.sqrt(x * (1 - x))), [(0.0, 1.0)], tolerance=1e-6)
    assert arcsine.moments(2) == pytest.approx([0.5, 3 / 8], abs=1e-7)
    hard_edge = UserDensity(Wishart(1).density, [(0.0, 4.0)])
    assert hard_edge.moments(4) == pytest.approx([1, 2, 5, 14], rel=1e-12)
    assert float(mmse(hard_edge, 5.0)) == pytest.approx(float(mmse(Wishart(1), 5.0)), rel=1e-10)


def test_cauchy_transform_is_exact_up_to_the_axis():
    law = UserDensity(Wishart(2.0, 1.0).density, [Wishart(2.0, 1.0).edges])
    x = np.linspace(0.2, 2.8, 9)
    for height in (2.0, 0.3, 1e-2, 1e-5, 1e-9):
        z = x + 1j * height
        assert law.stieltjes(z) == pytest.approx(Wishart(2.0, 1.0).stieltjes(z), abs=1e-12)
        assert law.stieltjes(np.conj(z)) == pytest.approx(np.conj(law.stieltjes(z)), abs=0)
    uniform = UserDensity(beta_density(0.0), [(-1.0, 1.0)])
    z = np.array([0.3 + 1e-7j, 1.5 + 0j, -0.2 + 0.4j, 0.999999 + 1e-6j])
    assert uniform.stieltjes(z) == pytest.approx(0.5 * np.log((z + 1) / (z - 1)), abs=1e-9)


def test_several_intervals_and_sampling():
    law = UserDensity(lambda x: np.where(x < 0, 0.25, 0.75), [(2.0, 3.0), (-1.0, 0.0)])
    assert law.support == ((-1.0, 0.0), (2.0, 3.0))
    assert law.moments(1)[0] == pytest.approx(0.25 * -0.5 + 0.75 * 2.5, rel=1e-13)
    assert law.density([-0.5, 1.0, 2.5]) == pytest.approx([0.25, 0.0, 0.75])
    eigenvalues = np.linalg.eigvalsh(law.sample(80, np.random.default_rng(0)))
    assert np.mean(eigenvalues < 1) == pytest.approx(0.25, abs=1 / 80)
    assert eigenvalues.mean() == pytest.approx(law.moments(1)[0], abs=0.02)


def test_in_a_free_family():
    law = UserDensity(Wishart(2.0).density, [Wishart(2.0).edges])
    mine = FreeFamily({"A": law, "B": Wishart(1)}).operators(4)
    exact = FreeFamily({"A": Wishart(2), "B": Wishart(1)})
    assert mine.moment("AABABAB") == pytest.approx(float(exact.moment("AABABAB")), rel=1e-11)


@pytest.mark.parametrize(
    ("function", "support", "error", "message"),
    [
        (lambda x: np.ones_like(x), [(-1.0, 1.0)], AssumptionError, "integrates to 2"),
        (lambda x: x, [(-1.0, 1.0)], InputError, "< 0 at"),
        (lambda x: np.where(x > 0, np.nan, 1.0), [(-1.0, 1.0)], InputError, "nan"),
        (lambda _: np.ones(3), [(-1.0, 1.0)], InputError, "shape"),
        (lambda x: np.ones_like(x), [], InputError, "at least one"),
        (lambda x: np.ones_like(x), [(1.0, 0.0)], InputError, "low < high"),
        (lambda x: np.ones_like(x), [(0.0, float("inf"))], InputError, "finite"),
        (lambda x: np.ones_like(x), [(0.0, 1.0), (0.5, 2.0)], InputError, "overlap"),
    ],
)
def test_bad_densities_are_named(function, support, error, message):
    with pytest.raises(error, match=message):
        UserDensity(function, support)


def test_a_density_is_the_same_numbers_before_and_after_a_trip():
    """Live and stored laws read the same table: divided by the integral, and the same to the last bit."""
    law = UserDensity(lambda x: 0.75 * (1 - x**2) * (1 + 4e-7), [(-1.0, 1.0)])
    x = np.linspace(-1, 1, 301)
    other = pickle.loads(pickle.dumps(law))
    assert np.array_equal(other.density(x), law.density(x))
    np.testing.assert_allclose(law.density(x), 0.75 * (1 - x**2), rtol=0, atol=1e-14)
    shifted = UserDensity(lambda x: 0.75 * (1 - (x - 1) ** 2), [(0.0, 2.0)])
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="tied", student=aim.Wishart(1, 1), teacher=shifted
    )
    here, there = (aim.close(one, closure="exact") for one in (model, pickle.loads(pickle.dumps(model))))
    for word in ("tr(S1 S1 S2)", "tr(S2 S2 S2)"):
        assert here.read(word, here.initial) == there.read(word, there.initial)
