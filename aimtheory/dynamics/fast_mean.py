"""The fast means of forms that are not centred: where they go while the moments stand still ([D] section 4, (28)).

On the time scale n alpha_d the trained means follow dm_k/ds = -(speed_k) dPhi/dm_k at frozen overlaps and settle at a
critical point m*(q); on the slow scale n alpha_d/d they are slaved to it. Everything here is a function of its
arguments: which critical point is meant is a ``Branch`` that the caller carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import root

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.branch import Branch
from aimtheory.errors import AimTheoryError, AssumptionError, NumericsError
from aimtheory.population import BoundLoss, Potential

_RESIDUAL = 1e-9
"""Largest |dPhi/dm| accepted at a critical point, relative to 1 + |Phi''|: about what the cubature can tell from
zero. Newton goes on below it while a step still helps.
"""

_ROUNDING = 1e-14

_HALVINGS = 10
"""A branch of means that cannot be followed over a step of the overlaps 2^10 times smaller has ended."""

_FLAT = 1e-8
"""Curvature, relative to the largest, below which a direction is looked at: Phi may not depend on it at all."""

_SMALL = 1e-5
"""Curvature, relative to the largest, along which an end of the fast flow is not polished: it may be degenerate."""

_DEGENERATE = 1e-10
"""Curvature, relative to 1 + the largest, that is zero up to rounding: a critical point that is not convex."""

_KICKS = 2


@dataclass(frozen=True)
class CriticalPoint:
    """A zero of dPhi/dm over the trained means: ``mean`` has shape (K,), ``curvature`` is the least eigenvalue of
    Phi'' there, along the directions on which Phi depends.

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


@dataclass(frozen=True)
class Relaxed:
    """The end of the fast flow: the ``branch``, the least ``curvature`` of Phi there, and whether the start lay on an
    unstable critical point and was moved off it (``kicked``).
    """

    branch: Branch
    curvature: float
    kicked: bool


