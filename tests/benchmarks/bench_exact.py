"""The exact dynamics of tied softmax attention: solve, long times, spectra; against the SGD that is predicted.

Run:  python -m pytest tests/benchmarks/bench_exact.py -m "" --benchmark-columns=min,median
Ratios against the baseline of the same run are in ``extra_info``; the one against SGD is asserted.
"""

import time

import numpy as np
import pytest

import aimtheory as aim

TIMES = np.linspace(0, 4, 9)
NAMES = ("t_1", "q_11", "p_12", "loss")


@pytest.fixture(scope="module")
def model():
    return aim.models.load("tied-softmax")


def exact(model, times=TIMES, **options):
    return aim.solve(
        model, degree=3, closure="exact", times=times, observables=NAMES, check=False, rtol=1e-8, atol=1e-10, **options
    )


def test_solve(benchmark, model):
    """Nine times to t = 4 at 1e-8."""
    exact(model)
    run = benchmark(exact, model)
    assert run["p_12"][-1] == pytest.approx(0.65402237, abs=1e-7)


def test_against_gns(benchmark, model):
    """The truncation whose error is comparable takes longer than the exact solution."""
    start = time.perf_counter()
    truncated = aim.solve(model, degree=15, closure="gns", times=TIMES, observables=NAMES, check=False)
    baseline = time.perf_counter() - start
    run = benchmark(exact, model)
    benchmark.extra_info["gns_over_exact"] = baseline / benchmark.stats["median"]
    assert run["p_12"][2] == pytest.approx(float(truncated["p_12"][2]), abs=1e-4)


def test_against_sgd(benchmark, model):
    """d = 300, learning rate .01, batch 256: 1/400 of the run to t = 4, times 400."""
    start = time.perf_counter()
    aim.simulate.sgd(model, dim=300, learning_rate=0.01, batch=256, times=[0.0, 0.01], seeds=[0])
    baseline = (time.perf_counter() - start) * 400
    benchmark(exact, model)
    ratio = baseline / benchmark.stats["median"]
    benchmark.extra_info["sgd_over_exact"] = ratio
    assert ratio > 100


def test_density(benchmark, model):
    """400 points of the spectrum at t = 2."""
    run = exact(model)
    law = run.spectrum(2.0)
    grid = np.linspace(0, 3, 401)[1:]
    law.density(grid)
    density = benchmark(law.density, grid)
    assert (density >= 0).all()
