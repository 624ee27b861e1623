"""Steps of an integration: explicit of order eight until the equations are stiff, implicit multistep from there on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.integrate import DOP853, LSODA

from aimtheory.arrays import FloatArray
from aimtheory.dynamics.dense_output import nested

_EDGE = 6.1
"""h |lambda| at the edge of the stability region of the explicit method on the negative axis."""

_PATIENCE = 15
"""Steps at the edge of stability after which the equations count as stiff."""

_LARGEST_JACOBIAN = 1000
"""Sizes of states beyond which a dense Jacobian costs more than many explicit steps."""

_TIGHTER = 0.1
"""Tolerance of the multistep method relative to that asked for: its estimate of the local error is optimistic."""

Drift = Callable[[float, FloatArray], FloatArray]


@dataclass(frozen=True)
class StepPolynomial:
    """The states within one step, a polynomial of degree 7 in x = (t - t_old)/(t - t_old): see ``DenseOutput``."""

    t_old: float
    t: float
    y_old: FloatArray
    F: FloatArray

    @property
    def h(self) -> float:
        """The length of the step."""
        return self.t - self.t_old

    def __call__(self, time: float) -> FloatArray:
        """The state at a time within the step."""
        return self.y_old + nested(np.array((time - self.t_old) / self.h), self.F)

    @classmethod
    def of(cls, piece: Any) -> StepPolynomial:
        """The interpolant of either method; that of a multistep method is of degree at most 5 where it is implicit."""
        if hasattr(piece, "F"):
            return cls(piece.t_old, piece.t, piece.y_old, np.array(piece.F))
        nodes, inverse = _nodes()
        values = piece(piece.t_old + nodes * (piece.t - piece.t_old)).T
        return cls(piece.t_old, piece.t, values[0].copy(), inverse @ (values[1:] - values[0]))


@lru_cache(maxsize=1)
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Eight nodes in [0, 1], both ends among them, and the coefficients from the values at the last seven."""
    nodes = (1 - np.cos(np.pi * np.arange(8) / 7)) / 2
    return nodes, np.asarray(np.linalg.inv(nested(nodes[1:, None], np.eye(7))), dtype=np.float64)


class Steps:
    """Steps of y' = f(t, y) from time 0: an iterator of polynomials; ``message`` says why it ended before ``final``.

    The explicit method counts as stuck at the edge of its stability by Hairer's test, h |lambda| > 6.1 at fifteen
    steps in a row or nearly so, with |lambda| the quotient of differences of the last two stages. States of up to 1000
    numbers then go on with LSODA from where they are, at a tenth of the tolerance (its Jacobian by differences); larger
    ones go on explicitly.
    """

    def __init__(self, drift: Drift, start: FloatArray, final: float, rtol: float, atol: float) -> None:
        self._solver: Any = DOP853(drift, 0.0, start, final, rtol=rtol, atol=atol)
        self._drift, self._final, self._rtol, self._atol = drift, final, rtol, atol
        self._before, self._stiff, self._smooth = 0, 0, 0
        self.implicit = False
        self.message: str | None = None

    @property
    def t(self) -> float:
        """The time reached."""
        return float(self._solver.t)

    @property
    def y(self) -> FloatArray:
        """The state reached."""
        return np.asarray(self._solver.y)

    @property
    def evaluations(self) -> int:
        """Of the drift, by both methods."""
        return self._before + int(self._solver.nfev)

    @property
    def failed(self) -> bool:
        """True when the last step could not be made, or led to a state that is not finite."""
        return bool(self._solver.status == "failed" or not np.isfinite(self._solver.y).all())

    def __iter__(self) -> Iterator[StepPolynomial]:
        while self._solver.status == "running":
            self.message = self._solver.step()
            if self.failed:
                return
            yield StepPolynomial.of(self._solver.dense_output())
            if not self.implicit and self._solver.status == "running" and self._is_stiff():
                self._switch()

    def _is_stiff(self) -> bool:
        solver = self._solver
        if len(solver.y) > _LARGEST_JACOBIAN:
            return False
        stages, last = solver.K, solver.n_stages - 1
        reach = solver.y_old + solver.h_previous * (stages[:last].T @ solver.A[last, :last])
        apart = float(np.linalg.norm(solver.y - reach))
        rate = float(np.linalg.norm(stages[last + 1] - stages[last])) / apart if apart > 0 else 0.0
        if solver.h_previous * rate > _EDGE:
            self._stiff, self._smooth = self._stiff + 1, 0
        else:
            self._smooth += 1
            if self._smooth == 6:
                self._stiff = 0
        return self._stiff >= _PATIENCE

    def _switch(self) -> None:
        solver = self._solver
        self._before += int(solver.nfev)
        step = min(float(solver.h_previous), self._final - float(solver.t))
        self._solver = LSODA(
            self._drift,
            float(solver.t),
            solver.y,
            self._final,
            first_step=step if step > 0 else None,
            rtol=max(_TIGHTER * self._rtol, 1e-13),
            atol=_TIGHTER * self._atol,
        )
        self.implicit = True


__all__ = ["StepPolynomial", "Steps"]
