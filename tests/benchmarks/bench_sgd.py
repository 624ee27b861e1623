"""Online SGD against plain PyTorch autograd with the same threads, against the machine's matrix product, and its
memory.

Run with ``pytest tests/benchmarks/bench_sgd.py``; PyTorch is not a dependency of the project, its part is skipped
without it. Ratios are of the fastest step of interleaved blocks, since a busy machine only ever adds time; they are
in ``extra_info`` with the medians.
"""

import os
import time
import tracemalloc

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.simulate import OnlineSgd, initial_parameters, sgd
from aimtheory.simulate.gaussian_tokens import GaussianTokens, spare_thread

DIM, BATCH, RATE = 400, 512, 0.01


def machine(dim=DIM, batch=BATCH, model="tied-softmax"):
    """The step that ``sgd`` repeats: draw a batch, forms, gradient, update."""
    model = aim.models.load(model)
    state = OnlineSgd(model, initial_parameters(model, dim, seed=0), dim, RATE, batch, "float32")
    stream = GaussianTokens(
        dim, model.covariance_matrix, batch, "float32", np.random.SeedSequence(1), background=spare_thread()
    )
    flops = state.flops_per_sample * batch
    return lambda: state.step(stream()), flops


def seconds(functions, blocks=12, repeats=20):
    """Fastest and median time of each function, measured in turn block by block."""
    times = [[] for _ in functions]
    for _ in range(blocks):
        for function, found in zip(functions, times, strict=True):
            function()
            for _ in range(repeats):
                start = time.perf_counter()
                function()
                found.append(time.perf_counter() - start)
            time.sleep(0.05)  # lets idle threads of one library go to sleep before the other is timed
    return [(min(found), float(np.median(found))) for found in times]


def torch_step(torch):
    """The same model in PyTorch: centred tied forms, row softmax, half squared error, autograd, in-place update."""
    d, L = DIM, 2
    torch.manual_seed(0)
    W = (torch.randn(d, d) / d**0.5).requires_grad_(True)
    teacher = torch.randn(d, d) / d**0.5
    identity = torch.eye(L)

    def forms(x, matrix):
        z = x @ matrix
        return (z @ z.transpose(1, 2) - identity * (matrix * matrix).sum()) / d**0.5

    def step():
        x = torch.randn(BATCH, L, d)
        with torch.no_grad():
            target = torch.softmax(forms(x, teacher), dim=-1)
        loss = 0.5 * ((torch.softmax(forms(x, W), dim=-1) - target) ** 2).sum(dim=(1, 2)).mean()
        loss.backward()
        with torch.no_grad():
            W.sub_(RATE * W.grad)
        W.grad = None

    return step


def test_step_against_torch_autograd(benchmark):
    torch = pytest.importorskip("torch")
    ours, _ = machine()
    theirs = torch_step(torch)
    (mine, mine_median), (other, other_median) = seconds([ours, theirs])
    benchmark.extra_info.update(
        threads=torch.get_num_threads(),
        ratio=other / mine,
        ratio_of_medians=other_median / mine_median,
        milliseconds=1e3 * mine,
        torch_milliseconds=1e3 * other,
    )
    print(f"\n  step {1e3 * mine:.2f} ms, torch {1e3 * other:.2f} ms: {other / mine:.2f} times faster", end="")
    print(f" (medians {1e3 * mine_median:.2f} and {1e3 * other_median:.2f} ms; {torch.get_num_threads()} threads)")
    benchmark.pedantic(ours, rounds=20)
    assert other / mine >= 1.4


def test_step_against_matrix_products(benchmark):
    """Flops of the products that a step needs, over its time, against the rate of one such product alone."""
    ours, flops = machine()
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((2 * BATCH, DIM), dtype=np.float32)
    matrix = rng.standard_normal((DIM, DIM), dtype=np.float32)
    out = np.empty((2 * BATCH, DIM), dtype=np.float32)
    (mine, mine_median), (product, product_median) = seconds([ours, lambda: np.matmul(tokens, matrix, out=out)])
    peak = 2 * tokens.size * DIM / product
    fraction = flops / mine / peak
    benchmark.extra_info.update(
        fraction=fraction,
        fraction_of_medians=flops / mine_median / (2 * tokens.size * DIM / product_median),
        gigaflops=flops / mine / 1e9,
        product_gigaflops=peak / 1e9,
    )
    print(f"\n  {flops / mine / 1e9:.0f} of {peak / 1e9:.0f} Gflop/s: {fraction:.2f}")
    benchmark.pedantic(ours, rounds=20)
    # Drawing tokens and the loss run on one core, which counts for more when the products have several.
    assert fraction >= (0.6 if os.environ.get("OMP_NUM_THREADS") == "1" else 0.5)


@pytest.mark.parametrize("model", ["untied-hermite2", "direct-hermite2", "tied-hermite2"])
def test_step_of_other_models(benchmark, model):
    ours, flops = machine(model=model)
    benchmark.pedantic(ours, rounds=30, warmup_rounds=2)
    benchmark.extra_info["gigaflops"] = flops / benchmark.stats.stats.min / 1e9


def test_step_with_batch_one(benchmark):
    ours, _ = machine(batch=1)
    benchmark.pedantic(ours, rounds=300, warmup_rounds=5)


def test_memory(benchmark):
    model = aim.models.load("tied-softmax")
    sgd(model, dim=DIM, learning_rate=RATE, batch=8, steps=1, loss_samples=8)
    tracemalloc.start()
    sgd(model, dim=DIM, learning_rate=RATE, batch=BATCH, steps=2, observables=["p_12"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    benchmark.extra_info.update(megabytes=peak / 1e6, all_outer_products=4 * DIM * DIM * BATCH / 1e6)
    print(f"\n  peak {peak / 1e6:.1f} MB; a d x d x batch array would take {4 * DIM * DIM * BATCH / 1e6:.0f} MB")
    benchmark.pedantic(lambda: None, rounds=1)
    assert peak < 40 * 4 * (DIM * DIM + BATCH * 2 * DIM)
