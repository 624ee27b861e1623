"""Untied attention: its hierarchy from the words that are asked for, the Fock-space closure, and a step of SGD.

Run:  python -m pytest tests/benchmarks/bench_untied.py -m "" --benchmark-columns=min,median
A busy machine only adds time, so limits are held against the fastest round; what was measured is in ``extra_info``.
"""

import time

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.hierarchy.compiled import compile_hierarchy
from aimtheory.simulate import OnlineSgd, initial_parameters
from aimtheory.simulate.gaussian_tokens import GaussianTokens, spare_thread

ASKED = ["tr(A1)", "tr(B1)", "q1_12", "q2_12"]
TIMES = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_derive_and_compile_degree_5(benchmark):
    """All words up to degree 5 that are reached from t^A, t^B, q1_12 and q2_12."""

    def build():
        return compile_hierarchy(aim.derive(aim.models.load("untied-linear"), 5, observables=ASKED))

    compiled = benchmark.pedantic(build, rounds=3, iterations=1)
    benchmark.extra_info["words"] = compiled.size
    fastest, median = benchmark.stats["min"], benchmark.stats["median"]
    print(f"\n  {compiled.size} words: {fastest:.2f} s (fastest of 3), {median:.2f} s (median)")
    assert benchmark.stats["min"] <= 5


@pytest.mark.parametrize(("degree", "limit"), [(7, 10), (9, 40)])
def test_gns_to_time_one(benchmark, degree, limit):
    """Solved and read at six times; the result is that of the tests (q1_12 = .458 and .464 at tau = 1)."""

    spent = []

    def solve():
        start = time.process_time()
        result = aim.solve(
            aim.models.load("untied-linear"),
            degree=degree,
            times=TIMES,
            observables=["q1_12"],
            check=False,
            dense=False,
            rtol=1e-6,
            atol=1e-8,
        )
        spent.append(time.process_time() - start)
        return result

    run = benchmark.pedantic(solve, rounds=1, iterations=1)
    wall, cpu, size = benchmark.stats["min"], min(spent), run.states.shape[1]
    benchmark.extra_info.update(evaluations=run.evaluations, state=size, processor_seconds=cpu)
    print(
        f"\n  degree {degree}: {wall:.1f} s ({cpu:.1f} s of processor), {size} numbers, {run.evaluations} evaluations"
    )
    assert run["q1_12"][-1] == pytest.approx({7: 0.4581, 9: 0.4643}[degree], abs=1e-4)
    # Processor time over all threads bounds the time of an idle machine from above.
    assert min(wall, cpu) <= limit


@pytest.mark.parametrize("name", ["untied-linear", "untied-hermite2"])
def test_step_against_matrix_products(benchmark, name):
    """A step against the products that it implies, each run alone: x U, x V and the two gradients, and x M_2.

    ``bound`` multiplies matrices of those shapes in the same precision and nothing else: no tokens, no loss, no update.
    """
    dim, batch = 400, 512
    model = aim.models.load(name)
    state = OnlineSgd(model, initial_parameters(model, dim, seed=0), dim, 0.01, batch, "float32")
    stream = GaussianTokens(
        dim, model.covariance_matrix, batch, "float32", np.random.SeedSequence(1), background=spare_thread()
    )
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((batch, dim), dtype=np.float32)
    matrix = rng.standard_normal((dim, dim), dtype=np.float32)
    forward, backward = np.empty((batch, dim), dtype=np.float32), np.empty((dim, dim), dtype=np.float32)

    def step():
        state.step(stream())

    def bound():
        for _ in range(3):
            np.matmul(tokens, matrix, out=forward)
        for _ in range(2):
            np.matmul(tokens.T, forward, out=backward)

    flops = 5 * 2 * batch * dim * dim
    assert state.forms.flops_per_row * batch == pytest.approx(flops, rel=0.02)
    times = {step: [], bound: []}
    for _ in range(12):
        for function, found in times.items():
            function()
            for _ in range(10):
                start = time.perf_counter()
                function()
                found.append(time.perf_counter() - start)
    mine, product = (min(times[f]) for f in (step, bound))
    medians = [float(np.median(times[f])) for f in (step, bound)]
    benchmark.extra_info.update(ratio=mine / product, ratio_of_medians=medians[0] / medians[1], milliseconds=1e3 * mine)
    print(
        f"\n  step {1e3 * mine:.2f} ms, products {1e3 * product:.2f} ms: {mine / product:.2f} times the bound", end=""
    )
    print(f" (medians {1e3 * medians[0]:.2f} and {1e3 * medians[1]:.2f} ms)")
    benchmark.pedantic(step, rounds=20)
    assert mine / product <= 1.3
