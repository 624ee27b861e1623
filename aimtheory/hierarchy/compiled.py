"""The compiled right-hand side of the zero-closed hierarchy: sparse integer operators, ready for numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.moments import MomentHierarchy

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CompiledHierarchy:
    """d mu/dt = sum_c c (A_c mu + b_c) on the words of a hierarchy, one stacked sparse product an evaluation.

    ``operator`` stacks the A_c of all couplings over the words that move (``moving``), ``source`` the b_c, shape
    (couplings, moving), None when there are none; calls on words above the truncation degree are zero, which is the
    zero closure ([D] (13)). Exact integers converted to float64.
    """

    couplings: tuple[Coupling, ...]
    operator: sps.csr_array
    moving: NDArray[np.int64]
    size: int
    source: FloatArray | None = None

    def drift(self, couplings: FloatArray, moments: FloatArray) -> FloatArray:
        """The time derivative of all moments, shape (size,), given the values of the couplings in order."""
        result = np.zeros(self.size)
        if len(self.moving):
            parts = (self.operator @ moments).reshape(len(self.couplings), len(self.moving))
            result[self.moving] = couplings @ (parts if self.source is None else parts + self.source)
        return result


def compile_hierarchy(hierarchy: MomentHierarchy) -> CompiledHierarchy:
    """Compile a hierarchy under the zero closure; see ``CompiledHierarchy``."""
    operators = hierarchy.operators
    active = np.zeros(len(hierarchy), dtype=bool)
    for term in operators:
        active |= (np.diff(term.matrix.indptr) > 0) | (term.source != 0)
    moving = np.flatnonzero(active)
    stacked = (
        sps.vstack([term.matrix[moving].astype(np.float64) * float(term.scale) for term in operators], format="csr")
        if operators
        else sps.csr_array((0, len(hierarchy)))
    )
    source = np.array([term.source[moving] * float(term.scale) for term in operators])
    return CompiledHierarchy(
        hierarchy.views.couplings, sps.csr_array(stacked), moving, len(hierarchy), source if source.any() else None
    )


__all__ = ["CompiledHierarchy", "compile_hierarchy"]
