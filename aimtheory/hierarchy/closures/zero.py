"""The zero closure: words above the truncation degree are set to zero ([D] (13))."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aimtheory.hierarchy.closed_system import ClosedSystem, Closure, ClosureProblem, FloatArray
from aimtheory.hierarchy.compiled import CompiledHierarchy, compile_hierarchy
from aimtheory.hierarchy.initial_moments import initial_moments
from aimtheory.hierarchy.moment_source import moment_drift_source
from aimtheory.hierarchy.moments import MomentHierarchy, derive
from aimtheory.hierarchy.system_source import array_text
from aimtheory.spectra.law_checks import is_joint_law
from aimtheory.words import Word


@dataclass(frozen=True)
class Zero(Closure):
    """Words of degree above M are zero ([D] (13), Corollary 2).

    The error is at most c (C^2/s)^{M+1} s^{|w|} uniformly in time only with enough weight decay. Without it the
    truncation is a Taylor expansion in time with a finite radius: past a time t* a larger M makes it worse, and its
    trajectories blow up.
    """

    name: ClassVar[str] = "zero"

    def close(self, problem: ClosureProblem) -> ZeroSystem:
        """Derive all words up to the degree and compile them; ``AssumptionError`` for moments that no matrices have."""
        if is_joint_law(problem.initial):
            problem.initial.check_possible()
        hierarchy = derive(problem.model, problem.degree)
        return ZeroSystem(hierarchy, compile_hierarchy(hierarchy), initial_moments(hierarchy, problem.initial))


class ZeroSystem(ClosedSystem):
    """The moments themselves as state."""

    def __init__(self, hierarchy: MomentHierarchy, compiled: CompiledHierarchy, start: FloatArray) -> None:
        self.hierarchy = hierarchy
        self.compiled = compiled
        self.exact_degree = hierarchy.degree
        self.is_exact = hierarchy.closes
        self._start = start
        self._positions: dict[tuple[Word, ...], np.ndarray] = {}

    @property
    def initial(self) -> FloatArray:
        """Moments at time zero in the order of ``hierarchy.words``."""
        return self._start

    def drift(self, couplings: FloatArray, state: FloatArray) -> FloatArray:
        """One stacked sparse product."""
        return self.compiled.drift(couplings, state)

    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Entries of the state; ``InputError`` for a word above the truncation degree."""
        key = tuple(words)
        if key not in self._positions:
            self._positions[key] = np.array([self.hierarchy.index(word) for word in key], dtype=np.int64)
        return state[self._positions[key]]

    def source(self, words: Sequence[Word], couplings: Sequence[str]) -> list[str]:
        """The moments are the state; the drift is written term by term."""
        places = ", ".join(str(self.hierarchy.index(word)) for word in words)
        return [
            f"STATE = {self.hierarchy.names!r}",
            f"INITIAL = {array_text(self._start)}",
            "",
            "",
            "def moments(state):",
            '    """The traces of WORDS at a state."""',
            f"    return np.asarray(state, dtype=float)[[{places}]]",
            "",
            "",
            *moment_drift_source(self.hierarchy, couplings),
        ]


__all__ = ["Zero", "ZeroSystem"]
