"""The fast flow of the means, [D] (28), as a trajectory: the boundary layer before the slow dynamics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import FloatArray, real_array
from aimtheory.dynamics.coupling_values import CouplingValues
from aimtheory.dynamics.fast_mean import mean_path
from aimtheory.dynamics.integrate import check_times
from aimtheory.errors import InputError
from aimtheory.hierarchy import views
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.hierarchy.moments import check_model
from aimtheory.model import AttentionModel, model_summary
from aimtheory.records import Result, Variable, record
from aimtheory.words import Word, spelled_indices


@record("fast-flow")
@dataclass(frozen=True, eq=False)
class FastFlow(Result):
    """Means over the fast time s = n alpha_d at frozen overlaps: ``means`` has shape (times, K), ``flow["m_1"]``
    (times,).

    ``q1`` and ``q2`` (K, K) are the overlaps, ``speeds`` (K,) the rates t^A_k + t^B_k, infinite for fixed forms.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ("time",)

    model: AttentionModel
    times: FloatArray
    means: FloatArray
    q1: FloatArray
    q2: FloatArray
    speeds: FloatArray

    @property
    def values(self) -> dict[str, FloatArray]:
        """The means ``m_k`` over the times, by name."""
        return {f"m_{spelled_indices(k)}": self.means[:, k] for k in range(self.means.shape[1])}

    def __getitem__(self, name: str) -> FloatArray:
        """The mean ``m_k`` over the times; ``InputError`` for another name."""
        if name not in self.values:
            raise InputError(f"{name!r} is no mean of this flow; it has {', '.join(self.values)}")
        return self.values[name]

    def variables(self) -> tuple[Variable, ...]:
        """The means over the fast time, and the overlaps and speeds that stand still."""
        return (
            Variable("time", self.times, ("time",), "fast time s = n alpha_d", "n alpha_d"),
            *(Variable(name, row, ("time",), f"mean {name}") for name, row in self.values.items()),
            Variable("q1", self.q1, ("form", "other"), "overlaps q1"),
            Variable("q2", self.q2, ("form", "other"), "overlaps q2"),
            Variable("speed", self.speeds, ("form",), "speeds t^A + t^B"),
        )

    def summary(self) -> dict[str, Any]:
        """``times``, ``values`` by name, and what stands still."""
        still = {"q1": self.q1.tolist(), "q2": self.q2.tolist(), "speeds": self.speeds.tolist()}
        return {**model_summary(self.model), "times": self.times, "values": self.values, **still}

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
