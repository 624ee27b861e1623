"""The fast flow of the means, [D] (28), as a trajectory: the boundary layer before the slow dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray, real_array
from aimtheory.dynamics.coupling_values import CouplingValues
from aimtheory.dynamics.fast_mean import mean_path
from aimtheory.dynamics.integrate import check_times
from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.hierarchy import views
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.hierarchy.moments import check_model
from aimtheory.model import AttentionModel
from aimtheory.words import Word, spelled_indices


@dataclass(frozen=True, eq=False)
class FastFlow(ByValue):
    """Means over the fast time s = n alpha_d at frozen overlaps: ``means`` has shape (times, K), ``flow["m_1"]``
    (times,).

    ``q1`` and ``q2`` (K, K) are the overlaps, ``speeds`` (K,) the rates t^A_k + t^B_k, infinite for fixed forms.
    """

    model: AttentionModel
    times: FloatArray
    means: FloatArray
    q1: FloatArray
    q2: FloatArray
    speeds: FloatArray

    def __getitem__(self, name: str) -> FloatArray:
        """The mean ``m_k`` over the times; ``InputError`` for another name."""
        names = {f"m_{spelled_indices(k)}": k for k in range(self.means.shape[1])}
        if name not in names:
            raise InputError(f"{name!r} is no mean of this flow; it has {', '.join(names)}")
        return self.means[:, names[name]]

    def __repr__(self) -> str:
        return f"FastFlow({self.model.name}, s = {self.times[0]:g}..{self.times[-1]:g}, m = {self.means[-1].tolist()})"


def fast_flow(
    model: AttentionModel,
    *,
    times: ArrayLike,
    initial_mean: ArrayLike | None = None,
    q1: ArrayLike | None = None,
    q2: ArrayLike | None = None,
    speeds: ArrayLike | None = None,
    rtol: float = 1e-9,
    atol: float = 1e-11,
) -> FastFlow:
    """The means m_k = Tr S_k/sqrt(d) on the fast time s = n alpha_d, at overlaps that stand still ([D] (28)):

        dm_k/ds = -speeds_k dPhi/dm_k (m, q1, q2),  speeds_k = t^A_k + t^B_k for S_k = U_k V_k^T, 1 for S_k itself.

    Start, overlaps and speeds are those of the model's laws at time zero unless given, (K,) or (K, K); fixed forms keep
    their mean, whatever their speed. A start on an unstable critical point, as m = 0 by symmetry, stays there: at
    finite d the mean is off it by O(d^{-1/2}). The slow trajectories of ``solve`` begin where this flow ends. Exact as
    d tends to infinity, up to atol + rtol |m| a step. Raises ``InputError`` for a model whose forms are centred, and
    for arrays of another shape.

    >>> import aimtheory as aim
    >>> flow = aim.fast_flow(aim.models.load("untied-linear"), times=[0, 1, 20], initial_mean=[1, 0])
    >>> flow["m_1"].round(3).tolist()
    [1.0, 0.223, 0.0]
    """
    check_model(model)
    if model.centred:
        raise InputError(
            f"the forms of {model.name} are centred, so that they have no mean and no fast flow; use centred=False"
        )
    seen = views(model)
    couplings = CouplingValues(model, seen)
    law = initial_law(model, seen)
    count = couplings.count

    def moments(words: Sequence[Word]) -> FloatArray:
        return np.array([float(law.moment([str(letter) for letter in word])) for word in words])

    first, second = couplings.overlaps(moments)
    mean = _given(initial_mean, "initial_mean", (count,), couplings.start_mean)
    first, second = _given(q1, "q1", (count, count), first), _given(q2, "q2", (count, count), second)
    rates = couplings.speeds(moments)
    if speeds is not None:
        rates = np.where(np.isfinite(rates), _given(speeds, "speeds", (count,), rates), np.inf)
    fast = couplings.fast_from(mean)
    grid = check_times(times)
    whole = np.concatenate([[0.0], grid]) if grid[0] > 0 else grid
    path = mean_path(fast, mean[fast.moving], first, second, rates, whole, rtol=rtol, atol=atol)[-len(grid) :]
    means = np.tile(mean, (len(grid), 1))
    means[:, fast.moving] = path
    return FastFlow(model, grid, means, first, second, rates)


def _given(value: ArrayLike | None, name: str, shape: tuple[int, ...], default: FloatArray) -> FloatArray:
    if value is None:
        return default
    array = real_array(value, name)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; with {shape[0]} forms it must be {shape}")
    return array


__all__ = ["FastFlow", "fast_flow"]
