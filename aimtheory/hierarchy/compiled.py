"""The compiled right-hand side of a closed hierarchy: sparse integer operators, ready for numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from aimtheory.hierarchy.closure_map import ClosureMap, supply
from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.moments import MomentHierarchy

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CompiledHierarchy:
    """d mu/dt = sum_c c (A_c mu + B_c nu(mu) + b_c) on the words of a hierarchy, stacked sparse products.

    ``operator`` stacks the A_c of all couplings over the words that move (``moving``), ``source`` the b_c, shape
    (couplings, moving), None when there are none. ``missing`` stacks the B_c and ``supply`` gives the missing moments
    nu from the moments kept; both None for the zero closure ([D] (13)). Exact integers converted to float64.
    """

    couplings: tuple[Coupling, ...]
    operator: sps.csr_array
    moving: NDArray[np.int64]
    size: int
    source: FloatArray | None = None
    missing: sps.csr_array | None = None
    supply: Callable[[FloatArray], list[float]] | None = None

    def drift(self, couplings: FloatArray, moments: FloatArray) -> FloatArray:
        """The time derivative of all moments, shape (size,), given the values of the couplings in order."""
        result = np.zeros(self.size)
        if len(self.moving):
            products = self.operator @ moments
            if self.missing is not None and self.supply is not None:
                products = products + self.missing @ np.array(self.supply(moments), dtype=np.float64)
            parts = products.reshape(len(self.couplings), len(self.moving))
            result[self.moving] = couplings @ (parts if self.source is None else parts + self.source)
        return result


def compile_hierarchy(hierarchy: MomentHierarchy, closure: ClosureMap | None = None) -> CompiledHierarchy:
    """Compile a hierarchy under a closure map, by default the zero closure; see ``CompiledHierarchy``."""
    operators = hierarchy.operators
    function = supply(hierarchy, closure)
    active = np.zeros(len(hierarchy), dtype=bool)
    for term in operators:
        active |= (np.diff(term.matrix.indptr) > 0) | (term.source != 0)
    for matrix in hierarchy.missing_operators if function is not None else ():
        active |= np.diff(matrix.indptr) > 0
    moving = np.flatnonzero(active)
    stacked = (
        sps.vstack([term.matrix[moving].astype(np.float64) * float(term.scale) for term in operators], format="csr")
        if operators
        else sps.csr_array((0, len(hierarchy)))
    )
    source = np.array([term.source[moving] * float(term.scale) for term in operators])
    missing = None
    if function is not None:
        pairs = zip(operators, hierarchy.missing_operators, strict=True)
        rows = [matrix[moving].astype(np.float64) * float(term.scale) for term, matrix in pairs]
        missing = sps.csr_array(sps.vstack(rows, format="csr"))
    return CompiledHierarchy(
        hierarchy.views.couplings,
        sps.csr_array(stacked),
        moving,
        len(hierarchy),
        source if source.any() else None,
        missing,
        function,
    )


__all__ = ["CompiledHierarchy", "compile_hierarchy"]
