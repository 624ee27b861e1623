"""Gradient descent and averaged gradient descent on the data of a teacher ([B], its numerical experiments).

The student S = W W^T / sqrt(r d) starts from W with N(0, 1) entries and follows full-batch Adam on the squared error
sum_mu sum (y_hat - y)^2; its forms are centred by its own trace. Averaged gradient descent is the mean of S over
independent initializations on the same data. Gradients are analytic, with Z = X W:

    h_ab = (Z_a . Z_b / sqrt(r d) - delta_ab |W|^2 / sqrt(r d)) / sqrt(d),    G = dloss/dh  (T x T a sample),
    dloss/dW = ( X^T [(G + G^T) Z] - 2 (sum_mu Tr G) W ) / (sqrt(r d) sqrt(d)).
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import Channel, StateEvolution, make_channel
from aimtheory.checks import check_integer, check_positive
from aimtheory.errors import InputError
from aimtheory.progress import Progress
from aimtheory.simulate.gaussian_tokens import FloatArray, float_type
from aimtheory.simulate.gradient_descent_run import GradientDescentRun
from aimtheory.simulate.output_loss import OutputLoss, output_loss
from aimtheory.simulate.run_arguments import seed_roots
from aimtheory.simulate.teacher_data import check_memory_limit, law_priors, sample_count, teacher_data
from aimtheory.simulate.token_blocks import TokenBlocks
from aimtheory.spectra import bayes_wishart
from aimtheory.spectra.law import to_float
from aimtheory.status import Ending, Status


def loss_and_gradient_of_factor(
    factor: FloatArray, tokens: TokenBlocks, loss: OutputLoss, scale: float
) -> tuple[float, FloatArray]:
    """Loss over the whole data set and its gradient by W (d, r), for S = scale W W^T; 4 n T d r flops.

    ``scale`` is 1/sqrt(r d) for the prior of [B]. Exact up to rounding.
    """
    dim = tokens.dim
    unit = scale / math.sqrt(dim)
    kind = factor.dtype.type
    square = float(np.vdot(factor, factor))
    total, diagonal = 0.0, 0.0
    gradient = np.zeros_like(factor)
    for rows, block in tokens:
        count, samples, _ = block.shape
        flat = block.reshape(-1, dim)
        product = (flat @ factor).reshape(count, samples, -1)
        # Batch last in memory, so that the loss runs over the batch.
        forms = np.empty((count, count, samples), dtype=factor.dtype)
        for a in range(count):
            for b in range(a, count):
                np.vecdot(product[a], product[b], out=forms[a, b])
                if a == b:
                    forms[a, a] -= kind(square)
                else:
                    forms[b, a] = forms[a, b]
        forms *= kind(unit)
        value, cotangent = loss.value_and_cotangent(forms.transpose(2, 0, 1), rows)
        total += value
        diagonal += float(np.einsum("caa->", cotangent, dtype=np.float64))
        symmetric = (cotangent + cotangent.transpose(0, 2, 1)) * kind(unit)
        pulled = np.empty_like(product)
        scratch = np.empty_like(product[0])
        for a in range(count):
            np.multiply(symmetric[:, a, 0, None], product[0], out=pulled[a])
            for b in range(1, count):
                np.multiply(symmetric[:, a, b, None], product[b], out=scratch)
                pulled[a] += scratch
        gradient += flat.T @ pulled.reshape(len(flat), -1)
    gradient -= kind(2 * diagonal * unit) * factor
    return total, gradient


class Adam:
    """Adam (Kingma and Ba, 2015) with the usual betas (0.9, 0.999) and epsilon 1e-8, in place on one array."""

    def __init__(self, parameter: FloatArray, learning_rate: float) -> None:
        self.parameter, self.learning_rate = parameter, learning_rate
        self.first, self.second = np.zeros_like(parameter), np.zeros_like(parameter)
        self.steps = 0

    def step(self, gradient: FloatArray) -> None:
        """One step along the bias-corrected moments."""
        kind = self.parameter.dtype.type
        self.steps += 1
        self.first *= kind(0.9)
        self.first += kind(0.1) * gradient
        self.second *= kind(0.999)
        self.second += kind(0.001) * gradient * gradient
        correction = math.sqrt(1 - 0.999**self.steps)
        spread = np.sqrt(self.second)
        spread /= kind(correction)
        spread += kind(1e-8)
        self.parameter -= kind(self.learning_rate / (1 - 0.9**self.steps)) * self.first / spread


def gradient_descent(
    channel: str | Channel = "softmax",
    *,
    tokens: int | None = None,
    width: object,
    alpha: float,
    dim: int,
    initializations: int = 32,
    steps: int = 1000,
    checkpoints: Sequence[int] | None = None,
    learning_rate: float = 0.1,
    seed: int | None = None,
    seeds: Iterable[int] | None = None,
    rng: np.random.Generator | None = None,
    dtype: str = "float32",
    memory_limit: float = 4.0,
    predict: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> GradientDescentRun:
    """Train students of the teacher's width by full-batch Adam, and average them over ``initializations`` ([B]).

    ``channel`` is softmax (any T and inverse temperature) or linear; n = round(alpha d^2). A seed fixes teacher, data
    and the initializations. ``checkpoints`` are increasing step counts up to ``steps`` (default: the last step alone).
    The defaults are those of [B]: learning rate 0.1, 1000 steps, 32 initializations.

    Cost a step and initialization: 4 n T d r flops, memory O(n T d). Exact at finite d; that the average follows the
    Bayes-optimal error is an observation of [B], not a theorem. Ctrl-C keeps the finished initializations. Raises
    ``InputError`` for arguments out of range and for channels without a derivative (hardmax, sign).

    >>> run = gradient_descent("softmax", width=0.5, alpha=0.3, dim=20, initializations=3, steps=50)
    >>> run.single.shape, run.averaged.shape, bool(run.averaged_mse < run.mse)
    ((1, 3, 1), (1, 1), True)
    """
    built = make_channel(channel, tokens, **options)
    if built.indices != 1:
        raise InputError(f"gradient descent trains one matrix; the channel sees {built.indices}")
    (prior,) = law_priors(built, width)
    law = bayes_wishart(width)
    dim = check_integer(dim, "dim", 2)
    rank = law.columns(dim)
    samples = sample_count(alpha, dim)
    count = check_integer(initializations, "initializations", 1)
    marks = _checkpoints(check_integer(steps, "steps", 1), checkpoints)
    rate = check_positive(learning_rate, "learning_rate")
    limit = check_memory_limit(memory_limit)
    kind = float_type(dtype)
    labels, roots = seed_roots(seed, seeds, rng)
    output_loss(built, built.sample(np.zeros((1, built.pairs)), np.random.default_rng(0)), kind)

    shape = (len(roots), count, len(marks))
    single, losses = np.full(shape, np.nan), np.full(shape, np.nan)
    averaged = np.full((len(roots), len(marks)), np.nan)
    averages: list[NDArray[np.float64]] = []
    teachers: list[NDArray[np.float64]] = []
    scale = to_float(law.trace, "trace") / rank
    total = len(roots) * count * int(marks[-1])
    code = Ending.COMPLETE
    began = clock.perf_counter()
    for row, root in enumerate(roots):
        try:
            data = teacher_data(built, (prior,), alpha=float(alpha), dim=dim, seed=root, dtype=kind, memory_limit=limit)
            loss = output_loss(built, data.outputs, kind)
            teacher = data.teachers[0]
            sums = np.zeros((len(marks), dim, dim))
            finished = 0
            teachers.append(teacher)
            for number in range(count):
                stream = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 3, number))
                factor = np.random.default_rng(stream).standard_normal((dim, rank)).astype(kind)
                done = (row * count + number) * int(marks[-1])
                students, found = _descend(factor, data.tokens, loss, scale, rate, marks, done, total, progress)
                if students is None:
                    code = Ending.DIVERGED if code == Ending.COMPLETE else code
                    continue
                sums += students
                finished += 1
                single[row, number] = ((students - teacher) ** 2).sum(axis=(1, 2)) / dim
                losses[row, number] = found / samples
                averaged[row] = ((sums / finished - teacher) ** 2).sum(axis=(1, 2)) / dim
        except KeyboardInterrupt:
            code = Ending.INTERRUPTED
        if len(teachers) > len(averages) and np.isfinite(averaged[row, -1]):
            averages.append(sums[-1] / finished)
        if code == Ending.INTERRUPTED:
            break
    spent = clock.perf_counter() - began
    theory = math.nan
    if predict and code != Ending.INTERRUPTED:
        theory = float(StateEvolution(prior, built).solve(samples / dim**2).mmse)
    return GradientDescentRun(
        channel=built,
        prior=prior,
        alpha=samples / dim**2,
        dim=dim,
        samples=samples,
        rank=rank,
        learning_rate=rate,
        dtype=kind.name,
        seeds=labels,
        initializations=count,
        steps=marks,
        single=single,
        losses=losses,
        averaged=averaged,
        theory=theory,
        status=Status(code),
        averages=tuple(averages),
        teachers=tuple(teachers),
        seconds=spent,
    )


def _descend(
    factor: FloatArray,
    tokens: TokenBlocks,
    loss: OutputLoss,
    scale: float,
    rate: float,
    marks: NDArray[np.int64],
    done: int,
    total: int,
    progress: Progress | None,
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64]]:
    """Students S (checkpoints, d, d) and their losses; None when a number was not finite."""
    adam = Adam(factor, rate)
    students = np.empty((len(marks), len(factor), len(factor)))
    found = np.empty(len(marks))
    place = 0
    for step in range(int(marks[-1]) + 1):
        if step == marks[place]:
            exact = factor.astype(np.float64)
            students[place] = scale * (exact @ exact.T)
            found[place] = loss_and_gradient_of_factor(factor, tokens, loss, scale)[0]
            if not (np.isfinite(found[place]) and np.isfinite(students[place]).all()):
                return None, found
            place += 1
            if place == len(marks):
                break
        adam.step(loss_and_gradient_of_factor(factor, tokens, loss, scale)[1])
        if progress is not None and step % 10 == 9:
            progress(done + step + 1, total)
    return students, found


def _checkpoints(steps: int, checkpoints: Sequence[int] | None) -> NDArray[np.int64]:
    if checkpoints is None:
        return np.array([steps])
    marks = np.asarray(checkpoints)
    if marks.ndim != 1 or marks.size == 0 or marks.dtype.kind not in "iu":
        raise InputError(f"checkpoints = {checkpoints!r} must be a list of step counts such as [100, 1000]")
    if marks[0] < 0 or np.any(np.diff(marks) <= 0) or marks[-1] > steps:
        raise InputError(f"checkpoints must increase within 0..steps = {steps}; got {marks.tolist()}")
    return marks.astype(np.int64) if marks[-1] == steps else np.append(marks, steps).astype(np.int64)


__all__ = ["Adam", "gradient_descent", "loss_and_gradient_of_factor"]