@dataclass(frozen=True, eq=False)
class FastMean:
    """m*(q) of a potential: where the fast flow ends, and how that point moves with the overlaps.

    ``trained`` marks the indices that move, (K,); the other means are kept at ``start``. Combinations of means on which
    Phi does not depend at all, as the difference of two heads that enter through their sum, are ``flat``: nothing moves
    them on the fast scale, and they stay where they are.
    """

    potential: Potential | BoundLoss
    trained: NDArray[np.bool_]
    start: FloatArray

    @cached_property
    def moving(self) -> NDArray[np.int64]:
        """Positions of the trained indices."""
        return np.flatnonzero(self.trained)

    @cached_property
    def curved(self) -> FloatArray:
        """Orthonormal basis, (trained, r), of the combinations of trained means on which Phi depends.

        From the Hessians and gradients at four means at unit overlaps: what is annihilated by all of them is flat.
        """
        count = len(self.moving)
        rng = np.random.default_rng(0)
        shape = np.eye(len(self.start)), 0.1 * np.eye(len(self.start))
        rows = []
        for scale in (0.0, 0.3, 0.7, 1.3):
            point = scale * rng.standard_normal(count)
            rows += [*self.hessian(point, *shape), self.gradient(point, *shape)]
        _, sizes, directions = np.linalg.svd(np.array(rows))
        return np.asarray(directions[: int((sizes > _FLAT * max(sizes[0], 1e-300)).sum())].T)

    def full(self, trained: FloatArray) -> FloatArray:
        """All means, (K,), from the trained ones."""
        mean = self.start.copy()
        mean[self.moving] = trained
        return mean

    def gradient(self, trained: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        """dPhi/dm over the trained indices."""
        return np.asarray(self.potential.gradients(self.full(trained), q1, q2).mean[self.moving])

    def hessian(self, trained: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        """Phi'' over the trained indices."""
        whole = self.potential.mean_hessian(self.full(trained), q1, q2)
        return np.asarray(whole[np.ix_(self.moving, self.moving)])

    def curvature(self, hessian: FloatArray) -> tuple[float, float, FloatArray]:
        """Least and largest eigenvalue of Phi'' along the directions on which Phi depends, and a basis of these."""
        if not np.isfinite(hessian).all():
            raise NumericsError("the curvature of Phi in the means is not finite: means or overlaps are too large")
        eigenvalues = np.linalg.eigvalsh(hessian)
        if eigenvalues[0] > _FLAT * abs(eigenvalues[-1]):
            return float(eigenvalues[0]), float(eigenvalues[-1]), np.eye(len(hessian))
        basis = self.curved
        if not basis.shape[1]:
            return np.inf, 0.0, basis
        inner = np.linalg.eigvalsh(basis.T @ hessian @ basis)
        least = float(inner[0])
        return 0.0 if abs(least) < _DEGENERATE * (1 + abs(inner[-1])) else least, float(inner[-1]), basis

    def relax(self, q1: FloatArray, q2: FloatArray, speeds: FloatArray, start: FloatArray | None = None) -> Relaxed:
        """The end of the fast flow (28) from ``start`` (K,), by default m(0), at frozen overlaps.

        A start on an unstable critical point is moved off it. Raises ``AssumptionError`` when the end is not attracting
        either, and ``NumericsError`` when the flow cannot be followed.
        """
        begin = (self.start if start is None else start)[self.moving]
        point, curvature = self._settle(begin, q1, q2, speeds)
        for kick in range(_KICKS):
            if curvature > 0:
                return Relaxed(Branch(self.full(point), q1.copy(), q2.copy()), curvature, kick > 0)
            # A start on an unstable critical point, as m = 0 by symmetry: Tr S/sqrt(d) fluctuates by O(d^{-1/2}) and so
            # leaves it after a fast time of order log d. The positive side is taken.
            point, curvature = self._settle(point + self._way_off(point, q1, q2), q1, q2, speeds)
        if curvature > 0:
            return Relaxed(Branch(self.full(point), q1.copy(), q2.copy()), curvature, True)
        where = f"the fast flow of the means from m = {begin.tolist()} ends at m = {point.tolist()}, where Phi is "
        if curvature == 0:
            direction = [round(float(x), 4) for x in self._way_off(point, q1, q2)]
            raise AssumptionError(
                f"{where}degenerate: it is flat to second order along {direction}, so that the critical points may "
                "form a continuum, as for heads of equal law that are exchanged or rotated into each other; Theorem 3 "
                "asks for strong convexity at m*, and another start does not help: give the heads different laws"
            )
        raise AssumptionError(
            f"{where}not locally convex (curvature {curvature:.3g}); Theorem 3 asks for strong convexity at m*: start "
            "the means elsewhere (initial_mean=)"
        )

    def _way_off(self, point: FloatArray, q1: FloatArray, q2: FloatArray) -> FloatArray:
        hessian = self.hessian(point, q1, q2)
        basis = self.curvature(hessian)[2]
        _, directions = np.linalg.eigh(basis.T @ hessian @ basis)
        direction = basis @ directions[:, 0]
        size = 0.1 * float(np.sqrt(np.abs(np.diagonal(q1)[self.moving]).max()))
        return size * direction * (1.0 if direction.sum() >= 0 else -1.0)

    def _settle(
        self, begin: FloatArray, q1: FloatArray, q2: FloatArray, speeds: FloatArray
    ) -> tuple[FloatArray, float]:
        """The critical point that the fast flow reaches, polished by Newton unless it is not attracting."""
        horizon = 40.0 / max(float(speeds[self.moving].min()), 1e-12)
        path = mean_path(self, begin, q1, q2, speeds, np.array([0.0, horizon]), rtol=1e-6, atol=1e-8)
        return self._newton(path[-1], q1, q2, attracting=False)

    def _newton(self, begin: FloatArray, q1: FloatArray, q2: FloatArray, attracting: bool) -> tuple[FloatArray, float]:
        """The critical point near ``begin`` and its curvature; no step along directions on which Phi does not depend.

        Where Phi is not convex it stops when a point that does not attract will do, and raises ``AssumptionError`` when
        it must attract.
        """
        m = np.array(begin, dtype=np.float64)
        gradient = self.gradient(m, q1, q2)
        for _ in range(30):
            hessian = self.hessian(m, q1, q2)
            least, largest, basis = self.curvature(hessian)
            size, scale = float(np.abs(gradient).max()), 1 + abs(largest)
            if least <= 0 and attracting:
                raise AssumptionError(
                    f"Phi is not locally convex in the means at m = {m.tolist()}: its curvature is {least:.3g}, so "
                    "the fast flow does not settle there (strong convexity, Theorem 3); "
                    + (
                        "the critical point is degenerate, as where a branch of means splits or heads of equal law are "
                        "exchanged: give heads different laws, or start on another branch (initial_mean=)"
                        if least > -_SMALL * scale
                        else "start the means elsewhere (initial_mean=)"
                    )
                )
            if size <= _ROUNDING * scale or not basis.shape[1] or least < -_SMALL * scale:
                return m, least  # where the end of the fast flow does not attract, ``relax`` says what follows
            step = (
                basis @ _damped_inverse(basis.T @ hessian @ basis, 0.0 if attracting else _SMALL) @ basis.T @ gradient
            )
            if not np.isfinite(step).all():
                raise NumericsError(f"the Newton step of the means from m = {m.tolist()} is not finite")
            length = 1.0
            while length > 1e-6:
                trial = m - length * step
                moved = self.gradient(trial, q1, q2)
                # Below the accepted residual a step must pay for itself.
                if np.abs(moved).max() < (size if size > _RESIDUAL * scale else size / 2):
                    break
                if size <= _RESIDUAL * scale:
                    return m, least
                length /= 2
            else:
                if size <= 1e-7 * scale:
                    return m, least
                raise NumericsError(
                    f"no critical point of the means was found near m = {m.tolist()}; residual {size:.3g}"
                )
            m, gradient = trial, moved
        if float(np.abs(gradient).max()) <= _RESIDUAL * scale:
            return m, least
        raise NumericsError(f"no critical point of the means was found near m = {m.tolist()} in 30 Newton steps")

    def follow(self, q1: FloatArray, q2: FloatArray, branch: Branch) -> Branch:
        """m*(q1, q2) on the branch through a known point.

        Overlaps far from those of the branch are reached in halved steps along a straight line. Raises
        ``AssumptionError`` where the branch ends, that is where Phi ceases to be convex however small the step.
        """
        return self._continue(branch, (q1, q2), _HALVINGS)

    def _continue(self, known: Branch, goal: tuple[FloatArray, FloatArray], halvings: int) -> Branch:
        """Newton from the known point to the one at ``goal``, by way of the middle where it fails."""
        try:
            point, _ = self._newton(known.mean[self.moving], *goal, attracting=True)
        except (AssumptionError, NumericsError) as error:
            if halvings == 0:
                raise AssumptionError(f"the attracting branch of the means ends here: {error}") from error
        else:
            return Branch(self.full(point), goal[0].copy(), goal[1].copy())
        middle = ((known.q1 + goal[0]) / 2, (known.q2 + goal[1]) / 2)
        return self._continue(self._continue(known, middle, halvings - 1), goal, halvings - 1)


def _damped_inverse(hessian: FloatArray, floor: float) -> FloatArray:
    """The inverse where the curvature exceeds ``floor``, relative to the largest; zero along other directions."""
    values, vectors = np.linalg.eigh(hessian)
    kept = values > floor * abs(values[-1])
    return np.asarray((vectors[:, kept] / values[kept]) @ vectors[:, kept].T)


def mean_path(
    fast: FastMean,
    begin: FloatArray,
    q1: FloatArray,
    q2: FloatArray,
    speeds: FloatArray,
    times: FloatArray,
    *,
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> FloatArray:
    """The trained means over fast ``times`` from ``begin`` (trained,) at frozen overlaps ([D] (28)), (times, trained).

    By an implicit method that bounds its error, since Phi may be steep far from its critical points. Raises
    ``NumericsError`` when the flow cannot be followed, with the place where it stopped.
    """
    rates = speeds[fast.moving]

    def slope(_: float, m: FloatArray) -> FloatArray:
        # A trial step beyond all bounds is refused by its NaN and made smaller.
        return -rates * fast.gradient(m, q1, q2) if np.isfinite(m).all() else np.full(len(m), np.nan)

    def jacobian(_: float, m: FloatArray) -> FloatArray:
        return -rates[:, None] * fast.hessian(m, q1, q2)

    if times[-1] == times[0]:
        return np.array([begin] * len(times))
    with np.errstate(over="ignore", invalid="ignore"):
        solution = solve_ivp(
            slope,
            (float(times[0]), float(times[-1])),
            begin,
            method="Radau",
            jac=jacobian,
            t_eval=times,
            rtol=rtol,
            atol=atol,
        )
    if not solution.success or not np.isfinite(solution.y).all():
        raise NumericsError(
            f"the fast flow of the means from m = {np.asarray(begin).tolist()} at q1 = {q1.tolist()} could not be "
            f"followed: {solution.message}"
        )
    return np.asarray(solution.y.T)


def critical_points(
    fast: FastMean, q1: FloatArray, q2: FloatArray, *, starts: int = 41, seed: int = 0
) -> tuple[CriticalPoint, ...]:
    """The critical points of Phi in the trained means at frozen overlaps, found from a grid (one mean) or from random
    starts.

    Means are looked for within six standard deviations sqrt(q1_kk + q2_kk) of the form, beyond which the loss does
    not see the teacher. The number is a lower bound: a search is not a proof. Sorted by value; several ``stable``
    ones mean that the start selects the branch. Means along which Phi is flat are kept at the start.
    """
    begin = fast.start[fast.moving]
    basis = fast.curvature(fast.hessian(begin, q1, q2))[2]
    count = basis.shape[1]
    scale = 6 * np.sqrt(np.maximum(np.diagonal(q1 + q2)[fast.moving], 1e-12)) + np.abs(fast.start).max(initial=0.0)
    found: list[FloatArray] = []

    def slope(x: FloatArray) -> FloatArray:
        point = begin + basis @ x
        # A search that has run off to where Phi is not a number ends there.
        if not np.isfinite(point).all():
            return np.full(count, np.inf)
        return np.asarray(basis.T @ fast.gradient(point, q1, q2))

    def keep(x: FloatArray) -> None:
        point = begin + basis @ x
        if not np.isfinite(point).all():
            return
        tight = np.abs(slope(x)).max() <= 1e-7 * (1 + np.abs(fast.hessian(point, q1, q2)).max())
        if tight and not any(np.abs(point - other).max() < 1e-4 * scale.max() for other in found):
            found.append(point)

    if count == 0:
        found.append(begin)
    elif count == 1:
        reach = float(np.abs(basis[:, 0]) @ scale)
        grid = np.linspace(-reach, reach, starts) - float(basis[:, 0] @ begin)
        values = np.array([slope(np.array([x]))[0] for x in grid])
        floor = 1e-9 * max(1.0, float(np.abs(values).max()))
        for n, (left, right) in enumerate(pairwise(grid)):
            if abs(values[n]) <= floor:
                keep(np.array([left]))
            elif values[n] * values[n + 1] < 0:
                solution = root(slope, np.array([(left + right) / 2]), tol=1e-12)
                if left <= solution.x[0] <= right:
                    keep(solution.x)
    else:
        rng = np.random.default_rng(seed)
        drawn = rng.uniform(-scale, scale, size=(starts, len(begin)))
        for x in [np.zeros(count), *((drawn - begin) @ basis)]:
            try:
                solution = root(slope, x, tol=1e-12)
            except AimTheoryError:
                continue
            if solution.success:
                keep(solution.x)
    points = []
    for point in found:
        mean = fast.full(point)
        curvature = fast.curvature(fast.hessian(point, q1, q2))[0]
        residual = float(np.abs(fast.gradient(point, q1, q2)).max())
        points.append(CriticalPoint(mean, float(fast.potential.value(mean, q1, q2).value), curvature, residual))
    return tuple(sorted(points, key=lambda p: p.value))


__all__ = ["CriticalPoint", "FastMean", "Relaxed", "critical_points", "mean_path"]
