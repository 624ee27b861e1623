"""The gns closure: compressed operators instead of truncated moments (ours; not in the source)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import Closure, ClosureProblem
from aimtheory.hierarchy.initial_moments import check_positive_views, joint_law
from aimtheory.hierarchy.operator_flow import Level, OperatorSystem
from aimtheory.spectra import gram_operators_of_matrices, gram_operators_of_moments


@dataclass(frozen=True)
class Gns(Closure):
    """Keep the span of the words of degree <= m of the Gelfand-Naimark-Segal space of the initial moments, M = 2m + 1.

    The compressed matrices follow the same matrix flow and moments are vacuum expectations. All moments up to degree 2m
    + 1 are exact at time zero, so that the closure uses the data of the zero closure of degree M; positivity is kept,
    nothing blows up. The flow conserves the rank of S = W W^T and the compressed S does not, so that students of width
    below 1 can be wrong at late times: compare with ``Exact`` where it applies. An even degree M uses m = (M - 2)/2 and
    is exact to M - 1. Size: 2^{m+1} - 1 for two letters.
    """

    name: ClassVar[str] = "gns"

    def coarser_degree(self, degree: int) -> int | None:
        """M - 2, down to 3, the least degree that keeps a word."""
        return degree - 2 if degree >= 5 else None

    def close(self, problem: ClosureProblem) -> OperatorSystem:
        """Compress the initial operators, by what is known of them.

        A free family is compressed on alternating words, Gaussian factors on the Fock space of paths, given matrices
        and tables of moments by orthonormalizing their words (``InputError`` for a table that stops before the degree,
        ``AssumptionError`` for one that no matrices have).
        """
        views, depth = problem.views, (problem.degree - 1) // 2
        whole = joint_law(problem.model, views, problem.initial)
        law = whole.matrix_part
        scalars = {
            letter: np.array([[float(whole.moment([str(letter)]))]]) for letter in views.parameters if letter.is_scalar
        }
        free = law.word_operators(depth)
        if free is not None:
            matrices = {x: free.operators[str(x)] for x in views.alphabet.letters if not x.is_scalar}
            check_positive_views(views, {letter: matrix.toarray() for letter, matrix in matrices.items()})
            return OperatorSystem(
                Level.of_views(views),
                views.couplings,
                {**matrices, **scalars},
                2 * depth + 1,
                vacuum=free.state,
            )
        fock = law.path_operators(max(depth, 1)) if problem.initial is None else None
        if fock is not None:
            if depth < 1:
                raise InputError(f"closure 'gns' at degree {problem.degree} keeps no path; its least degree is 3")
            parameters = {x: scalars[x] if x.is_scalar else fock.operators[x.name] for x in views.parameters}
            return OperatorSystem(Level.of_parameters(views), views.couplings, parameters, 2 * depth, vacuum=fock.state)
        letters = {str(letter): letter for letter in views.alphabet.letters if not letter.is_scalar}
        given, known = law.given_matrices, law.complete_length
        if given is not None:
            gram = gram_operators_of_matrices({name: given[name] for name in letters}, depth)
        else:
            if known is not None and known < 2 * depth + 1:
                raise InputError(
                    f"closure 'gns' at degree {problem.degree} needs moments up to length {2 * depth + 1}, but the "
                    f"table given stops at {known}; lower the degree or add longer words"
                )
            gram = gram_operators_of_moments(law, depth, lambda name: str(letters[name].T))
        matrices = {letter: gram.operators[name] for name, letter in letters.items()}
        check_positive_views(views, matrices)
        return OperatorSystem(
            Level.of_views(views), views.couplings, {**matrices, **scalars}, 2 * depth + 1, vacuum=gram.state
        )


__all__ = ["Gns"]
