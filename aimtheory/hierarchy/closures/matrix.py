"""The matrix closure: the flow on sampled d x d matrices, the independent reference at finite d."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import Closure, ClosureProblem, FloatArray
from aimtheory.hierarchy.initial_moments import check_letters, matrix_views
from aimtheory.hierarchy.operator_flow import OperatorSystem
from aimtheory.spectra import MatrixFamily


@dataclass(frozen=True)
class Matrix(Closure):
    """The same flow on matrices of dimension ``dim`` drawn from the model's laws with ``seed``, or on given matrices.

    No truncation: the degree plays no part. Cost d^3 an evaluation; moments scatter by O(1/d) around the limit. Words
    of any degree can be read from the state.
    """

    dim: int = 200
    seed: int = 0
    name: ClassVar[str] = "matrix"

    @property
    def options(self) -> Mapping[str, Any]:
        """Dimension and seed."""
        return {"dim": self.dim, "seed": self.seed}

    def close(self, problem: ClosureProblem) -> OperatorSystem:
        """Sample the parameters and form the views; given matrices (a ``MatrixFamily``) are taken as they are."""
        views = problem.views
        if problem.initial is None:
            sampled = problem.model.sample(self.dim, np.random.default_rng(self.seed))
            parameters = {name: matrix for group in sampled for name, matrix in group.items()}
            matrices = matrix_views(views, parameters)
        elif isinstance(problem.initial, MatrixFamily):
            check_letters(problem.initial, views)
            matrices = {letter: problem.initial.matrix(str(letter)) for letter in views.alphabet.letters}
        else:
            raise InputError(
                f"closure 'matrix' starts from matrices, not from {type(problem.initial).__name__}; "
                "give MatrixFamily(...) or leave initial out to sample the model's laws"
            )
        dim = len(next(iter(matrices.values())))
        return OperatorSystem(views, matrices, np.eye(dim), _normalized_trace, problem.degree)

    def coarser_degree(self, degree: int) -> int | None:  # noqa: ARG002
        """None: the flow is not truncated, its error is the finite dimension."""
        return None


def _normalized_trace(left: FloatArray, right: FloatArray) -> float:
    return float(np.vdot(left, right)) / len(left)


__all__ = ["Matrix"]
