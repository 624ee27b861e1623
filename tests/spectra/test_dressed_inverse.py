"""Traces of E (A^{-1} + Y)^{-1} E: against free mixed moments, against matrices, at extreme E and Y."""

import itertools

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.errors import AssumptionError, NumericsError
from aimtheory.spectra import FreeFamily
from aimtheory.spectra.dressed_inverse import DressedInverse, StartRule
from aimtheory.spectra.law_quadrature import law_quadrature

LAWS = {
    "narrow": aim.Wishart(width=0.5, trace=1.3),
    "hard edge": aim.Wishart(width=1, trace=0.8),
    "two atoms": aim.Atomic([0, 1], ["1/3", "2/3"]),
    "GOE": aim.GOE(variance=1),
}


def dressed(start, fixed, log_kernel, Y, nodes=48):
    rule = law_quadrature(fixed, nodes)
    x = rule.nodes
    k = log_kernel(x)
    return x, DressedInverse(rule.weights, k, Y(x) / (1 + np.exp(-k)), StartRule.of_law(start, nodes))


@pytest.mark.parametrize(
    ("start", "fixed"), [("narrow", "hard edge"), ("two atoms", "GOE"), ("hard edge", "two atoms")]
)
def test_mixed_moments_of_free_matrices(start, fixed):
    """At E = 1, Y = 0 the words are those of two free matrices, by the recursion over non-crossing partitions."""
    x, S = dressed(LAWS[start], LAWS[fixed], np.zeros_like, np.zeros_like)
    family = FreeFamily({"A": LAWS[start], "B": LAWS[fixed]})
    for exponents in [(1,), (0, 1), (2, 1), (1, 1, 1), (0, 2, 0, 1), (1, 0, 2, 0, 1), (0, 0, 0, 0, 0, 0)]:
        word = "".join("A" + "B" * n for n in exponents)
        known = float(family.moment(word))
        assert S.word([x**n for n in exponents]) == pytest.approx(known, rel=1e-9, abs=1e-10), word


def test_words_against_matrices():
    """Y of both signs, a start with a kernel; d = 300, the scatter of eight samples."""
    start, fixed = LAWS["narrow"], LAWS["hard edge"]

    def log_kernel(x):
        return 0.4 - 0.8 * x

    def Y(x):
        return 0.7 * x + 0.3 * x**2 - 0.05

    x, S = dressed(start, fixed, log_kernel, Y)
    words = [(0,), (1,), (0, 0), (1, 0), (1, 1), (1, 0, 2), (0, 1, 1, 0), (2, 0, 1, 0)]
    values, dim = [], 300
    for seed in range(8):
        rng = np.random.default_rng(seed)
        b, V = np.linalg.eigh(fixed.sample(dim, rng))
        b = np.maximum(b, 0)
        W = V.T @ start.sample_factor(dim, rng)
        inner = np.eye(W.shape[1]) + W.T @ (Y(b)[:, None] * W)
        E = np.exp(-0.5 * log_kernel(b))
        M = E[:, None] * (W @ np.linalg.solve(inner, W.T)) * E
        row = []
        for exponents in words:
            product = np.eye(dim)
            for n in exponents:
                product = product @ M * b**n
            row.append(np.trace(product) / dim)
        values.append(row)
    mean, error = np.mean(values, axis=0), np.std(values, axis=0, ddof=1) / np.sqrt(8)
    ours = np.array([S.word([x**n for n in exponents]) for exponents in words])
    # The bias of a moment is O(1/d^2) beside a scatter O(1/d).
    assert (np.abs(ours - mean) < 4 * error + 5e-4 * np.abs(ours)).all()


def test_pair_is_the_derivative_of_a_trace():
    x, S = dressed(LAWS["narrow"], LAWS["hard edge"], lambda x: 0.4 - 0.8 * x, lambda x: 0.7 * x + 0.2)
    f, h, step = 1 + x, x**2, 1e-4

    def moved(eps):
        return DressedInverse(S.weights, S.log_kernel, S.scaled + eps * f * S.sigma, S.start).trace(h)

    slope = (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step)
    assert S.pair(f, h) == pytest.approx(-slope, rel=1e-9)
    assert S.word([f, h]) == S.pair(f, h)


@pytest.mark.parametrize("decay", [0.0, 1.0, 1e6])
def test_extreme_times_widths_and_decays(decay):
    """dY/dt = 2 E^2 with E = exp((x - decay/4) t) in closed form, to t = 1e8: finite, positive, and rank conserved."""
    for student, teacher, t in itertools.product((0.05, 0.5, 1, 4), (0.05, 1, 4), (0, 1e-8, 1, 1e2, 1e4, 1e8)):
        rule = law_quadrature(aim.Wishart(width=teacher, trace=1), 48)
        start = StartRule.of_law(aim.Wishart(width=student, trace=1), 48)
        rate = 2 * rule.nodes - decay / 2
        exponent = rate * t
        # (e^{rt} - 1)/(r (1 + e^{rt})) x 2 = 2 tanh(rt/2)/r, whatever the sign of r.
        safe = np.where(np.abs(exponent) < 1e-6, 1.0, rate)
        Z = np.where(np.abs(exponent) < 1e-6, t, 2 * np.tanh(exponent / 2) / safe)
        S = DressedInverse(rule.weights, -exponent, Z, start)
        one = np.ones_like(rule.nodes)
        values = S.trace(one), S.trace(rule.nodes), S.pair(one, one), S.pair(one, rule.nodes), S.pair(rule.nodes, one)
        assert np.isfinite(values).all()
        assert min(values) >= 0
        if decay == 0 and t == 1e8 and student >= min(1, teacher):
            assert values[:3] == pytest.approx((1, 1 + 1 / teacher, 1 + 1 / teacher), rel=1e-4)
        if decay == 0 and t == 1e8 and student < min(1, teacher):
            # The student keeps the top of the teacher's spectrum, of the mass of its own rank.
            assert values[1] == pytest.approx(values[2], rel=1e-6)
            assert values[1] < 1 + 1 / teacher


def test_what_has_blown_up_says_so():
    rule = law_quadrature(LAWS["hard edge"], 24)
    start = StartRule.of_law(LAWS["narrow"], 24)
    with pytest.raises(NumericsError, match="blown up"):
        DressedInverse(rule.weights, 0 * rule.nodes, np.full_like(rule.nodes, -5.0), start).trace(rule.nodes)


def test_a_start_below_zero_is_no_square():
    with pytest.raises(AssumptionError, match="W W"):
        StartRule.of_law(LAWS["GOE"], 24)
