"""The theory that belongs to a seed of a simulation: the matrix flow from the same matrices and the same means."""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.simulate import initial_parameters


@pytest.fixture
def matrix_flows():
    """One trajectory a seed: the limit's equations, on the matrices of that seed at this dimension."""

    def solve(model, dim, seeds, times, observables):
        flows = []
        for seed in seeds:
            start = initial_parameters(model, dim, seed)
            options = {}
            if not model.centred:
                # m_k(0) = Tr S_k/sqrt(d) of these matrices chooses the branch of m*.
                product = {
                    "untied": lambda names, start=start: np.vdot(start[names[0]], start[names[1]]),
                    "direct": lambda names, start=start: np.trace(start[names[0]]),
                }
                forms = [index.factorization for index in model.indices]
                traces = [product[form.kind]([x.name for x in form.letters]) for form in forms]
                options["initial_mean"] = np.array(traces) / np.sqrt(dim)
            flows.append(
                aim.solve(
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
            )
        return flows

    return solve
