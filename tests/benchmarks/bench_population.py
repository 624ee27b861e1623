"""The gradient of the potential as an integrator calls it, against the adaptive general path of the same run."""

import numpy as np
import pytest

from aimtheory.model.losses import MeanSquaredError
from aimtheory.population import potential

Q = np.array([[2.0, 0.6], [0.6, 2.0]])


@pytest.mark.benchmark(group="gradient of the softmax potential")
@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("path", ["tied", "general"])
def test_softmax_gradient(benchmark, tokens, path):
    phi = potential(MeanSquaredError("softmax"), tokens)
    phi.tied_gradient(Q)
    students = iter(2.0 + 1e-9 * np.arange(10_000_000))

    def call():
        # A moving student, as along a trajectory; the teacher stands still.
        q = Q.copy()
        q[0, 0] = next(students)
        return phi.tied_gradient(q)[0] if path == "tied" else phi.gradients(None, q, q).tied

    result = benchmark(call)
    assert np.isfinite(result).all()
