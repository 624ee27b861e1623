"""Heads that the output cannot tell apart: symmetric and specialized solutions, and where one gives way."""

import math

import numpy as np
import pytest

from aimtheory.bayes import LinearHeads, SignHeads, Specialization
from aimtheory.errors import AssumptionError, InputError


@pytest.fixture(scope="module")
def pair():
    return Specialization(SignHeads(2, 2))


def test_symmetric_solution_solves_the_matrix_equations(pair):
    point = pair.symmetric(0.2)
    full = pair.evolution.solve(0.2, tolerance=1e-7)
    assert full.mmse == pytest.approx([point.mmse] * 2, rel=1e-6)
    assert point.free_entropy == pytest.approx(full.free_entropy, abs=1e-10)
    assert point.stable
    assert point.growth < 1


def test_growth_is_what_the_map_does(pair):
    """A small difference between the heads, one undamped step of the full equations."""
    for alpha, stable in ((0.3, True), (0.4, False)):
        point = pair.symmetric(alpha)
        errors = pair.matrix(point.sum_error, 1 - 1e-5)
        moved = pair.evolution.prior.error_matrix(alpha * pair.evolution.signal(errors)[0])
        assert (1 - moved[0, 0] + moved[0, 1]) / 1e-5 == pytest.approx(point.growth, rel=1e-4)
        assert point.stable is stable


def test_small_difference_at_no_information():
    """At q = 0: growth/alpha = C^2 lim F/q_difference from the Hessian of log P(y), two signs, by hand."""
    pair = Specialization(SignHeads(2, 2), variance=1.0)
    # log p of y = 0 is log[2 Phi(w)Phi(-w)] along the difference (w, -w)/sqrt 2 ..., of y = +-2 its own: the squared
    # second derivatives along e = (1, -1)/sqrt 2 at omega = 0 are (2/pi)^2 for both answers, three pairs of tokens.
    probe = 1e-5
    slope = pair.signal(1.0, 1 - probe)[1] / probe
    assert slope == pytest.approx(3 * 2 * (2 / math.pi) ** 2, rel=1e-4)


@pytest.mark.slow
def test_transition_of_two_sign_heads(pair):
    """Continuous; the specialized branch starts there, below it there is none, and it wins above it."""
    transition = pair.transition()
    assert not transition.first_order
    assert transition.spinodal == transition.alpha
    assert pair.symmetric(transition.alpha).growth == pytest.approx(1, abs=1e-4)
    assert [p.kind for p in pair.fixed_points(0.98 * transition.alpha)] == ["symmetric"]
    symmetric, special = pair.fixed_points(1.3 * transition.alpha)
    assert (symmetric.stable, special.stable) == (False, True)
    assert special.free_entropy > symmetric.free_entropy
    assert special.mmse < symmetric.mmse
    full = pair.evolution.solve(1.3 * transition.alpha, start=0.5 * np.eye(2))
    assert full.mmse == pytest.approx([special.mmse] * 2, rel=1e-7)
    near = pair.fixed_points(1.002 * transition.alpha)[-1]
    assert near.kind == "specialized"
    assert near.difference_error > 0.95


def test_a_linear_sum_never_specializes():
    with pytest.raises(AssumptionError, match="never specializes"):
        Specialization(LinearHeads(2, [[1.0, 1.0]], 0.5)).transition()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Specialization(LinearHeads(2, [[1.0, 2.0]], 0.5)), "symmetric in its heads"),
        (lambda: Specialization(SignHeads(2, 2), variance=0.0), "variance = 0.0"),
        (lambda: Specialization(SignHeads(2, 2)).symmetric(0.0), "alpha = 0"),
        (lambda: Specialization(SignHeads(2, 2)).symmetric(math.nan), "alpha = nan"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()
