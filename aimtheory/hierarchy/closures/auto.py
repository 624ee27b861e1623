"""The automatic closure: exact where the dynamics is solved, gns elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem, Closure, ClosureProblem
from aimtheory.hierarchy.closures.exact import Exact
from aimtheory.hierarchy.closures.gns import Gns


@dataclass(frozen=True)
class Auto(Closure):
    """``Exact()`` where it applies, ``Gns()`` elsewhere; ``resolve`` says which, and a trajectory names it."""

    name: ClassVar[str] = "auto"

    def resolve(self, problem: ClosureProblem) -> Closure:
        """The closure that is taken: exact when it accepts the problem, gns otherwise."""
        try:
            Exact().close(problem)
        except InputError:
            return Gns()
        return Exact()

    def close(self, problem: ClosureProblem) -> ClosedSystem:
        """The system of the closure that is taken."""
        return self.resolve(problem).close(problem)


__all__ = ["Auto"]
