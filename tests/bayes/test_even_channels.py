"""Channels even in the forms: the branch of the prior mean, jumps of the likelihood, transitions and hard phases."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from aimtheory.bayes import (
    GeneralChannel,
    SignChannel,
    SmallWidthPrior,
    StateEvolution,
    bayes_curve,
    make_prior,
    threshold,
)
from aimtheory.bayes.one_axis import find_jumps
from aimtheory.errors import AssumptionError
from aimtheory.spectra import GOE

EDGE = 0.6745


def door(edges=(EDGE,)):
    """One bit of |h_12|: in which of alternate intervals between ``edges`` it lies."""

    def log_likelihood(y, u):
        inside = np.searchsorted(np.array(edges), np.abs(u[..., 0])) % 2 == 0
        return np.log(np.where(inside == (y[..., 0] > 0), 1.0, 1e-300))

    return GeneralChannel(2, log_likelihood, [[-1.0], [1.0]], directions=[[0.0, 1.0, 0.0]], label="door")


def folded(noise):
    """y = |h_12| + N(0, noise^2), y on a grid."""
    y = np.linspace(-7 * noise, 6.5, 2 * round(3 * (6.5 + 7 * noise) / noise))

    def log_likelihood(seen, u):
        return -0.5 * ((seen[..., 0] - np.abs(u[..., 0])) / noise) ** 2 - math.log(noise * math.sqrt(2 * math.pi))

    weights = np.full(len(y), y[1] - y[0])
    return GeneralChannel(2, log_likelihood, y, weights=weights, directions=[[0.0, 1.0, 0.0]], label="folded")


DOOR = door()
SMALL = StateEvolution(SmallWidthPrior(), DOOR)
NARROW = StateEvolution(make_prior("1/10"), DOOR)


def door_integral(q, variance, bracket, edge=EDGE):
    """E over omega of a bracket of (Z, dZ/domega) of the door, by adaptive quadrature divided at its edges."""
    root = math.sqrt(variance)

    def integrand(omega):
        above, below = (edge - omega) / root, (-edge - omega) / root
        # From the side on which nothing cancels.
        z = ndtr(above) - ndtr(below) if omega < 0 else ndtr(-below) - ndtr(-above)
        slope = (math.exp(-0.5 * below**2) - math.exp(-0.5 * above**2)) / math.sqrt(2 * math.pi * variance)
        rest = ndtr(below) + ndtr(-above)
        return math.exp(-0.5 * omega**2 / q) / math.sqrt(2 * math.pi * q) * bracket(z, rest, slope)

    marks = sorted(
        {side * edge + shift * root for side in (-1, 1) for shift in (-8, -3, 0, 3, 8)} | {-9 * q**0.5, 9 * q**0.5}
    )
    marks = [mark for mark in marks if abs(mark) <= 9 * math.sqrt(q)]
    return sum(quad(integrand, a, b, epsabs=1e-13, epsrel=1e-12, limit=200)[0] for a, b in pairwise(marks))


def door_signal(q, variance):
    def bits(z, rest, slope):
        return slope**2 / z / rest * (z + rest) if min(z, rest) > 1e-200 else 0.0

    return 2 * door_integral(q, variance, bits)


def door_entropy(q, variance):
    def bits(z, rest, _):
        return sum(p * math.log(p) for p in (z, rest) if p > 0)

    return door_integral(q, variance, bits)


@pytest.mark.parametrize(("q", "variance"), [(0.3, 0.7), (0.99, 0.01), (1.0, 1e-6), (0.01, 1.2)])
def test_integrals_of_a_likelihood_with_jumps(q, variance):
    """Against adaptive quadrature of the closed form; V as small as may be."""
    signal, entropy = DOOR.signal(q, variance), DOOR.psi_of([[q]], [variance])
    assert float(signal.value) == pytest.approx(door_signal(q, variance), rel=1e-9)
    assert float(entropy.value) == pytest.approx(door_entropy(q, variance), rel=1e-8)
    assert float(signal.error) < 1e-8 * float(signal.value)


def test_signs_by_panels():
    """The closed channel has three such bits."""
    sign = GeneralChannel(
        2,
        lambda y, u: np.log(np.where(y[..., 0] * u[..., 0] > 0, 1.0, 1e-300)),
        [[-1.0], [1.0]],
        directions=[[0, 1.0, 0]],
    )
    for variance in (1.0, 0.4, 1e-5):
        q = 1 - variance
        assert 3 * float(sign.signal(q, variance).value) == pytest.approx(
            float(SignChannel(2).signal(q, variance).value), rel=1e-10
        )
    omega = np.array([[0.0, 0.8, 0.0], [0.0, -2.0, 0.0]])
    slope = sign.gradient(np.array([[1.0], [1.0]]), omega, 0.3)[:, 1]
    k = omega[:, 1] / math.sqrt(0.3)
    assert slope == pytest.approx(np.exp(-0.5 * k**2) / math.sqrt(2 * math.pi * 0.3) / ndtr(k), rel=1e-10)


def test_jumps_are_found():
    edges = np.array([0.1, 0.35, 1.7])
    channel = door(edges)
    found = find_jumps(lambda u: np.exp(channel.log_likelihood(channel.outputs[None], u[:, None, None])), 1.0)
    assert found == pytest.approx(np.concatenate([-edges[::-1], edges]), abs=1e-12)
    assert len(find_jumps(lambda u: np.stack([ndtr(u / 0.2), ndtr(-u / 0.2)], axis=1), 1.0)) == 0


@pytest.mark.parametrize("alpha", [20.0, pytest.param(300.0, marks=pytest.mark.slow)])
def test_small_width_keeps_both_branches(alpha):
    """q = 0 attracts at every alpha; the informed solution solves the equations of an independent quadrature."""
    points = SMALL.fixed_points(alpha)
    assert [point.stable for point in points] == [True, False, True]
    assert (points[0].q, points[0].mmse, points[0].branch) == (0.0, 1.0, "uninformed")
    assert SMALL.iterate(alpha, 60, start=1e-3)[-1][0] == 0
    informed = SMALL.solve(alpha, "informed")
    t = 1 / (alpha * door_signal(informed.q, informed.mmse))
    assert t * (2 - t) == pytest.approx(informed.mmse, rel=1e-8)
    assert SMALL.solve(alpha) == informed
    assert SMALL.solve(alpha, "uninformed").mmse == 1
    curve = SMALL.curve([alpha], "uninformed")
    assert curve.mmse[0] == 1
    assert curve.ok


def test_small_width_jumps_at_equal_free_entropy():
    """From nothing to the informed branch; for algorithms the hard phase has no end."""
    assert [spinodal.ends for spinodal in SMALL.spinodals()] == ["informed"]
    (jump,) = SMALL.first_order_transitions()
    assert jump.mmse_before == 1
    assert jump.hard_phase == (jump.alpha, math.inf)
    v = jump.mmse_after
    x = 1 / (1 - math.sqrt(1 - v))
    information = 0.5 * math.log(x) + 0.25 / x
    p = 2 * ndtr(EDGE) - 1
    informed = 0.25 * x * v - information + jump.alpha * door_entropy(1 - v, v)
    assert informed == pytest.approx(jump.alpha * (p * math.log(p) + (1 - p) * math.log(1 - p)), abs=1e-8)
    assert SMALL.solve(0.99 * jump.alpha).mmse == 1
    assert SMALL.solve(1.01 * jump.alpha).mmse < 0.1


@pytest.mark.slow
def test_folded_noise_at_small_width():
    """alpha/rho = 10: the Bayes optimum is .0111, which no local algorithm reaches from the prior mean."""
    model = StateEvolution(SmallWidthPrior(), folded(0.3))
    assert model.solve(10.0, "uninformed").mmse == 1
    best = model.solve(10.0)
    assert best.mmse == pytest.approx(0.011102, abs=1e-6)
    assert best.branch == "informed"
    assert best.free_entropy > model.fixed_points(10.0)[0].free_entropy + 1
    with pytest.raises(AssumptionError, match="no continuous weak recovery"):
        threshold(channel=model.channel, kind="weak", width=0)


def test_the_prior_mean_ends_where_a_jump_begins():
    """GOE(1): the branch q = 0 ends at alpha_weak with the informed one beside it, or continuously."""
    for edge in (EDGE, 2.0):
        model = StateEvolution(GOE(1), door((edge,)))
        end = model.prior_mean_ends
        starts_falling = not model.fixed_point_curve.segments[0].rising
        spinodals = model.spinodals()
        assert starts_falling == any(item.qhat == 0 and item.ends == "uninformed" for item in spinodals)
        below, above = model.fixed_points(0.999 * end), model.fixed_points(1.001 * end)
        assert below[0].stable
        assert not above[0].stable
        # Followed from a small overlap, the iteration says the same.
        assert model.iterate(0.9 * end, 12, start=1e-4)[-1][0] < 0.4e-4
        assert model.iterate(1.1 * end, 12, start=1e-4)[-1][0] > 2e-4
        for jump in model.first_order_transitions():
            assert jump.alpha < end


def closed_weak(edges):
    """1/(2 C), C = (1/P + 1/(1 - P)) (E[(z^2 - 1) p])^2 for alternate intervals."""
    cuts = [0.0, *edges, np.inf]
    inside = [(cuts[i], cuts[i + 1]) for i in range(0, len(cuts) - 1, 2)]
    probability = sum(2 * (ndtr(b) - ndtr(a)) for a, b in inside)

    def moment(x):
        return 0.0 if np.isinf(x) else x * math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)

    second = sum(2 * (moment(a) - moment(b)) for a, b in inside)
    return 1 / (2 * second**2 * (1 / probability + 1 / (1 - probability)))


def test_interval_of_the_door():
    found = threshold(channel=DOOR, kind="weak", prior=GOE(1))
    assert float(found.interval[0]) <= 0.680218383685674 <= float(found.interval[1])
    assert float(found.interval[1]) - float(found.interval[0]) < 1e-6


def test_intervals_hold_the_truth_for_random_doors():
    rng = np.random.default_rng(0)
    for _ in range(12):
        edges = tuple(np.sort(rng.uniform(0.05, 2.5, rng.integers(1, 4))))
        found = threshold(channel=door(edges), kind="weak", prior=GOE(1))
        assert float(found.interval[0]) <= closed_weak(edges) <= float(found.interval[1]), edges


def test_intervals_hold_the_truth_for_random_signs():
    """A bit sign(h_12 - tau) at small width: 1/(2 phi^2/(Phi (1 - Phi))), tau anywhere between the nodes of a grid."""
    rng = np.random.default_rng(1)
    for tau in rng.uniform(-2, 2, 12):
        channel = GeneralChannel(
            2,
            lambda y, u, tau=tau: np.log(np.where(y[..., 0] * (u[..., 0] - tau) > 0, 1.0, 1e-300)),
            [[-1.0], [1.0]],
            directions=[[0.0, 1.0, 0.0]],
        )
        found = threshold(channel=channel, kind="weak", width=0)
        exact = math.pi * ndtr(tau) * ndtr(-tau) * math.exp(tau**2)
        assert float(found.interval[0]) <= exact <= float(found.interval[1])
        assert float(found) == pytest.approx(exact, rel=1e-9)


def test_first_order_transition_between_two_ordinary_branches():
    """Width 1/10: both branches have 0 < q < Q0; the undamped iteration ends on each of them on its side."""
    low, high = sorted(NARROW.spinodals(), key=lambda item: item.alpha)
    assert (low.ends, high.ends) == ("informed", "uninformed")
    (jump,) = NARROW.first_order_transitions()
    assert low.alpha < jump.alpha < jump.algorithmic == pytest.approx(high.alpha, rel=1e-9)
    alpha = 0.5 * (jump.alpha + high.alpha)
    worse, better = NARROW.solve(alpha, "uninformed"), NARROW.solve(alpha, "informed")
    assert worse.mmse > 2.5 * better.mmse
    assert NARROW.solve(alpha) == better
    assert NARROW.iterate(alpha, 60)[-1][1] == pytest.approx(worse.mmse, rel=1e-2)
    assert NARROW.iterate(alpha, 40, start="informed")[-1][1] == pytest.approx(better.mmse, rel=1e-2)
    assert NARROW.iterate(1.2 * high.alpha, 40)[-1][1] < 0.2
    assert NARROW.solve(0.5 * (low.alpha + jump.alpha)).branch == "uninformed"

    def gap(rate):
        """f of both branches with the channel's part by an independent quadrature."""
        total = 0.0
        for sign, branch in ((1, "informed"), (-1, "uninformed")):
            point = NARROW.solve(rate, branch)
            q = NARROW.prior.second_moment - point.mmse
            f = 0.25 * point.qhat * point.mmse - float(NARROW.prior.information(point.qhat))
            total += sign * (f + rate * door_entropy(q, point.mmse))
        return total

    assert gap(jump.alpha) == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize("channel", ["sign", "hardmax"])
@pytest.mark.parametrize("width", ["1/2", 0])
def test_many_samples(channel, width):
    """MMSE ~ alpha^-2 (finitely many answers), to alpha = 1e14."""
    curve = bayes_curve(channel, 2, width=width, alpha=[1e6, 1e8, 1e11, 1e14])
    assert curve.ok
    assert curve.mmse * curve.alpha**2 == pytest.approx(curve.mmse[0] * 1e12, rel=1e-5)


@pytest.mark.parametrize("channel", ["softmax", "sign"])
def test_tiny_width(channel):
    """At width 1e-8 every point converges to its stated error, and is that of the limit up to sqrt(width)."""
    ratio = np.array([0.1, 0.3, 0.4, 1.0, 10.0])
    curve = bayes_curve(channel, 2, width=1e-8, alpha=1e-8 * ratio)
    limit = bayes_curve(channel, 2, width=0, alpha=ratio)
    assert curve.ok
    assert np.allclose(curve.mmse, limit.mmse, rtol=0, atol=2e-4)
