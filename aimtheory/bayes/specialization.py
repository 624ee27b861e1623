"""Heads that the output cannot tell apart: when does each of them learn a teacher of its own?

For K exchangeable Gaussian heads (GOEs of variance C) and an output that is symmetric in them, the matrix equations
close on two errors, v_sum of the mode (1,...,1)/sqrt K and v_difference of the K - 1 others,

    v = C/(1 + C qhat),    qhat_sum = alpha F_sum(v),    qhat_difference = alpha F_difference(v),

F the eigenvalues of the channel's signal. The *symmetric* solution has q_difference = 0 = qhat_difference: only the sum
is learned, and every estimate is the same. It repels once a small q_difference grows,

    growth = alpha C^2 lim F_difference / q_difference > 1,

which is the specialization threshold; beyond it, or before it where the transition is of first order, *specialized*
solutions with q_difference > 0 exist. Source: ours, after the committee machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from aimtheory.bayes.channel import check_alpha
from aimtheory.bayes.fixed_point import CONVERGED, UNCONVERGED
from aimtheory.bayes.joint_channel import JointChannel
from aimtheory.bayes.joint_prior import JointPrior
from aimtheory.bayes.multi_index_state_evolution import MultiIndexStateEvolution
from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.frozen import Uncached
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray

_SYMMETRIC = np.geomspace(1e-4, 3e4, 36)
"""qhat_sum C on which the symmetric branch is scanned."""

_SPECIALIZED = np.array([1e-3, 0.05, 0.15, 0.3, 0.5, 0.8, 1.3, 2.2, 4.0, 8.0, 20.0, 60.0, 200.0])
"""qhat_difference C on which the specialized branch is scanned; beyond, the heads are known to 0.5 %."""

_PROBE = 2e-4
"""q_difference / C at which the growth is measured, and half of it."""

SYMMETRIC, SPECIALIZED = "symmetric", "specialized"


@record("specialization-point")
@dataclass(frozen=True)
class SpecializationPoint:
    """A solution at one alpha. ``kind`` is ``symmetric`` or ``specialized``; ``mmse`` is the error of one head.

    ``growth`` is the factor by which the undamped map multiplies a small difference between the heads (symmetric
    solutions only, NaN else). ``stable``: growth < 1, or a rising branch alpha(qhat_difference). The largest
    ``free_entropy`` is Bayes-optimal. ``residual`` is that of both equations, relative.
    """

    alpha: float
    kind: str
    sum_error: float
    difference_error: float
    sum_qhat: float
    difference_qhat: float
    mmse: float
    growth: float
    stable: bool
    free_entropy: float
    residual: float
    status: str


@record("specialization-transition")
@dataclass(frozen=True)
class SpecializationTransition:
    """``alpha`` at which the symmetric solution loses its stability, its ``error``, and the point there.

    ``first_order``: specialized solutions exist below it, from ``spinodal`` on; otherwise ``spinodal`` = ``alpha``.
    """

    alpha: float
    error: float
    mmse: float
    first_order: bool
    spinodal: float


@record("specialization")
@dataclass(frozen=True)
class Specialization(Uncached):
    """The solutions of K exchangeable GOE heads of ``variance`` C behind an exchangeable ``channel``.

    Exact at every fixed point of this symmetry; solutions that treat heads of one law differently are found by
    ``MultiIndexStateEvolution.solve(start=...)``. Raises ``InputError`` for a channel that tells the heads apart.

    >>> from aimtheory.bayes import SignHeads
    >>> pair = Specialization(SignHeads(tokens=2, heads=2))
    >>> before = pair.symmetric(alpha=0.3)
    >>> round(before.mmse, 4), before.stable
    (0.6639, True)
    """

    channel: JointChannel
    variance: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.channel, JointChannel) or not self.channel.exchangeable:
            raise InputError(
                f"channel = {self.channel!r} must be a JointChannel that is symmetric in its heads: SignHeads(2, 2)"
            )
        if not (math.isfinite(self.variance) and self.variance > 0):
            raise InputError(f"variance = {self.variance!r} must be finite and > 0 (tr S^2 of every head)")

    @property
    def heads(self) -> int:
        """K."""
        return self.channel.indices

    @cached_property
    def evolution(self) -> MultiIndexStateEvolution:
        """The full matrix equations, of which this is the symmetric sector."""
        return MultiIndexStateEvolution(JointPrior(covariance=self.variance * np.eye(self.heads)), self.channel)

    def matrix(self, along: float, across: float) -> FloatArray:
        """The exchangeable (K, K) matrix of eigenvalue ``along`` for the sum and ``across`` for differences."""
        flat = np.full((self.heads, self.heads), 1 / self.heads)
        return np.asarray(along * flat + across * (np.eye(self.heads) - flat))

    def signal(self, sum_error: float, difference_error: float) -> tuple[float, float, float]:
        """``F_sum``, ``F_difference`` and the error of both at the errors v."""
        overlap = self.matrix(max(self.variance - sum_error, 0.0), max(self.variance - difference_error, 0.0))
        measured = self.channel.signal_matrix(overlap, self.matrix(sum_error, difference_error))
        value = measured.value
        diagonal = float(np.diagonal(value).mean())
        off = float(value[~np.eye(self.heads, dtype=bool)].mean())
        return diagonal + (self.heads - 1) * off, diagonal - off, float(measured.error.max())

    def _error(self, qhat: float) -> float:
        return self.variance / (1 + self.variance * qhat)

    def _symmetric_alpha(self, qhat: float) -> float:
        return qhat / self.signal(self._error(qhat), self.variance)[0]

    @cached_property
    def _symmetric_scan(self) -> FloatArray:
        return np.array([self._symmetric_alpha(x / self.variance) for x in _SYMMETRIC])

    def _symmetric_roots(self, alpha: float) -> list[float]:
        scan = self._symmetric_scan
        if alpha <= scan[0]:
            return [alpha * self.signal(self.variance, self.variance)[0]]
        roots = []
        for place in np.flatnonzero((scan[:-1] < alpha) != (scan[1:] < alpha)):
            low, high = (math.log(x / self.variance) for x in _SYMMETRIC[place : place + 2])
            roots.append(
                math.exp(brentq(lambda t: math.log(self._symmetric_alpha(math.exp(t)) / alpha), low, high, xtol=1e-13))
            )
        if not roots:
            raise NumericsError(f"no symmetric solution at alpha = {alpha:.6g} below qhat = {_SYMMETRIC[-1]:.3g}/C")
        return roots

    def growth(self, sum_qhat: float) -> tuple[float, float]:
        """The growth at the symmetric point of ``sum_qhat``, at its own alpha, and an error: the change under
        extrapolation to q_difference = 0.
        """
        c, v = self.variance, self._error(sum_qhat)
        along, _, error = self.signal(v, c)
        rate = sum_qhat / along
        slopes = [c**2 * self.signal(v, c * (1 - probe))[1] / (c * probe) for probe in (_PROBE, 0.5 * _PROBE)]
        value = 2 * slopes[1] - slopes[0]
        return rate * value, rate * (abs(value - slopes[1]) + 1e-9 * value) + error / along * rate * value

    def symmetric(self, alpha: float) -> SpecializationPoint:
        """The symmetric solution of least overlap, which AMP reaches when it starts without a difference."""
        return self._symmetric_point(self._rate(alpha), 0)

    def _symmetric_point(self, rate: float, place: int) -> SpecializationPoint:
        x = self._symmetric_roots(rate)[place]
        growth = self.growth(x)[0]
        return self._point(rate, SYMMETRIC, x, 0.0, growth, growth < 1)

    def fixed_points(self, alpha: float) -> tuple[SpecializationPoint, ...]:
        """All solutions at ``alpha``: symmetric ones, then specialized ones by descending error of the difference."""
        rate = self._rate(alpha)
        found = [self._symmetric_point(rate, place) for place in range(len(self._symmetric_roots(rate)))]
        nodes, levels, guesses = self._specialized_scan
        for place in np.flatnonzero((levels[:-1] < rate) != (levels[1:] < rate)):
            guess = [0.5 * (guesses[place] + guesses[place + 1])]

            def level(t: float, guess: list[float] = guess) -> float:
                value, guess[0] = self._specialized(math.exp(t), guess[0])
                return math.log(value / rate)

            t = brentq(level, math.log(nodes[place]), math.log(nodes[place + 1]), xtol=1e-11)
            y = math.exp(t)
            _, x = self._specialized(y, guess[0])
            found.append(self._point(rate, SPECIALIZED, x, y, math.nan, bool(levels[place + 1] > levels[place])))
        return tuple(found)

    def transition(self) -> SpecializationTransition:
        """Where the symmetric solution becomes unstable; ``AssumptionError`` where it never does.

        The first alpha at which the growth passes 1, and the least alpha with a specialized solution.
        """
        last = (0.0, 0.0)
        for x in _SYMMETRIC[::4] / self.variance:
            now = (x, self.growth(x)[0])
            if now[1] >= 1:
                break
            last = now
        else:
            raise AssumptionError(
                f"the {self.channel.name} never specializes: the largest growth of a difference between its heads is "
                f"{last[1]:.3g} < 1. A linear mixture cannot: any rotation among the heads gives the same output"
            )
        x = brentq(lambda x: self.growth(x)[0] - 1, max(last[0], 1e-6 / self.variance), now[0], xtol=1e-10)
        alpha = self._symmetric_alpha(x)
        error = self.growth(x)[1]
        step = 1e-3 * x
        slope = (self.growth(x + step)[0] - self.growth(x - step)[0]) / (2 * step)
        rate = (self._symmetric_alpha(x + step) - self._symmetric_alpha(x - step)) / (2 * step)
        levels = self._specialized_scan[1]
        spread = abs(error / slope * rate)
        first = bool(levels.min() < alpha * (1 - 1e-4) - 3 * spread)
        return SpecializationTransition(
            alpha, spread, self._point(alpha, SYMMETRIC, x, 0.0, 1.0, False).mmse, first, self._spinodal(alpha, first)
        )

    def _spinodal(self, alpha: float, first: bool) -> float:
        if not first:
            return alpha
        nodes, levels, guesses = self._specialized_scan
        place = int(np.clip(np.argmin(levels), 1, len(levels) - 2))
        guess = [guesses[place]]

        def level(t: float) -> float:
            value, guess[0] = self._specialized(math.exp(t), guess[0])
            return value

        low, high = math.log(nodes[place - 1]), math.log(nodes[place + 1])
        ratio = (math.sqrt(5) - 1) / 2
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        fa, fb = level(a), level(b)
        while high - low > 1e-4:
            if fa < fb:
                high, b, fb = b, a, fa
                a = high - ratio * (high - low)
                fa = level(a)
            else:
                low, a, fa = a, b, fb
                b = low + ratio * (high - low)
                fb = level(b)
        return min(fa, fb)

    @cached_property
    def _specialized_scan(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """qhat_difference, alpha and qhat_sum along the specialized branch, as far as the channel resolves it."""
        nodes, levels, sums = [], [], []
        guess = None
        for y in _SPECIALIZED / self.variance:
            try:
                level, guess = self._specialized(y, guess)
            except NumericsError:
                break
            nodes.append(y)
            levels.append(level)
            sums.append(guess)
        if len(nodes) < 3:
            raise AssumptionError(f"the {self.channel.name} tells nothing about the differences between its heads")
        return np.array(nodes), np.array(levels), np.array(sums)

    def _specialized(self, y: float, guess: float | None) -> tuple[float, float]:
        """alpha and qhat_sum at given qhat_difference y: x F_difference = y F_sum, by a bracketed secant in log x."""
        across = self._error(y)
        last: dict[float, tuple[float, float]] = {}

        def mismatch(t: float) -> float:
            along_signal, across_signal, error = self.signal(self._error(math.exp(t)), across)
            if across_signal <= 3 * error:
                raise NumericsError(
                    f"the signal of the differences, {across_signal:.3g}, is lost in its error {error:.2g}"
                )
            last[t] = (along_signal, across_signal)
            return t + math.log(across_signal) - math.log(y) - math.log(along_signal)

        center = math.log(guess) if guess is not None else math.log(max(5 * y, 1 / self.variance))
        low, width = center, 0.3
        value = mismatch(low)
        direction = -1.0 if value > 0 else 1.0
        high = low
        for _ in range(40):
            high = low + direction * width
            if mismatch(high) * value <= 0:
                break
            low, width = high, 1.6 * width
        else:
            raise NumericsError(f"no qhat_sum goes with qhat_difference = {y:.4g}")
        t = brentq(mismatch, min(low, high), max(low, high), xtol=1e-12)
        across_signal = (last.get(t) or self.signal(self._error(math.exp(t)), across))[1]
        return y / across_signal, math.exp(t)

    def _point(self, rate: float, kind: str, x: float, y: float, growth: float, stable: bool) -> SpecializationPoint:
        along, across = self._error(x), self._error(y)
        along_signal, across_signal, _ = self.signal(along, across)
        residual = abs(rate * along_signal / x - 1) if x > 0 else 0.0
        residual = max(residual, abs(rate * across_signal - y) / max(y, x))
        c = self.variance
        entropy = self.evolution.free_entropy(self.matrix(c - along, c - across), self.matrix(x, y), rate)
        mmse = (along + (self.heads - 1) * across) / self.heads
        status = CONVERGED if residual <= 1e-7 else UNCONVERGED
        return SpecializationPoint(rate, kind, along, across, x, y, mmse, growth, stable, entropy, residual, status)

    def _rate(self, alpha: float) -> float:
        rate = float(check_alpha(alpha))
        if rate == 0:
            raise InputError("alpha = 0 must be > 0: without samples there is nothing to specialize")
        return rate


__all__ = ["SPECIALIZED", "SYMMETRIC", "Specialization", "SpecializationPoint", "SpecializationTransition"]
