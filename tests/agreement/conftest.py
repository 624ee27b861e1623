"""The theory that belongs to a seed of a simulation: the matrix flow from the same matrices and the same means."""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.simulate import initial_parameters


def means(model, start, dim):
    """m_k = Tr S_k/sqrt(d) of untied and of direct matrices."""
    traces = []
    for form in model.forms:
        matrices = [start[letter.name] for letter in form.matrix.letters]
        traces.append(np.vdot(*matrices) if len(matrices) == 2 else np.trace(matrices[0]))
    return np.array(traces) / np.sqrt(dim)


def flow(model, dim, start, times, observables):
    """The limit's equations on given matrices; their own mean chooses the branch of m*."""
    options = {} if model.centred else {"initial_mean": means(model, start, dim)}
    return aim.solve(
        model,
        degree=2,
        closure="matrix",
        initial=start,
        times=times,
        observables=observables,
        check=False,
        dense=False,
        rtol=1e-6,
        atol=1e-8,
        **options,
    )


@pytest.fixture
def matrix_flows():
    """One trajectory a seed, from the matrices of that seed at this dimension."""

    def solve(model, dim, seeds, times, observables):
        return [flow(model, dim, initial_parameters(model, dim, seed), times, observables) for seed in seeds]

    return solve


@pytest.fixture
def relaxed_flow():
    """Matrices whose mean m_1 has a given value, as after the fast phase, and the trajectory from there.

    V_1 + c U_1/(sqrt(d) t^A) has the mean m_1 + c; the moments change by O(d^{-1/2}), as they do in the fast phase.
    """

    def solve(model, dim, mean, times, observables):
        start = dict(initial_parameters(model, dim, 0))
        shift = mean - means(model, start, dim)[0]
        U = start["U1"]
        start["V1"] = start["V1"] + shift * np.sqrt(dim) / np.vdot(U, U) * U
        assert means(model, start, dim)[0] == pytest.approx(mean, abs=1e-12)
        return start, flow(model, dim, start, times, observables)

    return solve
