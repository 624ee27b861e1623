"""The automatic closure: exact where the dynamics is solved, gns elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem, Closure, ClosureProblem
from aimtheory.hierarchy.closures.exact import ELSEWHERE, Exact
from aimtheory.hierarchy.closures.gns import Gns


@dataclass(frozen=True)
class Auto(Closure):
    """``Exact()`` where it applies, ``Gns()`` elsewhere; ``choice`` says which and why, and a trajectory repeats it."""

    name: ClassVar[str] = "auto"
    needs_degree: ClassVar[bool] = False

    def resolve(self, problem: ClosureProblem) -> Closure:
        """The closure that is taken: exact when it accepts the problem, gns otherwise."""
        return Exact() if self._obstacle(problem) is None else Gns()

    def choice(self, problem: ClosureProblem) -> str:
        """``exact`` and what it rests on, or ``gns`` and what stands in the way of ``exact``."""
        obstacle = self._obstacle(problem)
        if obstacle is None:
            return "closure='auto' took 'exact': one trained tied matrix moves, free at the start from what is fixed"
        return f"closure='auto' took 'gns', which truncates: {obstacle}"

    @staticmethod
    def _obstacle(problem: ClosureProblem) -> str | None:
        """What stands in the way of the exact closure, None where it applies."""
        try:
            Exact().close(problem)
        except InputError as error:
            return str(error).partition(f"; {ELSEWHERE}")[0]
        return None

    def close(self, problem: ClosureProblem) -> ClosedSystem:
        """The system of the closure that is taken."""
        return self.resolve(problem).close(problem)


__all__ = ["Auto"]
