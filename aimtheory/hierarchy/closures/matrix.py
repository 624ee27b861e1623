"""The matrix closure: the flow on sampled d x d matrices, the independent reference at finite d."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import Closure, ClosureProblem
from aimtheory.hierarchy.initial_moments import (
    check_given_matrices,
    check_letters,
    check_parameters,
    matrix_views,
)
from aimtheory.hierarchy.operator_flow import Level, OperatorSystem
from aimtheory.spectra.law_checks import is_joint_law
from aimtheory.words import EMBEDDING, Letter

_LARGEST = 20_000


@dataclass(frozen=True)
class Matrix(Closure):
    """The same flow on matrices of dimension ``dim`` drawn from the model's laws with ``seed``, or on given matrices.

    No truncation: the degree plays no part. Cost d^3 an evaluation; moments scatter by O(1/d) around the limit. Words
    of any degree can be read from the state.
    """

    dim: int = 200
    seed: int = 0
    name: ClassVar[str] = "matrix"
    needs_degree: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field, least in (("dim", 2), ("seed", 0)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise InputError(f"{field} = {value!r} of closure 'matrix' must be an integer of at least {least}")
        if self.dim > _LARGEST:
            raise InputError(
                f"dim = {self.dim} of closure 'matrix' is above {_LARGEST}; its matrices would not fit in memory"
            )

    @property
    def options(self) -> Mapping[str, Any]:
        """Dimension and seed."""
        return {"dim": self.dim, "seed": self.seed}

    def close(self, problem: ClosureProblem) -> OperatorSystem:
        """Sample the parameters, or take given ones (by name, or a ``MatrixFamily`` of the views) as they are.

        Parameters move, not their products: the rank of S = W W^T is conserved by the flow, and rounding would lose it
        on S itself, where eigenvalues that are zero grow. A family of views, which has no parameters, moves as it is.
        """
        views = problem.views
        initial = problem.initial
        if is_joint_law(initial) and (given := initial.given_matrices) is not None:
            check_letters(initial, views)
            family = {letter: given[str(letter)] for letter in views.alphabet.letters}
            check_given_matrices(views, family)
            return self._system(problem, Level.of_views(views), family)
        if problem.initial is None:
            parameters = problem.model.sample(self.dim, np.random.default_rng(self.seed))
        elif isinstance(problem.initial, Mapping):
            parameters = check_parameters(views, problem.initial)
        else:
            raise InputError(
                f"closure 'matrix' starts from matrices, not from {type(problem.initial).__name__}; give "
                "MatrixFamily(...) or {name: matrix}, or leave initial out to sample the model's laws"
            )
        if problem.initial is not None:
            check_given_matrices(views, matrix_views(views, parameters))
        matrices = {letter: parameters[letter.name] for letter in views.parameters}
        return self._system(problem, Level.of_parameters(views), matrices)

    @staticmethod
    def _system(problem: ClosureProblem, level: Level, matrices: Mapping[Letter, np.ndarray]) -> OperatorSystem:
        dim = next(len(matrix) for letter, matrix in matrices.items() if letter.rows == EMBEDDING)
        couplings = problem.views.couplings
        return OperatorSystem(level, couplings, matrices, problem.degree, dim=dim)

    def coarser_degree(self, degree: int) -> int | None:  # noqa: ARG002
        """None: the flow is not truncated, its error is the finite dimension."""
        return None


__all__ = ["Matrix"]
