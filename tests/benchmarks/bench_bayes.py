"""Bayes-optimal curves, thresholds and diagrams, beside the published approach timed in the same run.

Run:  python -m pytest tests/benchmarks/bench_bayes.py -m "" --benchmark-columns=min,median

The baseline is scaled down: a few points of its softmax curve, and a few hundred of its 25,000 Monte-Carlo samples an
evaluation; times are extrapolated linearly in both, and in the number of damped iterations, which is counted.
``extra_info`` holds the ratios. They are asserted, so that a slow change is noticed.
"""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from aimtheory.bayes import HardmaxChannel, SoftmaxChannel, StateEvolution, make_prior, phase_diagram, threshold
from aimtheory.bayes.hardmax_two_tokens import _grid, two_token_table

sys.path.insert(0, str(Path(__file__).parent / "baselines"))
import fixed_point_state_evolution as published

POINTS = 256
ALPHAS = np.linspace(0.0, 0.1875, POINTS)
PUBLISHED_SAMPLES = 25000


def softmax_curve():
    return StateEvolution(make_prior(0.5), SoftmaxChannel(2)).curve(ALPHAS)


def hardmax_point(alpha=0.31):
    """With the channel's tables built from nothing."""
    two_token_table.cache_clear()
    _grid.cache_clear()
    return StateEvolution(make_prior(0.5), HardmaxChannel(2)).solve(alpha)


def test_softmax_curve(benchmark):
    """256 points at T = 2, rho = 1/2 to 1e-9: at most 50 ms and 3,000 times faster than the published approach."""
    curve = benchmark.pedantic(softmax_curve, rounds=10, warmup_rounds=2)
    chosen = np.arange(16, POINTS, 48)
    start = time.perf_counter()
    slow = [published.softmax_mmse(ALPHAS[place], 0.5) for place in chosen]
    baseline = (time.perf_counter() - start) / len(chosen) * POINTS
    ratio = baseline / benchmark.stats["min"]
    benchmark.extra_info.update(baseline_points=len(chosen), baseline_seconds_extrapolated=baseline, ratio=ratio)
    print(
        f"\nsoftmax curve: {benchmark.stats['min'] * 1e3:.1f} ms; baseline {baseline:.0f} s "
        f"(extrapolated): {ratio:.0f}x"
    )
    assert np.allclose(slow, curve.mmse[chosen], atol=2e-3)
    assert benchmark.stats["min"] <= 0.05
    assert ratio >= 3000


def test_hardmax_point(benchmark):
    """One alpha to 1e-7, tables included: at most 0.3 s and 3,000 times faster."""
    point = benchmark.pedantic(hardmax_point, rounds=5, warmup_rounds=1)
    rng = np.random.default_rng(0)
    samples = 300
    start = time.perf_counter()
    signal = published.hardmax_signal(point.q, point.mmse, samples, rng)
    one = (time.perf_counter() - start) / samples * PUBLISHED_SAMPLES
    # Damped iterations to the published tolerance, counted on the exact map.
    path = StateEvolution(make_prior(0.5), HardmaxChannel(2)).iterate(0.31, 400, damping=published.DAMPING)
    iterations = int(np.argmax(np.abs(np.diff(path[:, 0])) < published.TOLERANCE * (1 - published.DAMPING))) + 1
    baseline = one * iterations
    ratio = baseline / benchmark.stats["min"]
    benchmark.extra_info.update(channel_seconds_extrapolated=one, iterations=iterations, ratio=ratio)
    print(
        f"\nhardmax point: {benchmark.stats['min'] * 1e3:.0f} ms; baseline {one:.1f} s an evaluation x {iterations} "
        f"iterations (extrapolated): {ratio:.0f}x"
    )
    assert abs(signal - point.qhat / 0.31) < 0.3 * point.qhat / 0.31
    assert benchmark.stats["min"] <= 0.3
    assert ratio >= 3000


def test_hardmax_curve_with_tables_built(benchmark):
    """256 points once the table exists."""
    hardmax_point()
    model = StateEvolution(make_prior(0.5), HardmaxChannel(2))
    curve = benchmark.pedantic(
        lambda: StateEvolution(model.prior, model.channel).curve(np.linspace(0, 2, 256)), rounds=5
    )
    assert curve.ok


def test_softmax_diagram(benchmark):
    """100 x 100 widths and alphas: at most 5 s."""
    widths, alphas = np.linspace(0.02, 2, 100), np.linspace(0, 0.3, 100)
    diagram = benchmark.pedantic(phase_diagram, args=("softmax", 2, widths, alphas), rounds=1)
    assert diagram.status == "complete"
    assert benchmark.stats["min"] <= 5


@pytest.mark.parametrize("digits", [25, 1000])
def test_threshold_digits(benchmark, digits):
    found = benchmark(threshold, channel="hardmax", kind="weak", width=0, digits=digits)
    assert found.digits.startswith("0.40341062903759930451747")
