"""All fixed points of state evolution at once: the curve alpha(qhat).

At a fixed point V = MMSE(qhat) and qhat = alpha signal(Q0 - V, V), so that

    alpha(qhat) = qhat / signal(Q0 - V(qhat), V(qhat))

is explicit: no iteration is needed to draw all solutions for all alpha, stable or not. The solutions at one alpha are
its level set, spinodals are its extrema, and the undamped map q -> q has slope ``1 - d log alpha / d log qhat`` there:
a solution is stable exactly where alpha(qhat) rises.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.interpolate import make_interp_spline
from scipy.optimize import minimize_scalar

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.prior import Prior
from aimtheory.errors import NumericsError
from aimtheory.frozen import ByValue, same_value
from aimtheory.records import Result, Variable, record
from aimtheory.spectra.law import FloatArray

_LOW, _HIGH, _LARGEST = 1e-4, 1e6, 1e32
_SLOW_HIGH = 30.0
_NODES = 129
_TRUSTED = 0.05
"""Relative error of the signal up to which it is used."""


@record("bayes-segment")
@dataclass(frozen=True, eq=False)
class Segment(ByValue):
    """A monotone piece of the curve: nodes ``log_qhat`` ascending with ``level`` = log alpha (or its logit)."""

    log_qhat: FloatArray
    level: FloatArray

    @property
    def rising(self) -> bool:
        """True on a stable branch."""
        return bool(self.level[-1] > self.level[0])


@dataclass(frozen=True, eq=False)
class Roots(ByValue):
    """Solutions on one segment, NaN where a target is not reached: qhat, V, relative residual of alpha."""

    qhat: FloatArray
    variance: FloatArray
    residual: FloatArray


@record("bayes-fixed-point-curve")
class FixedPointCurve(Result):
    """``alpha(qhat)`` of a prior and a channel, scanned once and then inverted by bracketed Newton and secant steps.

    When alpha stays below ``alpha_inf = degrees_of_freedom / exact_directions`` the level is the logit of
    alpha/alpha_inf, which is nearly linear in log qhat up to the threshold; otherwise log alpha.
    """

    def __init__(self, prior: Prior, channel: Channel) -> None:
        self.prior, self.channel = prior, channel
        self.perfect = math.inf
        if channel.exact_directions > 0:
            self.perfect = float(prior.degrees_of_freedom) / channel.exact_directions
        spread = prior.second_moment - prior.mean_square
        scale, low = 1 / spread, _LOW
        # A few strong directions are found at small qhat: start where nothing is known yet.
        while low > 1e-12 and float(prior.mmse(low * scale)) < 0.999 * spread:
            low /= 10
        density = (_NODES - 1) / math.log(_HIGH / _LOW) * (1.0 if channel.is_fast and prior.is_fast else 0.3)
        high = _HIGH if prior.is_fast else _SLOW_HIGH
        count = 1 + math.ceil(density * math.log(high / low))
        self._grid = np.linspace(math.log(low * scale), math.log(high * scale), count)
        for kink in prior.kinks:
            above = np.log1p(0.1 ** np.arange(1.0, 6.0))
            self._grid = np.unique(np.concatenate([self._grid, math.log(kink) + np.append(0.0, above)]))
        variance = prior.mmse(np.exp(self._grid))
        measured = channel.signal(np.maximum(prior.overlap(np.exp(self._grid)), 0.0), variance)
        with np.errstate(divide="ignore"):
            self._alpha = np.exp(self._grid) / measured.value
        if np.any(np.isnan(self._alpha)):
            raise NumericsError("alpha(qhat) is not a number on the scan; the channel's signal failed")
        # Where V is too small for the channel's rule the curve is not known, and nothing is read from it.
        keep = np.isfinite(self._alpha) & (measured.error <= _TRUSTED * measured.value)
        if np.count_nonzero(keep) < 4:
            raise NumericsError("the channel's rule resolves its signal nowhere; refine it or smooth the likelihood")
        self._grid, self._alpha = self._grid[keep], self._alpha[keep]
        self.logistic = bool(np.isfinite(self.perfect)) and bool(np.all(self._alpha < self.perfect))
        if self.logistic:
            # Where 1 - alpha/alpha_inf is rounding, the logit is noise.
            kept = 1 - self._alpha / self.perfect > 1e-11
            self._grid, self._alpha = self._grid[kept], self._alpha[kept]
        self.segments = self._split()
        self.channel_is_sharp = bool(keep[-1])

    frame_dims: ClassVar[tuple[str, ...]] = ("qhat",)

    def to_record(self) -> dict[str, Any]:
        """Prior, channel, and the scan."""
        return dict(vars(self))

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> FixedPointCurve:
        """The curve as it was scanned."""
        curve = object.__new__(cls)
        for name in ("prior", "channel", "perfect", "_grid", "_alpha", "logistic", "segments", "channel_is_sharp"):
            setattr(curve, name, values[name])
        return curve

    def __eq__(self, other: object) -> bool:
        return same_value(vars(self), vars(other)) if isinstance(other, FixedPointCurve) else NotImplemented

    def __repr__(self) -> str:
        return f"FixedPointCurve({self.prior.label}, {self.channel!r}, {len(self.segments)} segments)"

    def __hash__(self) -> int:
        return hash((self.prior, self.channel))

    def variables(self) -> tuple[Variable, ...]:
        """alpha over qhat, as scanned."""
        return (
            Variable("qhat", np.exp(self._grid), ("qhat",), "conjugate overlap"),
            Variable("alpha", self._alpha, ("qhat",), "sample complexity of which this is a fixed point"),
        )

    def summary(self) -> dict[str, Any]:
        """``channel``, ``tokens``, ``prior``, ``perfect``, ``qhat``, ``alpha``."""
        return {
            "channel": self.channel.name,
            "tokens": self.channel.tokens,
            "prior": self.prior.label,
            "perfect": self.perfect,
            "qhat": np.exp(self._grid),
            "alpha": self._alpha,
        }

    def evaluate(self, qhat: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``alpha(qhat)`` and ``V(qhat)``; infinite alpha where the channel tells nothing."""
        variance = self.prior.mmse(qhat)
        signal = self.channel.signal(np.maximum(self.prior.overlap(qhat), 0.0), variance).value
        with np.errstate(divide="ignore"):
            return np.asarray(qhat / signal), variance

    def level(self, alpha: FloatArray) -> FloatArray:
        """The coordinate in which the curve is inverted."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.logistic:
                return np.asarray(np.log(alpha) - np.log(self.perfect - alpha))
            return np.log(alpha)

    def _split(self) -> tuple[Segment, ...]:
        level = self.level(self._alpha)
        rise = np.diff(level)
        # A flat stretch (rounding, or a trivial branch) belongs to its neighbour.
        rise[np.abs(rise) < 1e-13] = 0.0
        turns = []
        sign = 0.0
        for place, step in enumerate(np.sign(rise)):
            if step != 0 and sign != 0 and step != sign:
                turns.append((place, sign))
            sign = step if step != 0 else sign
        grid, values = self._grid, level
        for place, before in turns:
            low, high = self._grid[max(place - 1, 0)], self._grid[min(place + 1, len(self._grid) - 1)]
            found = minimize_scalar(
                lambda x, s=before: -s * float(self.level(self.evaluate(np.array([math.exp(x)]))[0])[0]),
                bounds=(low, high),
                method="bounded",
                options={"xatol": 1e-9},
            )
            grid, values = np.append(grid, found.x), np.append(values, -before * found.fun)
        order = np.argsort(grid)
        grid, values = grid[order], values[order]
        cuts = [0]
        direction = np.sign(np.diff(values))
        for place in range(1, len(direction)):
            if direction[place] * direction[place - 1] < 0:
                cuts.append(place)
        cuts.append(len(values) - 1)
        return tuple(Segment(grid[a : b + 1], values[a : b + 1]) for a, b in itertools.pairwise(cuts) if b > a)

    def extrema(self) -> tuple[tuple[float, float, bool], ...]:
        """``(alpha, qhat, is_maximum)`` at every turn of the curve: the spinodals, by ascending qhat."""
        found = []
        for before, after in itertools.pairwise(self.segments):
            qhat = math.exp(after.log_qhat[0])
            alpha = float(self.evaluate(np.array([qhat]))[0][0])
            found.append((alpha, qhat, before.rising))
        return tuple(found)

    def roots(self, segment: Segment, alpha: FloatArray, tolerance: float = 1e-13) -> Roots:
        """Solutions on a segment for an array of alpha > 0; the first and last segment are extended as far as needed.

        Iterates until the level, hence log qhat and log V up to its slope, is met within ``tolerance``.
        """
        target = self.level(alpha)
        nodes, level = self._reach(segment, target)
        if level[-1] < level[0]:
            target, level, flip = -target, -level, -1.0
        else:
            flip = 1.0
        keep = np.append(np.diff(np.maximum.accumulate(level)) > 0, True)
        nodes, level = nodes[keep], level[keep]
        qhat, variance, residual = (np.full(alpha.shape, np.nan) for _ in range(3))
        if len(nodes) < 2:
            return Roots(qhat, variance, residual)
        live = np.flatnonzero((target >= level[0]) & (target <= level[-1]))
        if not len(live):
            return Roots(qhat, variance, residual)
        goal = target[live]
        right = np.clip(np.searchsorted(level, goal), 1, len(level) - 1)
        low, high = nodes[right - 1], nodes[right]
        # High order: away from a gap that opens, the first guess is then already right to 1e-11.
        spline = make_interp_spline(level, nodes, k=next(k for k in (7, 5, 3, 1) if k < len(nodes)))
        x = spline(goal)
        slope = spline(goal, 1)
        linear = (nodes[right] - nodes[right - 1]) / (level[right] - level[right - 1])
        x = np.where((x >= low) & (x <= high), x, low + (goal - level[right - 1]) * linear)
        slope = np.where(slope > 0, slope, linear)
        x_before, f_before = np.full(x.shape, np.nan), np.full(x.shape, np.nan)
        active = np.arange(len(live))
        for _ in range(80):
            at = x[active]
            value_alpha, value_variance = self.evaluate(np.exp(at))
            f = flip * self.level(value_alpha) - goal[active]
            # Rounded past the threshold, where the level is infinite: above every goal.
            f = np.where(np.isnan(f), np.inf, f)
            place = live[active]
            qhat[place], variance[place] = np.exp(at), value_variance
            residual[place] = np.abs(value_alpha / alpha[place] - 1)
            low[active] = np.where(f < 0, at, low[active])
            high[active] = np.where(f > 0, at, high[active])
            moved = at - x_before[active]
            with np.errstate(divide="ignore", invalid="ignore"):
                secant = moved / (f - f_before[active])
                # A secant between nearly equal points is noise; the last good slope is kept.
                good = (np.abs(moved) > 1e-9) & np.isfinite(secant) & (secant > 0)
            slope[active] = np.where(good, secant, slope[active])
            step = -f * slope[active]
            following = at + step
            outside = (following < low[active]) | (following > high[active])
            following = np.where(outside, 0.5 * (low[active] + high[active]), following)
            done = (np.abs(f) <= tolerance) | (np.abs(following - at) <= 1e-15 * (1 + np.abs(at)))
            done |= (high[active] - low[active]) <= 1e-15 * (1 + np.abs(at))
            x_before[active], f_before[active], x[active] = at, f, following
            active = active[~done]
            if not len(active):
                break
        return Roots(qhat, variance, residual)

    def _reach(self, segment: Segment, target: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The nodes of a segment, extended beyond the scan for targets outside it."""
        nodes, level = segment.log_qhat, segment.level
        finite = target[np.isfinite(target)]
        if not len(finite) or not segment.rising:
            return nodes, level
        if segment is self.segments[0] and finite.min() < level[0] and self.prior.mean_square >= 0:
            # alpha is proportional to qhat there.
            extra = nodes[0] + (finite.min() - level[0]) - np.array([2.0, 1.0])
            fresh = self.level(self.evaluate(np.exp(extra))[0])
            if np.all(np.isfinite(fresh)) and fresh[0] < level[0]:
                nodes, level = np.append(extra, nodes), np.append(fresh, level)
        while (
            self.channel_is_sharp
            and segment is self.segments[-1]
            and finite.max() > level[-1]
            and nodes[-1] < math.log(_LARGEST)
        ):
            further = nodes[-1] + math.log(10)
            height = float(self.level(self.evaluate(np.array([math.exp(further)]))[0])[0])
            if not (math.isfinite(height) and height > level[-1]):
                break
            nodes, level = np.append(nodes, further), np.append(level, height)
        if self.logistic and segment is self.segments[-1] and finite.max() > level[-1]:
            # Within rounding of the threshold: the logit is linear in log qhat there, and V as small as rounding.
            slope = (nodes[-1] - nodes[-2]) / (level[-1] - level[-2])
            last = min(nodes[-1] + slope * (finite.max() - level[-1]), nodes[-1] + math.log(100))
            nodes, level = np.append(nodes, last), np.append(level, finite.max())
        return nodes, level


__all__ = ["FixedPointCurve", "Roots", "Segment"]
