"""Branches of the fast means: which critical point of the potential the means are slaved to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aimtheory.arrays import FloatArray
from aimtheory.frozen import ByValue
from aimtheory.records import record


@dataclass(frozen=True, eq=False)
class Branch(ByValue):
    """A point on a branch of means: the critical point ``mean`` (K,) of Phi at the overlaps ``q1``, ``q2`` (K, K).

    Where Phi has several attracting means, a state alone does not say which one it is at; a state and a branch do.
    """

    mean: FloatArray
    q1: FloatArray
    q2: FloatArray


@record("branch-path")
@dataclass(frozen=True, eq=False)
class BranchPath(ByValue):
    """The branch along a trajectory: at increasing ``times`` (n,) the ``means`` (n, K), ``q1`` and ``q2`` (n, K, K)."""

    times: FloatArray
    means: FloatArray
    q1: FloatArray
    q2: FloatArray

    @classmethod
    def of(cls, points: dict[float, Branch]) -> BranchPath | None:
        """The path through branches by time; None when there are none."""
        if not points:
            return None
        times = sorted(points)
        parts = [np.array([getattr(points[t], part) for t in times]) for part in ("mean", "q1", "q2")]
        return cls(np.array(times), *parts)

    def at(self, time: float) -> Branch:
        """The last known branch at or before a time (the first one before the start)."""
        n = max(int(np.searchsorted(self.times, time + 1e-12 * max(1.0, abs(time)), side="right")) - 1, 0)
        return Branch(self.means[n], self.q1[n], self.q2[n])


__all__ = ["Branch", "BranchPath"]
