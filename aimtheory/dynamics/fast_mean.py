"""The fast means of forms that are not centred: where they go while the moments stand still ([D] section 4, (28)).

On the time scale n alpha_d the trained means follow dm_k/ds = -(speed_k) dPhi/dm_k at frozen overlaps and settle at a
critical point m*(q); on the slow scale n alpha_d/d they are slaved to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import root

from aimtheory.errors import AssumptionError, NumericsError
from aimtheory.population import Potential

FloatArray = NDArray[np.float64]

_RESIDUAL = 1e-9
"""Largest |dPhi/dm| accepted at a critical point, relative to 1 + |Phi''|: about what the cubature can tell from
zero.
"""

_HALVINGS = 10
"""A branch of means that cannot be followed over a step of the overlaps 2^10 times smaller has ended."""


@dataclass(frozen=True)
class CriticalPoint:
    """A zero of dPhi/dm over the trained means: ``mean`` has shape (K,), ``curvature`` is the least eigenvalue of
    Phi'' there.

    ``stable`` when the curvature is positive: the fast flow is attracted. ``residual`` is the largest |dPhi/dm_k|.
    """

    mean: FloatArray
    value: float
    curvature: float
    residual: float

    @property
    def stable(self) -> bool:
        """True when Phi is locally strongly convex in the trained means."""
        return self.curvature > 0


class FastMean:
    """m*(q) of a potential, followed continuously from one overlap to the next.

    ``trained`` marks the indices that move; the other means are kept at ``start``. One object follows one branch:
    each call begins at the last answer.
    """

    def __init__(self, potential: Potential, trained: NDArray[np.bool_], start: FloatArray) -> None:
        self.potential = potential
        self.trained = np.flatnonzero(trained)
        self.start = start.astype(np.float64)
        self.current: FloatArray | None = None
        self._overlaps: tuple[FloatArray, FloatArray] | None = None
        self.curvature = np.inf
        self.least_curvature = np.inf
        self.kicked = False

    def restart(self, mean: FloatArray | None = None) -> None:
        """Forget the branch followed so far: begin at ``mean``, (K,), or let the fast flow find it."""
        self.current = None if mean is None else np.asarray(mean, dtype=np.float64)
        self._overlaps = None

    def _full(self, trained: FloatArray) -> FloatArray:
        mean = self.start.copy()
        mean[self.trained] = trained
        return mean

    def gradient(self, trained: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        """dPhi/dm over the trained indices."""
        return np.asarray(self.potential.gradients(self._full(trained), q1, q2).mean[self.trained])

    def hessian(self, trained: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        """Phi'' over the trained indices."""
        whole = self.potential.mean_hessian(self._full(trained), q1, q2)
        return np.asarray(whole[np.ix_(self.trained, self.trained)])

    def relax(
        self, q1: FloatArray, q2: FloatArray, speeds: FloatArray, start: FloatArray | None = None, kicks: int = 2
    ) -> FloatArray:
        """The end of the fast flow (28) from ``start`` (default m(0)) at frozen overlaps, (K,).

        A start on an unstable critical point is moved off it (``kicked`` remembers). Raises ``AssumptionError`` when
        the end is not attracting either.
        """
        begin = (self.start if start is None else start)[self.trained]
        horizon = 40.0 / max(float(speeds[self.trained].min()), 1e-12)
        solution = solve_ivp(
            lambda _, m: -speeds[self.trained] * self.gradient(m, q1, q2), (0.0, horizon), begin, rtol=1e-6, atol=1e-8
        )
        if not solution.success or not np.isfinite(solution.y).all():
            raise NumericsError(f"the fast flow of the means diverged from m = {begin.tolist()}: {solution.message}")
        end = self._newton(solution.y[:, -1], q1, q2)
        if self.curvature > 0:
            return end
        if kicks == 0:
            raise AssumptionError(
                f"the fast flow of the means from m = {begin.tolist()} ends where Phi is not locally convex (curvature "
                f"{self.curvature:.3g}); Theorem 3 asks for strong convexity at m*: start the means elsewhere"
            )
        # A start on an unstable critical point, as m = 0 by symmetry: Tr S/sqrt(d) fluctuates by O(d^{-1/2}) and so
        # leaves it after a fast time of order log d. The positive side is taken.
        self.kicked = True
        _, directions = np.linalg.eigh(self.hessian(end[self.trained], q1, q2))
        direction = directions[:, 0] * (1.0 if directions[:, 0].sum() >= 0 else -1.0)
        size = 0.1 * float(np.sqrt(np.abs(np.diagonal(q1)[self.trained]).max()))
        moved = end.copy()
        moved[self.trained] += size * direction
        return self.relax(q1, q2, speeds, moved, kicks - 1)

    def _newton(self, begin: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        m = np.array(begin, dtype=np.float64)
        gradient = self.gradient(m, q1, q2)
        for _ in range(30):
            hessian = self.hessian(m, q1, q2)
            eigenvalues = np.linalg.eigvalsh(hessian)
            self.curvature = float(eigenvalues[0])
            size = float(np.abs(gradient).max())
            if size <= _RESIDUAL * (1 + float(eigenvalues[-1])) and (self.curvature > 0 or self.current is None):
                break
            if self.curvature <= 0 and self.current is not None:
                raise AssumptionError(
                    f"Phi is not locally convex in the means at m = {m.tolist()}: its curvature is "
                    f"{self.curvature:.3g}, so the fast flow does not settle there "
                    "(strong convexity, Theorem 3); start the means elsewhere"
                )
            if self.curvature <= 0:
                break  # the end of the fast flow is not attracting; ``relax`` says what follows
            step = np.linalg.solve(hessian, gradient)
            scale = 1.0
            while scale > 1e-6:
                trial = m - scale * step
                moved = self.gradient(trial, q1, q2)
                if np.abs(moved).max() < size:
                    break
                scale /= 2
            else:
                if size <= 1e-7 * (1 + float(eigenvalues[-1])):
                    break
                raise NumericsError(
                    f"no critical point of the means was found near m = {m.tolist()}; residual {size:.3g}"
                )
            m, gradient = trial, moved
        else:
            raise NumericsError(f"no critical point of the means was found near m = {m.tolist()} in 30 Newton steps")
        self.least_curvature = min(self.least_curvature, self.curvature)
        return self._full(m)

    def follow(self, q1: FloatArray, q2: FloatArray, speeds: Callable[[], FloatArray]) -> FloatArray:
        """m*(q) on the branch of the last call, or at the end of the fast flow the first time.

        Overlaps far from the last ones are reached in halved steps along a straight line. Raises ``AssumptionError``
        where the branch ends, that is where Phi ceases to be convex however small the step.
        """
        if self.current is None:
            self.current = self.relax(q1, q2, speeds())
        elif self._overlaps is None:
            self.current = self._newton(self.current[self.trained], q1, q2)
        else:
            self.current = self._continue(self._overlaps, (q1, q2), _HALVINGS)
        self._overlaps = (q1.copy(), q2.copy())
        return self.current

    def _continue(
        self, known: tuple[FloatArray, FloatArray], goal: tuple[FloatArray, FloatArray], halvings: int
    ) -> FloatArray:
        """Newton from the mean at ``known`` overlaps to the one at ``goal``, by way of the middle where it fails."""
        assert self.current is not None
        try:
            return self._newton(self.current[self.trained], *goal)
        except (AssumptionError, NumericsError) as error:
            if halvings == 0:
                raise AssumptionError(f"the attracting branch of the means ends here: {error}") from error
        middle = ((known[0] + goal[0]) / 2, (known[1] + goal[1]) / 2)
        self.current = self._continue(known, middle, halvings - 1)
        return self._continue(middle, goal, halvings - 1)


def critical_points(
    potential: Potential,
    trained: NDArray[np.bool_],
    start: FloatArray,
    q1: FloatArray,
    q2: FloatArray,
    *,
    starts: int = 41,
    seed: int = 0,
) -> tuple[CriticalPoint, ...]:
    """The critical points of Phi in the trained means at frozen overlaps, found from a grid (one mean) or from random
    starts.

    Means are looked for within six standard deviations sqrt(q1_kk + q2_kk) of the form, beyond which the loss does
    not see the teacher. The number is a lower bound: a search is not a proof. Sorted by value; several ``stable``
    ones mean that the start selects the branch.
    """
    fast = FastMean(potential, trained, start)
    scale = 6 * np.sqrt(np.maximum(np.diagonal(q1 + q2)[fast.trained], 1e-12)) + np.abs(start).max(initial=0.0)
    found: list[FloatArray] = []

    def keep(point: FloatArray) -> None:
        gradient = fast.gradient(point, q1, q2)
        tight = np.abs(gradient).max() <= 1e-7 * (1 + np.abs(fast.hessian(point, q1, q2)).max())
        if tight and not any(np.abs(point - other).max() < 1e-4 * scale.max() for other in found):
            found.append(point)

    if len(fast.trained) == 1:
        grid = np.linspace(-scale[0], scale[0], starts)
        values = np.array([fast.gradient(np.array([m]), q1, q2)[0] for m in grid])
        floor = 1e-9 * max(1.0, float(np.abs(values).max()))
        for n, (left, right) in enumerate(pairwise(grid)):
            if abs(values[n]) <= floor:
                keep(np.array([left]))
            elif values[n] * values[n + 1] < 0:
                solution = root(lambda m: fast.gradient(m, q1, q2), np.array([(left + right) / 2]), tol=1e-12)
                if left <= solution.x[0] <= right:
                    keep(solution.x)
    else:
        rng = np.random.default_rng(seed)
        for begin in [start[fast.trained], *rng.uniform(-scale, scale, size=(starts, len(fast.trained)))]:
            solution = root(lambda m: fast.gradient(m, q1, q2), begin, tol=1e-12)
            if solution.success:
                keep(solution.x)
    points = []
    for point in found:
        mean = fast._full(point)
        curvature = float(np.linalg.eigvalsh(fast.hessian(point, q1, q2))[0])
        residual = float(np.abs(fast.gradient(point, q1, q2)).max())
        points.append(CriticalPoint(mean, float(potential.value(mean, q1, q2).value), curvature, residual))
    return tuple(sorted(points, key=lambda p: p.value))


__all__ = ["CriticalPoint", "FastMean", "critical_points"]
