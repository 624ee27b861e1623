"""State evolution of Bayes-optimal learning of one attention matrix: fixed points, branches and transitions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from aimtheory.bayes.channel import Channel, check_alpha
from aimtheory.bayes.cross_attention import check_side
from aimtheory.bayes.fixed_point import CONVERGED, EXACT, UNCONVERGED, FixedPoint
from aimtheory.bayes.fixed_point_curve import FixedPointCurve, Roots, Segment
from aimtheory.bayes.free_entropy import check_prior_overlap, free_entropy, stationary_free_entropy
from aimtheory.bayes.prior import LawPrior, Prior
from aimtheory.bayes.prior_mean_branch import end_of_prior_mean, prior_mean_is_fixed
from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, record
from aimtheory.spectra import SpectralLaw
from aimtheory.spectra.law import FloatArray

BRANCHES = ("equilibrium", "uninformed", "informed")


@record("bayes-branch")
@dataclass(frozen=True, eq=False)
class BranchCurve(Result):
    """Arrays over ``alpha``: overlap q, mmse, qhat, relative ``residual`` of the undamped equations, statuses.

    Entries that did not converge are NaN with the status ``not converged``; ``unit`` is alpha or alpha/width.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("alpha",)

    alpha: FloatArray
    q: FloatArray
    mmse: FloatArray
    qhat: FloatArray
    residual: FloatArray
    status: tuple[str, ...]
    branch: str
    unit: str
    error: FloatArray | None = None
    """What the error of the channel's integrals is worth in the MMSE, absolute; None where it was not computed."""

    @property
    def ok(self) -> bool:
        """True when every point converged."""
        return UNCONVERGED not in self.status

    def channel_error(self) -> FloatArray:
        """``error``, or NaN everywhere where it was not computed."""
        return np.full(self.alpha.shape, np.nan) if self.error is None else self.error

    def variables(self) -> tuple[Variable, ...]:
        """Over alpha, flat."""
        dims = ("alpha",)
        tables = {name: getattr(self, name) for name in ("alpha", "mmse", "q", "qhat", "residual")}
        flat = {name: table if table.ndim == 1 else table.ravel() for name, table in tables.items()}
        long_name = "sample complexity n/d^2" if self.unit == "alpha" else "sample complexity n/(width d^2)"
        return (
            Variable("alpha", flat["alpha"], dims, long_name),
            Variable("mmse", flat["mmse"], dims, "minimum mean squared error by d"),
            Variable("q", flat["q"], dims, "overlap tr(S_hat S)"),
            Variable("qhat", flat["qhat"], dims, "conjugate overlap"),
            Variable("residual", flat["residual"], dims, "relative residual of alpha"),
            Variable("error", self.channel_error().ravel(), dims, "error of the channel's integrals in the MMSE"),
            Variable("point_status", np.array(self.status), dims, "status"),
        )

    def summary(self) -> dict[str, Any]:
        """``alpha``, ``mmse``, ``q``, ``qhat``, ``residual``, ``error``, ``point_status`` over alpha, ``branch``,
        ``unit``."""
        arrays = {name: getattr(self, name) for name in ("alpha", "mmse", "q", "qhat", "residual")}
        arrays["error"] = self.channel_error()
        return {"branch": self.branch, "unit": self.unit, **arrays, "point_status": list(self.status)}

    def as_dict(self) -> dict[str, object]:
        """Lists for JSON; NaN stays NaN."""
        names = ("alpha", "q", "mmse", "qhat", "residual")
        arrays = {name: getattr(self, name).tolist() for name in names}
        arrays["error"] = self.channel_error().tolist()
        return {**arrays, "status": list(self.status), "branch": self.branch, "unit": self.unit}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> BranchCurve:
        """The inverse of ``as_dict``."""
        names = ("alpha", "q", "mmse", "qhat", "residual")
        arrays = {name: np.asarray(data[name], dtype=np.float64) for name in names}
        error = np.asarray(data["error"], dtype=np.float64) if "error" in data else None
        return cls(**arrays, status=tuple(data["status"]), branch=data["branch"], unit=data["unit"], error=error)


@record("bayes-spinodal")
@dataclass(frozen=True)
class Spinodal:
    """Where a pair of solutions appears or vanishes: a turn of alpha(qhat)."""

    alpha: float
    qhat: float
    mmse: float
    ends: str
    """Which stable branch ends here: ``"uninformed"`` (of small overlap) or ``"informed"`` (of large overlap)."""


