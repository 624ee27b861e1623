"""Runs of online SGD at finite d: several seeds, observables along the way, interruption and divergence."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.checks import check_integer, check_positive
from aimtheory.errors import InputError
from aimtheory.hierarchy import views
from aimtheory.hierarchy.observables import Observable, OverlapReader, read_observables
from aimtheory.model import AttentionModel
from aimtheory.progress import Progress
from aimtheory.simulate.context_tokens import ContextTokens
from aimtheory.simulate.gaussian_tokens import float_type, spare_thread
from aimtheory.simulate.online_sgd import OnlineSgd
from aimtheory.simulate.parameters import (
    Matrices,
    check_parameters,
    extensive_ranks,
    initial_parameters,
    moving_letters,
    seed_streams,
)
from aimtheory.simulate.run_arguments import (
    seed_roots,
    snap_times,
    spectral_views,
    step_counts,
)
from aimtheory.simulate.sgd_run import SgdRun
from aimtheory.simulate.word_traces import WordTraces
from aimtheory.status import Ending, Status
from aimtheory.words import Letter, Word

_NOISE_LIMIT = 0.05
"""learning_rate x d / batch above which a note says that gradient noise biases the comparison with the limit."""

_CONCENTRATION_NOTE = 0.3


def sgd(
    model: AttentionModel,
    *,
    dim: int,
    learning_rate: float,
    times: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    batch: int = 256,
    seed: int | None = None,
    seeds: Iterable[int] | None = None,
    rng: np.random.Generator | None = None,
    observables: Iterable[str | Word | Observable] | None = None,
    initial: Mapping[str, ArrayLike] | None = None,
    eigenvalues: Iterable[str] = (),
    snapshots: bool = False,
    dtype: str = "float32",
    loss_samples: int = 4096,
    check: bool = True,
    progress: Progress | None = None,
) -> SgdRun:
    r"""Simulate online SGD with a fresh batch a step, [D] (7), and measure traces of words along the way.

        theta <- theta - alpha_d grad_theta mean_b L(G^b) - (alpha_d gamma / d) theta,
        G_ijk = x_i^T S_k x_j / sqrt(d)  (minus C_ij Tr S_k / sqrt(d) when the model is centred),  x ~ N(0, C x 1_d).

    Time is t = n x clock x learning_rate / d (clock 4 for tied attention). Give either ``times``,
    increasing from 0 and rounded to whole steps, or ``steps``: a number of steps, or increasing step counts from 0.
    One run each of ``seeds`` (or one ``seed``, or one seeded from ``rng``; default seed 0): a seed fixes the initial
    matrices and all tokens, whatever is measured. ``initial`` gives parameter matrices by letter name (``{"W1": ...,
    "W2": ...}``) instead of drawing them from the laws.

    ``observables`` are the names that theories use: ``t_1``, ``q_12``, ``p_12``, any ``tr(S1 S2)``; traces are
    evaluated in float64 on the d x d matrices. ``loss`` is the mean loss of ``loss_samples`` fresh samples, which do
    not disturb the run; it estimates Phi up to sampling noise and O(d^{-1/2}). ``eigenvalues`` names symmetric views
    (``"S1"``) whose spectra are kept at every time.

    ``batch`` is the number of samples a step; a single one, as in online SGD proper, leaves a gradient noise of
    relative order learning_rate x d.

    Cost of a step: one matrix product of (batch L) x d x r forward and one backward for each trained factor; a fixed
    symmetric S_k costs O(batch L^2 d), because tokens are drawn in its eigenbasis. Memory O(d^2 + batch L (d + r)):
    no d x d x batch array. Same seed, same numbers.

    Exact at finite d up to rounding. Against the limit d -> infinity it differs by fluctuations O(1/d) of the initial
    traces (seen in the spread over seeds), by the non-Gaussian part of the forms O(d^{-1/2}) at most, and by gradient
    noise O(learning_rate d / batch), which ``status.notes`` reports when large. A NaN gives status ``diverged`` with
    its time, Ctrl-C status ``interrupted``, both with everything reached.

    Raises ``InputError`` for arguments out of range and ``AssumptionError`` when an S_k is not of extensive rank at
    this dim (unless ``check=False``).

    >>> import aimtheory as aim
    >>> run = sgd(aim.models.load("tied-softmax"), dim=40, learning_rate=0.05, batch=32, times=[0, 0.5], seeds=range(3))
    >>> run["p_12"].shape, run.values["p_12"].shape, run.status.code
    ((2,), (3, 2), 'complete')
    """
    dim = check_integer(dim, "dim", 2)
    batch = check_integer(batch, "batch", 1)
    loss_samples = check_integer(loss_samples, "loss_samples", 1)
    rate = check_positive(learning_rate, "learning_rate")
    if not model.trained_letters:
        raise InputError(
            "no parameter of the model is trained, so there is nothing to simulate; set trained=True on one"
        )
    unit = float(model.clock) * rate / dim
    counts = step_counts(times, steps, unit)
    kind = float_type(dtype)
    labels, roots = seed_roots(seed, seeds, rng)
    letters = views(model)
    chosen = read_observables(observables, model, letters)
    spectra = spectral_views(eigenvalues, letters)
    given = None if initial is None else check_parameters(model, initial, dim)

    shape = (len(roots), len(counts))
    recorder = _Recorder(
        observables=chosen,
        values={one.name: np.full(shape, np.nan) for one in chosen},
        eigenvalues={str(view): np.full((*shape, dim), np.nan) for view in spectra},
        spectra=spectra,
        overlaps=OverlapReader.of(letters),
        loss_samples=loss_samples,
    )
    concentration: dict[str, float] = {}
    finals: list[Matrices] = []
    kept: list[tuple[Matrices, ...]] = []
    diverged: dict[int, float] = {}
    code, done, spent, flops = Ending.COMPLETE, 0, 0.0, 0
    total = int(counts[-1]) * len(roots)
    report = _throttled(progress, unit)
    for row, root in enumerate(roots):
        streams = seed_streams(root)
        snapshot: list[Matrices] = []
        state: OnlineSgd | None = None
        step = 0
        try:
            start = initial_parameters(model, dim, root) if given is None else given
            if check:
                for name, ratio in extensive_ranks(model, start, dim).items():
                    concentration[name] = max(ratio, concentration.get(name, 0.0))
            state = OnlineSgd(model, start, dim, rate, batch, kind)
            flops = int(state.flops_per_sample * batch)
            tokens = ContextTokens(model, dim, batch, kind, streams[1], background=spare_thread())
            samples = ContextTokens(model, dim, min(loss_samples, 256), kind, streams[2], everywhere=True)
            traces = WordTraces(letters, moving_letters(model), dim)
            finite = True
            with np.errstate(over="ignore", invalid="ignore"):
                for column, target in enumerate(counts):
                    began = clock.perf_counter()
                    while step < target and finite:
                        finite = state.step(tokens())
                        step += finite
                        report(done + step, total)
                    spent += clock.perf_counter() - began
                    if finite:
                        finite = recorder.record(row, column, state, traces, samples)
                    if not finite:
                        diverged[row] = step * unit
                        break
                    if snapshots:
                        snapshot.append(state.original())
        except KeyboardInterrupt:
            code = Ending.INTERRUPTED
        done += step
        if state is not None:
            finals.append(state.original())
            kept.append(tuple(snapshot))
        if code is Ending.INTERRUPTED:
            break
    if diverged and code is Ending.COMPLETE:
        code = Ending.DIVERGED
    return SgdRun(
        model=model,
        dim=dim,
        learning_rate=rate,
        batch=batch,
        dtype=kind.name,
        seeds=labels,
        times=snap_times(counts, unit, times),
        steps=counts,
        values=recorder.values,
        status=Status(code, _notes(diverged, labels, rate * dim / batch, concentration)),
        loss_samples=loss_samples,
        concentration=concentration,
        eigenvalues=recorder.eigenvalues,
        matrices=tuple(finals),
        snapshots=tuple(kept) if snapshots else (),
        diverged_at=diverged,
        steps_done=done,
        seconds=spent,
        flops_per_step=flops,
    )


class _Recorder:
    """Writes the observables of a state into tables of shape (seeds, times)."""

    def __init__(
        self,
        observables: Sequence[Observable],
        values: dict[str, NDArray[np.float64]],
        eigenvalues: dict[str, NDArray[np.float64]],
        spectra: Sequence[Letter],
        overlaps: OverlapReader,
        loss_samples: int,
    ) -> None:
        self.observables = observables
        self.values = values
        self.eigenvalues = eigenvalues
        self.spectra = spectra
        self.overlaps = overlaps
        self.loss_samples = loss_samples

    def record(self, row: int, column: int, state: OnlineSgd, traces: WordTraces, samples: ContextTokens) -> bool:
        """Measure; False when a value is not finite, and then nothing is written."""
        traces.load({name: state.parameters[name] for name in state.letters})
        reading = _MatrixReading(traces, self.overlaps, state, samples, self.loss_samples)
        found = {one.name: float(one.evaluate(reading)) for one in self.observables}
        if not all(math.isfinite(value) for value in found.values()):
            return False
        for name, value in found.items():
            self.values[name][row, column] = value
        for letter in self.spectra:
            self.eigenvalues[str(letter)][row, column] = np.linalg.eigvalsh(traces.matrix(letter))
        return True


@dataclass(frozen=True)
class _MatrixReading:
    """The matrices of a simulated state, as observables read them."""

    traces: WordTraces
    overlaps: OverlapReader
    state: OnlineSgd
    samples: ContextTokens
    loss_samples: int

    def moments(self, words: Sequence[Word]) -> NDArray[np.float64]:
        """Traces of the matrices."""
        return self.traces(words)

    def mean(self, k: int) -> float:
        """Tr S_k/sqrt(d)."""
        return float(self.overlaps.traces[k](self.traces)) * math.sqrt(self.traces.dim)

    def loss(self) -> float:
        """The mean loss of fresh samples."""
        return _sampled_loss(self.state, self.samples, self.loss_samples)


def _sampled_loss(state: OnlineSgd, samples: ContextTokens, count: int) -> float:
    total, left = 0.0, count
    while left > 0:
        size = min(samples.batch, left)
        total += state.mean_loss([tokens[:size] for tokens in samples()]) * size
        left -= size
    return total / count


def _throttled(progress: Progress | None, unit: float) -> Callable[[int, int], None]:
    if progress is None:
        return lambda *_: None
    last = [clock.perf_counter()]

    def report(done: int, total: int) -> None:
        now = clock.perf_counter()
        if now - last[0] > 0.1 or done == total:
            last[0] = now
            progress(done * unit, total * unit)

    return report


def _notes(
    diverged: Mapping[int, float], labels: Sequence[int | None], noise: float, concentration: Mapping[str, float]
) -> tuple[str, ...]:
    notes = [f"seed {labels[row]} diverged at t = {time:.4g}" for row, time in diverged.items()]
    if diverged:
        notes.append("Lower the learning rate, raise batch, or add weight decay")
    if noise > _NOISE_LIMIT:
        notes.append(
            f"learning_rate x dim / batch = {noise:.3g}: gradient noise of this relative order biases a "
            "comparison with the limit; lower the learning rate or raise batch"
        )
    notes += [
        f"||{name}||_op / ||{name}||_F = {ratio:.2g} at the start: the forms are only roughly Gaussian at this dim"
        for name, ratio in concentration.items()
        if ratio > _CONCENTRATION_NOTE
    ]
    return tuple(notes)


__all__ = ["sgd"]
