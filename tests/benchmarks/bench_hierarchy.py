"""Derive, compile, evaluate and solve: against one sympy expression a word, and against the SGD that is predicted.

Run:  python -m pytest tests/benchmarks/bench_hierarchy.py -m "" --benchmark-columns=min,median
Ratios against the baseline of the same run are in ``extra_info`` and asserted.
"""

import subprocess
import sys
import time

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.hierarchy.compiled import compile_hierarchy
from aimtheory.hierarchy.initial_moments import initial_moments
from aimtheory.hierarchy.lambdified import lambdified_drift

COUPLINGS = np.array([0.7, -0.4])


def derive_and_compile(degree):
    return compile_hierarchy(aim.derive(aim.models.load("tied-softmax"), degree))


@pytest.fixture(scope="module")
def sympy_baseline():
    """One sympy expression a word, lambdified with cse, at M = 16: seconds to build and per evaluation."""
    start = time.perf_counter()
    hierarchy = aim.derive(aim.models.load("tied-softmax"), 16)
    function = lambdified_drift(hierarchy)
    build = time.perf_counter() - start
    moments = initial_moments(hierarchy)
    function(COUPLINGS, moments)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        values = function(COUPLINGS, moments)
        times.append(time.perf_counter() - start)
    return build, float(np.median(times)), np.array(values, dtype=float), moments


@pytest.mark.parametrize(("degree", "limit"), [(12, 0.1), (16, 0.5), (20, 10.0)])
def test_derive_and_compile(benchmark, degree, limit):
    compiled = benchmark.pedantic(derive_and_compile, args=(degree,), rounds=3, iterations=1, warmup_rounds=1)
    benchmark.extra_info["words"] = compiled.size
    assert benchmark.stats["min"] <= limit


def test_memory_at_degree_20():
    """Peak resident memory of a fresh process that derives and compiles M = 20: at most 2 GiB."""
    code = (
        "import resource, aimtheory as aim\n"
        "from aimtheory.hierarchy.compiled import compile_hierarchy\n"
        "compile_hierarchy(aim.derive(aim.models.load('tied-softmax'), 20))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peak = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) * 1024
    print(f"\npeak memory at M = 20: {peak / 2**20:.0f} MiB")
    assert peak <= 2 * 2**30


def test_build_is_60_times_faster_than_sympy(benchmark, sympy_baseline):
    benchmark.pedantic(derive_and_compile, args=(16,), rounds=3, iterations=1, warmup_rounds=1)
    ratio = sympy_baseline[0] / benchmark.stats["median"]
    benchmark.extra_info.update(baseline_seconds=sympy_baseline[0], ratio=ratio)
    print(f"\nbuild at M = 16: {benchmark.stats['median']:.4f} s, sympy {sympy_baseline[0]:.1f} s, ratio {ratio:.0f}")
    assert ratio >= 60


def test_evaluation_is_20_times_faster_than_sympy(benchmark, sympy_baseline):
    compiled = derive_and_compile(16)
    _, seconds, expected, moments = sympy_baseline
    values = benchmark(compiled.drift, COUPLINGS, moments)
    assert np.allclose(values, expected, rtol=1e-10, atol=1e-10)
    ratio = seconds / benchmark.stats["median"]
    benchmark.extra_info.update(baseline_seconds=seconds, ratio=ratio)
    ours = benchmark.stats["median"] * 1e6
    print(f"\nevaluation at M = 16: {ours:.0f} us, sympy {seconds * 1e6:.0f} us, ratio {ratio:.0f}")
    assert ratio >= 20


def test_gns_prediction_against_the_sgd_that_it_predicts(benchmark):
    """gns at degree 11, nine times to t = 4, against SGD at d = 300, batch 256: 30000 steps, timed on 100."""
    from aimtheory.simulate import sgd

    model = aim.models.load("tied-softmax")
    grid = np.linspace(0, 4, 9)
    benchmark.pedantic(
        lambda: aim.solve(model, degree=11, closure="gns", times=grid), rounds=3, iterations=1, warmup_rounds=1
    )
    dim, rate, batch, sample = 300, 0.01, 256, 100
    steps = 4 * dim / (4 * rate)
    options = {"dim": dim, "learning_rate": rate, "batch": batch, "observables": ["t_1"], "seed": 0}
    sgd(model, times=[0, 10 * 4 * rate / dim], **options)
    start = time.perf_counter()
    sgd(model, times=[0, sample * 4 * rate / dim], **options)
    seconds = (time.perf_counter() - start) / sample * steps
    ratio = seconds / benchmark.stats["median"]
    benchmark.extra_info.update(sgd_seconds=seconds, ratio=ratio)
    ours = benchmark.stats["median"]
    print(f"\ngns: {ours:.3f} s, SGD: {seconds:.0f} s (extrapolated from {sample} steps), ratio {ratio:.0f}")
    assert benchmark.stats["median"] <= 1.0
    assert ratio >= 100
