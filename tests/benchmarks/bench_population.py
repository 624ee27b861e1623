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


@pytest.mark.benchmark(group="gradient of the softmax potential of four tokens and more")
@pytest.mark.parametrize(
    ("tokens", "path"), [(4, "cubature"), (4, "rows"), (64, "rows"), (1024, "rows"), (10**6, "rows")]
)
def test_softmax_gradient_of_many_tokens(benchmark, tokens, path):
    phi = potential(MeanSquaredError("softmax"), tokens)
    if path == "cubature":
        phi.__dict__["_softmax_rows"] = None
    students = iter(2.0 + 1e-9 * np.arange(10_000_000))

    def call():
        q = Q.copy()
        q[0, 0] = next(students)
        # The cubature reaches its stated error only on the adaptive path.
        return phi.gradients(None, q, q).tied if path == "cubature" else phi.tied_gradient(q)[0]

    call()
    assert np.isfinite(benchmark.pedantic(call, rounds=3 if path == "cubature" else 30)).all()
