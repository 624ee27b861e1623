"""Comparison with the flow of sampled matrices: what differs by more than the scatter of finite dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aimtheory.arrays import FloatArray
from aimtheory.errors import InputError
from aimtheory.hierarchy import Closure
from aimtheory.hierarchy.closures.matrix import Matrix
from aimtheory.hierarchy.initial_moments import ParameterMatrices
from aimtheory.spectra import JointLaw
from aimtheory.spectra.law_checks import is_joint_law

SAMPLES = 6
"""Flows that are run, with seeds from that of the closure on; one when the initial matrices are given."""

SCATTERS = 5.0
"""So many standard deviations of one sample from the mean of all are explained by finite dimension: the mean has a bias
O(1/d) too, of the size of that deviation. Student t with 5 degrees of freedom: false alarm 6e-3 an entry.
"""


@dataclass(frozen=True, eq=False)
class MatrixDistance:
    """An observable, (n,), against the flow of matrices: distance from the mean of the samples and their scatter.

    ``unexplained`` is max(0, gap - 5 scatter), an error that finite d does not account for; NaN past the end of a flow.
    """

    gap: FloatArray
    scatter: FloatArray

    @classmethod
    def of(cls, values: FloatArray, samples: Sequence[FloatArray]) -> MatrixDistance:
        """The distance of values, (n,), from samples, each (n,); the scatter is the largest so far.

        >>> found = MatrixDistance.of(np.array([1.0]), [np.array([1.1]), np.array([1.3])])
        >>> found.gap.round(9).tolist(), found.scatter.round(4).tolist()
        ([0.2], [0.1414])
        """
        stacked = np.array(samples)
        spread = stacked.std(axis=0, ddof=1) if len(stacked) > 1 else 0.0 * stacked[0]
        return cls(np.abs(values - stacked.mean(axis=0)), np.maximum.accumulate(spread))

    @property
    def unexplained(self) -> FloatArray:
        """What is left of the distance beyond five scatters, (n,)."""
        return np.maximum(self.gap - SCATTERS * self.scatter, 0.0)

    @property
    def farthest(self) -> float:
        """The largest distance in units of the scatter; NaN where there is none."""
        used = np.isfinite(self.gap) & (self.scatter > 0)
        return float((self.gap[used] / self.scatter[used]).max()) if used.any() else float("nan")


def matrix_check(check: object, closure: Closure) -> Matrix | None:
    """The flow that ``check`` of ``solve`` asks for: None for True and False.

    Raises ``InputError`` for anything else than True, False, "matrix" and a ``Matrix`` closure, and for a trajectory
    that is itself such a flow.
    """
    if isinstance(check, bool | np.bool_):
        return None
    if check != Matrix.name and not isinstance(check, Matrix):
        raise InputError(
            f"check = {check!r}; use True (lower degrees), False, 'matrix' (the flow of sampled matrices) or "
            "Matrix(dim=..., seed=...) for its dimension"
        )
    if isinstance(closure, Matrix):
        raise InputError(
            "check = 'matrix' compares a theory with the flow of matrices, and closure 'matrix' is that flow"
        )
    return check if isinstance(check, Matrix) else Matrix()


def flow_samples(flow: Matrix, initial: JointLaw | ParameterMatrices | None) -> tuple[Matrix, ...]:
    """The closures to run: one a seed, a single one where the initial matrices are given and nothing is sampled."""
    given = initial is not None and (not is_joint_law(initial) or initial.given_matrices is not None)
    return tuple(replace(flow, seed=flow.seed + n) for n in range(1 if given else SAMPLES))


def matrix_note(
    flow: Matrix,
    samples: int,
    distance: Mapping[str, MatrixDistance],
    relative: Mapping[str, FloatArray],
    tolerance: float,
) -> str:
    """What the comparison saw, and how closely it could look: ``relative`` is the scatter over what it is judged by."""
    if samples == 1:
        return "compared with the flow of the given matrices, which has no scatter"
    farthest = {name: one.farthest for name, one in distance.items() if not np.isnan(one.farthest)}
    text = f"compared with {samples} flows of matrices at d = {flow.dim}"
    if farthest:
        name = max(farthest, key=lambda one: farthest[one])
        text += f": at most {farthest[name]:.2g} scatters from their mean ({name})"
    sizes = {name: float(np.nanmax(values)) for name, values in relative.items() if np.isfinite(values).any()}
    coarse = [name for name, size in sizes.items() if SCATTERS * size > tolerance]
    if coarse:
        text += (
            f"; five scatters are up to {100 * SCATTERS * max(sizes.values()):.2g} % of the values, more than the "
            f"tolerance for {', '.join(coarse)}, and errors below that are not seen: a larger dim sees more"
        )
    return text


__all__ = ["SAMPLES", "SCATTERS", "MatrixDistance", "flow_samples", "matrix_check", "matrix_note"]
