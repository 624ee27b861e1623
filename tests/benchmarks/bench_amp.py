"""AMP against an implementation with dense sensing matrices (``baselines/dense_amp.py``): time of an iteration, memory.

Run with ``pytest tests/benchmarks/bench_amp.py -s``. Ratios are of the fastest iterations of the same run.
"""

import importlib.util
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from aimtheory.bayes import HardmaxChannel, SoftmaxChannel, make_prior
from aimtheory.simulate import AmpState, amp, teacher_data

spec = importlib.util.spec_from_file_location("dense_amp", Path(__file__).parent / "baselines" / "dense_amp.py")
dense_amp = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dense_amp)


def fastest(function, repeats):
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


@pytest.mark.parametrize(
    ("channel", "gradient", "dim", "alpha"),
    [
        (SoftmaxChannel(3), dense_amp.softmax_gradient, 100, 0.06),
        (HardmaxChannel(2), dense_amp.hardmax_gradient, 60, 0.31),
    ],
    ids=["softmax-T3-d100", "hardmax-d60"],
)
def test_iteration_against_dense_sensing_matrices(benchmark, channel, gradient, dim, alpha):
    prior = make_prior(0.5)
    data = teacher_data(channel, [prior], alpha=alpha, dim=dim, seed=np.random.SeedSequence(0))
    tokens = np.concatenate([block.transpose(1, 0, 2) for _, block in data.tokens])
    tracemalloc.start()
    dense = dense_amp.DenseAmp(tokens, data.outputs, 0.5, gradient)
    dense_memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ours = AmpState(channel, [prior], data.tokens, data.outputs)
    # The same iteration: estimates agree to the accuracy of the baseline's quadrature.
    ours.step(), dense.step()
    np.testing.assert_allclose(ours.estimates[0], dense.estimate, atol=1e-5)
    assert ours.variance[0] == pytest.approx(dense.variance, rel=1e-2)
    ours = AmpState(channel, [prior], data.tokens, data.outputs, damping=0.5)
    theirs = fastest(dense.step, 2)
    mine = fastest(ours.step, 15)
    tracemalloc.start()
    ours.step()
    extra = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    total = extra + tokens.nbytes + ours.omega.nbytes + ours.gradient.nbytes
    benchmark.extra_info.update(
        ratio=theirs / mine,
        milliseconds=1e3 * mine,
        baseline_milliseconds=1e3 * theirs,
        memory_megabytes=total / 1e6,
        baseline_memory_megabytes=dense_memory / 1e6,
    )
    print(
        f"\n  iteration {1e3 * mine:.1f} ms, dense {1e3 * theirs:.0f} ms: {theirs / mine:.0f} times faster; "
        f"memory {total / 1e6:.0f} MB against {dense_memory / 1e6:.0f} MB"
    )
    benchmark.pedantic(ours.step, rounds=5)
    assert theirs / mine >= 10


def test_memory_grows_with_the_tokens(benchmark):
    """Peak beyond the interpreter over n T d numbers: the same factor while n d T grows eightfold."""
    factors = {}
    for dim, alpha in ((100, 1.0), (200, 1.0)):
        tracemalloc.start()
        amp("softmax", width=0.5, alpha=alpha, dim=dim, iterations=2, predict=False)
        factors[dim] = tracemalloc.get_traced_memory()[1] / (alpha * dim**2 * 2 * dim * 8)
        tracemalloc.stop()
    benchmark.extra_info["bytes_over_token_bytes"] = factors
    print(f"\n  peak memory over that of the tokens: {factors}")
    benchmark.pedantic(lambda: None)
    assert factors[200] < 1.1 * factors[100] < 4
