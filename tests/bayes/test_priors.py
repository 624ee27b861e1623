"""Priors: the gradient of their free entropy, limits in the width, and denoising of sampled matrices."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from aimtheory.bayes import LawPrior, SmallWidthPrior, make_prior
from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra import GOE, Atomic, Empirical, UserDensity, Wishart, bayes_wishart, denoise_matrix

PRIORS = [
    make_prior("1/2"),
    make_prior(1.0),
    make_prior(2),
    make_prior(prior=GOE(0.7)),
    make_prior(prior=Atomic([-1, 2], ["1/3", "2/3"])),
    make_prior(0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.label[:20])
@pytest.mark.parametrize("qhat", [0.3, 1.7, 12.0])
def test_overlap_is_the_gradient_of_the_log_moment(prior, qhat):
    """q/4 = psi_P'(qhat) and dI/dqhat = MMSE/4, to 1e-8 by differences of sixth order."""
    step = 1e-2 * qhat
    points = qhat + step * np.array([-3, -2, -1, 1, 2, 3])
    stencil = np.array([-1, 9, -45, 45, -9, 1]) / (60 * step)
    assert stencil @ prior.log_moment(points) == pytest.approx(float(prior.overlap(qhat)) / 4, abs=1e-8)
    assert stencil @ prior.information(points) == pytest.approx(float(prior.mmse(qhat)) / 4, abs=1e-8)


@given(st.floats(0.05, 3), st.floats(0.01, 100))
def test_mmse_bounds(width, qhat):
    """Linear denoising from above; q between (tr S)^2 and tr S^2; degrees of freedom bound qhat MMSE."""
    prior = make_prior(width)
    value = float(prior.mmse(qhat))
    assert 0 < value <= 1 / (1 + qhat) + 1e-12
    assert prior.mean_square - 1e-12 <= float(prior.overlap(qhat)) <= prior.second_moment
    assert qhat * value <= float(prior.degrees_of_freedom) + 1e-9


def test_bayes_normalization():
    """S = W W^T/sqrt(r d): tr S = sqrt(rho), tr S^2 = 1 + rho ([B])."""
    prior = make_prior("1/4")
    assert prior.mean == pytest.approx(0.5)
    assert prior.second_moment == pytest.approx(1.25)
    assert prior.mmse(0.0) == pytest.approx(1.0)


def test_degrees_of_freedom():
    rho = sp.Symbol("rho", positive=True)
    symbolic = make_prior(rho).degrees_of_freedom
    assert sp.simplify(symbolic.subs(rho, sp.Rational(1, 3)) - sp.Rational(5, 9)) == 0
    assert make_prior("1/3").degrees_of_freedom == sp.Rational(5, 9)
    assert make_prior(4).degrees_of_freedom == 1
    assert make_prior(prior=Atomic([0, 1, 5], ["1/2", "1/4", "1/4"])).degrees_of_freedom == 1 - sp.Rational(3, 8)
    for prior in PRIORS:
        large = 1e9
        assert large * float(prior.mmse(large)) == pytest.approx(float(prior.degrees_of_freedom), rel=2e-6)


def test_small_width_is_the_limit():
    """MMSE at qhat = x rho tends to t(2 - t), t = 1/x, and I/rho to its integral; errors vanish like sqrt(rho)."""
    limit = SmallWidthPrior()
    x = np.array([0.3, 0.8, 1.5, 4.0, 30.0])
    for rho, slack in ((1e-2, 0.2), (1e-4, 0.02), (1e-6, 0.002)):
        prior = make_prior(rho)
        assert np.allclose(prior.mmse(x * rho), limit.mmse(x), atol=slack)
        assert np.allclose(prior.information(x * rho) / rho, limit.information(x), atol=slack)
    assert limit.mmse([0.5, 1.0, 2.0]) == pytest.approx([1, 1, 0.75])


def test_denoising_a_sampled_matrix():
    """d = 1000, one draw: the denoised matrix misses S by MMSE(qhat) within 2% (fluctuations are O(1/d))."""
    law = bayes_wishart("1/2")
    rng = np.random.default_rng(3)
    qhat = 2.0
    signal = law.sample(1000, rng)
    estimate = denoise_matrix(law, qhat, signal + GOE(1 / qhat).sample(1000, rng))
    error = float(((estimate - signal) ** 2).sum() / 1000)
    assert error == pytest.approx(float(LawPrior(law).mmse(qhat)), rel=0.02)


def test_every_kind_of_law():
    values = np.linspace(-1, 1, 40)
    flat = UserDensity(lambda x: 0.5 * np.ones_like(x), [(-1.0, 1.0)])
    fine = LawPrior(Empirical(values))
    # 40 equally spaced eigenvalues and their continuum agree at noise much above the spacing.
    assert float(fine.mmse(2.0)) == pytest.approx(float(LawPrior(flat).mmse(2.0)), rel=0.1)
    with pytest.raises(InputError, match="finite"):
        Empirical([1.0, float("nan")])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: make_prior(-0.5), InputError, "width = -0.5"),
        (lambda: make_prior("nan"), InputError, "width = 'nan'"),
        (lambda: make_prior(), InputError, "either width"),
        (lambda: make_prior(1, GOE(1)), InputError, "either width"),
        (lambda: make_prior(prior="wishart"), InputError, "SpectralLaw"),
        (lambda: LawPrior(Atomic([2])), AssumptionError, "no spread"),
    ],
)
def test_bad_priors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_no_second_moment():
    class Heavy(Wishart):
        def moments(self, count):
            return (1.0, float("inf"))[:count]

    with pytest.raises(AssumptionError, match="second moment"):
        LawPrior(Heavy(1, 1))