@record("bayes-first-order-transition")
@dataclass(frozen=True)
class FirstOrderTransition:
    """Two stable solutions of equal free entropy at ``alpha`` in ``interval``: Bayes-optimal recovery jumps.

    Between ``alpha`` and ``algorithmic`` (the end of the uninformed branch) recovery is possible but hard: AMP started
    from the prior stays at the worse solution.
    """

    alpha: float
    interval: tuple[float, float]
    mmse_before: float
    mmse_after: float
    algorithmic: float

    @property
    def hard_phase(self) -> tuple[float, float]:
        """The interval of alpha that is hard for algorithms."""
        return self.alpha, self.algorithmic


@record("bayes-state-evolution")
@dataclass(frozen=True, init=False)
class StateEvolution:
    """``V = MMSE(qhat)``, ``qhat = alpha signal(Q0 - V, V)`` for a prior (a SpectralLaw or a Prior) and a channel.

    >>> from aimtheory.bayes import SoftmaxChannel
    >>> from aimtheory.spectra import bayes_wishart
    >>> point = StateEvolution(bayes_wishart("1/2"), SoftmaxChannel(tokens=2)).solve(alpha=0.089711)
    >>> round(point.mmse, 6), point.stable, point.status
    (0.457619, True, 'converged')
    """

    prior: Prior
    channel: Channel

    def __init__(self, prior: SpectralLaw | Prior, channel: Channel) -> None:
        if not isinstance(channel, Channel):
            raise InputError(f"channel = {channel!r} must be a Channel, e.g. SoftmaxChannel(tokens=2)")
        if channel.indices != 1:
            raise InputError(f"this channel sees {channel.indices} matrices; use MultiIndexStateEvolution")
        given = prior if isinstance(prior, Prior) else LawPrior(prior)
        check_side(given.is_rectangular, channel.is_rectangular)
        object.__setattr__(self, "prior", given)
        object.__setattr__(self, "channel", channel)

    @cached_property
    def fixed_point_curve(self) -> FixedPointCurve:
        """The scan of alpha(qhat), made once."""
        return FixedPointCurve(self.prior, self.channel)

    @cached_property
    def prior_mean_is_fixed(self) -> bool:
        """True when the output says nothing to a learner who knows the prior mean only (channels even in h)."""
        return prior_mean_is_fixed(self.prior, self.channel)

    @cached_property
    def prior_mean_ends(self) -> float:
        """The alpha up to which the prior mean attracts: 0 when it is no fixed point, infinite at small width."""
        if not self.prior_mean_is_fixed:
            return 0.0
        return float(end_of_prior_mean(self.prior, self.channel).value)

    def qhat(self, q: ArrayLike, alpha: ArrayLike) -> FloatArray:
        """``qhat(q) = alpha signal(q, Q0 - q)``; q within [(tr S)^2, tr S^2]."""
        overlap = check_prior_overlap(self.prior, q)
        return self.channel.qhat(overlap, self.prior.second_moment - overlap, alpha).value

    def free_entropy(self, q: float, qhat: float, alpha: float) -> float:
        """``f(q, qhat)``, see :func:`aimtheory.bayes.free_entropy`."""
        return free_entropy(self.prior, self.channel, alpha, q, qhat)

    def residual(self, q: ArrayLike, alpha: ArrayLike) -> FloatArray:
        """``q(qhat(q)) - q`` of the undamped map, zero at a fixed point."""
        overlap = check_prior_overlap(self.prior, q)
        return np.asarray(self.prior.overlap(self.qhat(overlap, alpha)) - overlap)

    def iterate(self, alpha: float, steps: int, start: str | float = "uninformed", damping: float = 0.0) -> FloatArray:
        """The trajectory (steps + 1, 3) of (q, V, qhat) of the iteration, what AMP follows step by step.

        Starts at the prior mean, at V = 0.001 of the prior's for ``start="informed"``, or at the overlap q given as
        ``start``; ``damping`` is the weight of the old q. The qhat of the last row is the one computed from its q.
        """
        rate = float(check_alpha(alpha))
        if isinstance(start, str) and start not in ("uninformed", "informed"):
            raise InputError(f"start = {start!r} must be 'uninformed', 'informed' or an overlap q")
        if not 0 <= damping < 1:
            raise InputError(f"damping = {damping} must lie in [0, 1)")
        low, high = self.prior.mean_square, self.prior.second_moment
        if isinstance(start, str):
            variance = (high - low) * (1.0 if start == "uninformed" else 1e-3)
        else:
            variance = high - float(check_prior_overlap(self.prior, start))
        rows = []
        for _ in range(int(steps) + 1):
            qhat = float(self.channel.qhat(high - variance, variance, rate).value)
            rows.append((high - variance, variance, qhat))
            variance = damping * variance + (1 - damping) * float(self.prior.mmse(qhat))
        return np.array(rows)

    def fixed_points(self, alpha: float) -> tuple[FixedPoint, ...]:
        """Every solution at ``alpha``, stable and unstable, by ascending overlap; perfect recovery is the last."""
        rate = float(check_alpha(alpha))
        if rate == 0:
            return (self._prior_point(0.0, True),)
        curve = self.fixed_point_curve
        found: list[FixedPoint] = []
        if self.prior_mean_is_fixed:
            # The output is even in h: the prior mean solves the equations, and repels above the weak threshold.
            found.append(self._prior_point(rate, rate < self.prior_mean_ends))
        for segment in curve.segments:
            roots = curve.roots(segment, np.array([rate]))
            if np.isfinite(roots.qhat[0]):
                found.append(self._point(rate, roots, stable=segment.rising))
        if self.channel.exact_directions > 0:
            stable = rate >= curve.perfect
            f = stationary_free_entropy(self.prior, self.channel, rate, math.inf, 0.0)
            top = self.prior.second_moment
            found.append(FixedPoint(rate, top, 0.0, math.inf, 0.0, stable, f, "between", EXACT))
        if not any(point.stable for point in found) or self._beyond_the_scan(rate, found):
            nan = math.nan
            found.append(FixedPoint(rate, nan, nan, nan, math.inf, False, nan, "between", UNCONVERGED))
        stable_places = [place for place, point in enumerate(found) if point.stable]
        labelled = []
        for place, point in enumerate(found):
            ends = (("uninformed", 0), ("informed", -1))
            names = [name for name, end in ends if stable_places and place == stable_places[end]]
            if not found[-1].ok and "informed" in names:
                names.remove("informed")
            branch = "both" if len(names) == 2 else names[0] if names else "between"
            branch = "informed" if place == len(found) - 1 and not point.ok else branch
            labelled.append(_with_branch(point, branch))
        return tuple(labelled)

    def solve(self, alpha: float, branch: str = "equilibrium") -> FixedPoint:
        """One solution: ``equilibrium`` (largest free entropy: Bayes-optimal), ``uninformed`` or ``informed``.

        Where the branch of largest overlap goes beyond what the channel's rule resolves, equilibrium and informed are
        ``not converged``; the uninformed solution is unaffected.
        """
        if branch not in BRANCHES:
            raise InputError(f"branch = {branch!r} must be one of {', '.join(BRANCHES)}")
        points = self.fixed_points(alpha)
        stable = [point for point in points if point.stable]
        if not stable or (branch != "uninformed" and not points[-1].ok):
            return points[-1]
        if branch == "equilibrium":
            return max(stable, key=lambda point: point.free_entropy)
        return stable[0] if branch == "uninformed" else stable[-1]

    def curve(self, alpha: ArrayLike, branch: str = "equilibrium", tolerance: float = 1e-10) -> BranchCurve:
        """A branch over an array of alpha, continued through jumps; vectorised when alpha(qhat) is monotone."""
        if branch not in BRANCHES:
            raise InputError(f"branch = {branch!r} must be one of {', '.join(BRANCHES)}")
        rates = check_alpha(alpha)
        flat = rates.ravel()
        curve = self.fixed_point_curve
        q, mmse, qhat, residual = (np.full(flat.shape, np.nan) for _ in range(4))
        simple = len(curve.segments) == 1 and curve.segments[0].rising and not self.prior_mean_is_fixed
        if simple:
            positive = (flat > 0) & (flat < curve.perfect)
            roots = curve.roots(curve.segments[0], flat[positive], tolerance=2e-11)
            mmse[positive], qhat[positive], residual[positive] = roots.variance, roots.qhat, roots.residual
            q[positive] = self.prior.second_moment - roots.variance
            exact = flat >= curve.perfect
            mmse[exact], qhat[exact], residual[exact] = 0.0, np.inf, 0.0
            q[exact] = self.prior.second_moment
            zero = flat == 0
            mmse[zero], qhat[zero], residual[zero] = self._prior_variance, 0.0, 0.0
            q[zero] = self.prior.mean_square
        else:
            for place, rate in enumerate(flat):
                point = self.solve(float(rate), branch)
                q[place], mmse[place], qhat[place] = point.q, point.mmse, point.qhat
                residual[place] = point.residual
        bad = ~(residual <= self._tolerance(tolerance))
        q[bad] = mmse[bad] = qhat[bad] = np.nan
        status = np.where(bad, UNCONVERGED, np.where(np.isinf(qhat), EXACT, CONVERGED))
        shape = rates.shape
        return BranchCurve(
            rates,
            q.reshape(shape),
            mmse.reshape(shape),
            qhat.reshape(shape),
            residual.reshape(shape),
            tuple(status.tolist()),
            branch,
            self.prior.alpha_unit,
            self._channel_error(qhat, mmse).reshape(shape),
        )

    def _channel_error(self, qhat: FloatArray, mmse: FloatArray) -> FloatArray:
        """What the relative error of the signal moves V along the curve alpha(qhat), absolute; 0 at perfect
        recovery."""
        error = np.where(np.isnan(mmse), np.nan, 0.0)
        inside = np.isfinite(qhat) & (qhat > 0) & (mmse > 0)
        if not np.any(inside):
            return error
        at, variance = qhat[inside], mmse[inside]
        measured = self.channel.signal(np.maximum(self.prior.second_moment - variance, 0.0), variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(measured.value > 0, measured.error / measured.value, 0.0)
        step = 1e-3
        curve = self.fixed_point_curve
        (low, before), (high, after) = curve.evaluate(at * math.exp(-step)), curve.evaluate(at * math.exp(step))
        with np.errstate(divide="ignore", invalid="ignore"):
            rise = np.abs(np.log(high / low))
            moved = relative * np.abs(after - before) / rise
        # Next to a turn, or to perfect recovery, alpha does not tell V: all of it.
        error[inside] = np.where((rise > 1e-9) & (moved < variance), moved, np.where(relative > 1e-12, variance, moved))
        error[inside] = np.nan_to_num(error[inside], nan=0.0, posinf=0.0)
        return error

    def spinodals(self) -> tuple[Spinodal, ...]:
        """The ends of the stable branches, by ascending qhat; empty when alpha(qhat) is monotone (no coexistence).

        The branch of the prior mean ends at qhat = 0 where it loses stability to a jump; at small width it never does.
        """
        found = [
            Spinodal(alpha, qhat, float(self.prior.mmse(qhat)), "uninformed" if is_maximum else "informed")
            for alpha, qhat, is_maximum in self.fixed_point_curve.extrema()
        ]
        if not self.fixed_point_curve.segments[0].rising and 0 < self.prior_mean_ends < math.inf:
            found.insert(0, Spinodal(self.prior_mean_ends, 0.0, self._prior_variance, "uninformed"))
        return tuple(found)

    def first_order_transitions(self) -> tuple[FirstOrderTransition, ...]:
        """All crossings of free entropy between neighbouring stable branches, by ascending overlap.

        The branch of the prior mean (channels even in h) is the first of them; where it attracts at every alpha the
        hard phase has no end, ``algorithmic`` is infinite.
        """
        curve = self.fixed_point_curve
        stable: list[Segment | None] = [segment for segment in curve.segments if segment.rising]
        if self.prior_mean_is_fixed:
            stable.insert(0, None)
        found = []
        for low, high in itertools.pairwise(stable):
            assert high is not None
            start = self._alpha_at(high, 0)
            end = self.prior_mean_ends if low is None else self._alpha_at(low, -1)
            crossing = self._crossing(low, high, start, end)
            if crossing is not None:
                found.append(crossing)
        return tuple(found)

    def first_order_transition(self, bracket: tuple[float, float] | None = None) -> FirstOrderTransition:
        """The transition within ``bracket`` (default: anywhere); ``InputError`` when there is none in it."""
        low, high = (0.0, math.inf) if bracket is None else (float(bracket[0]), float(bracket[1]))
        if not 0 <= low < high:
            raise InputError(f"bracket = {bracket} must be two numbers 0 <= low < high")
        everything = self.first_order_transitions()
        inside = [item for item in everything if low <= item.alpha <= high]
        if not inside:
            where = ", ".join(f"{item.alpha:.9g}" for item in everything) or "none: alpha(qhat) has no jump"
            raise InputError(f"no first-order transition for alpha in [{low}, {high}]; there are: {where}")
        return inside[0]

    @property
    def _prior_variance(self) -> float:
        return self.prior.second_moment - self.prior.mean_square

    def _tolerance(self, asked: float) -> float:
        """The residual that counts as converged: not below what the rounding of MMSE leaves, at widths below 1e-6."""
        return max(asked, 10 * self.prior.mmse_error)

    def _prior_point(self, rate: float, stable: bool) -> FixedPoint:
        f = stationary_free_entropy(self.prior, self.channel, rate, 0.0, self._prior_variance)
        return FixedPoint(
            rate,
            self.prior.mean_square,
            self._prior_variance,
            0.0,
            0.0,
            stable,
            f,
            "both" if stable else "between",
            CONVERGED,
        )

    def _point(self, rate: float, roots: Roots, stable: bool) -> FixedPoint:
        qhat, variance, residual = float(roots.qhat[0]), float(roots.variance[0]), float(roots.residual[0])
        f = stationary_free_entropy(self.prior, self.channel, rate, qhat, variance)
        q = float(self.prior.overlap(qhat))
        measured = self.channel.signal(max(q, 0.0), variance)
        error = float(measured.error / measured.value) if measured.value > 0 else 0.0
        status = CONVERGED if residual <= self._tolerance(1e-10) else UNCONVERGED
        return FixedPoint(rate, q, variance, qhat, residual, stable, f, "between", status, error)

    def _alpha_at(self, segment: Segment, end: int) -> float:
        return float(self.fixed_point_curve.evaluate(np.exp(segment.log_qhat[[end]]))[0][0])

    def _beyond_the_scan(self, rate: float, found: list[FixedPoint]) -> bool:
        """True when alpha is above all of the last branch that the channel's rule could follow."""
        last = self.fixed_point_curve.segments[-1]
        if not last.rising or self.channel.exact_directions > 0 or rate <= self._alpha_at(last, -1):
            return False
        return not any(point.qhat >= math.exp(last.log_qhat[0]) for point in found)

    def _crossing(self, low: Segment | None, high: Segment, start: float, end: float) -> FirstOrderTransition | None:
        curve = self.fixed_point_curve

        def both(alpha: float) -> tuple[FixedPoint, FixedPoint]:
            points = [] if low is not None else [self._prior_point(alpha, True)]
            for segment in (low, high) if low is not None else (high,):
                roots = curve.roots(segment, np.array([alpha]))
                if not np.isfinite(roots.qhat[0]):
                    # At the very end of a branch rounding may miss the turn.
                    edge = segment.log_qhat[-1 if segment is low else 0]
                    roots = Roots(np.exp([edge]), self.prior.mmse(np.exp([edge])), np.zeros(1))
                points.append(self._point(alpha, roots, stable=True))
            return points[0], points[1]

        def difference(alpha: float) -> float:
            worse, better = both(alpha)
            return better.free_entropy - worse.free_entropy

        if not start < end:
            return None
        top = min(end, self._alpha_at(high, -1)) if low is None else end
        inset = 1e-9 * (top - start)
        first, last = start + inset, top - inset
        if difference(first) >= 0 or difference(last) <= 0:
            return None
        alpha = float(brentq(difference, first, last, xtol=1e-13, rtol=1e-12))
        worse, better = both(alpha)
        spread = 1e-11 * max(alpha, 1e-3) + alpha * max(worse.channel_error, better.channel_error)
        return FirstOrderTransition(alpha, (alpha - spread, alpha + spread), worse.mmse, better.mmse, end)


def _with_branch(point: FixedPoint, branch: str) -> FixedPoint:
    values = {name: getattr(point, name) for name in point.__dataclass_fields__}
    return FixedPoint(**{**values, "branch": branch})


__all__ = ["BRANCHES", "BranchCurve", "FirstOrderTransition", "Spinodal", "StateEvolution"]
