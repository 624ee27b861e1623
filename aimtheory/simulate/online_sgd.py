"""Online stochastic gradient descent of an attention-indexed model at finite d ([D] (7))."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError
from aimtheory.hierarchy import Views, views
from aimtheory.hierarchy.observables import default_observables, named_observable
from aimtheory.model import AttentionModel
from aimtheory.simulate.gaussian_tokens import FloatArray, GaussianTokens, float_type, spare_thread
from aimtheory.simulate.parameters import (
    Matrices,
    WorkingBasis,
    build_forms,
    check_parameters,
    extensive_ranks,
    initial_parameters,
    model_letters,
    moving_letters,
    seed_streams,
)
from aimtheory.simulate.run_status import COMPLETE, DIVERGED, INTERRUPTED, RunStatus
from aimtheory.simulate.sgd_run import SgdRun
from aimtheory.simulate.word_traces import WordTraces
from aimtheory.words import Letter, Word, trace_name

Progress = Callable[[float, float], None]
"""Called with (time done over all seeds, time to do)."""

_CHUNK_ROWS = 1 << 12
"""Tokens that go through the matrix products at once; larger batches are summed over chunks, so that memory does not
grow.
"""

_NOISE_LIMIT = 0.05
"""learning_rate x d / batch above which a note says that gradient noise biases the comparison with the limit."""

_CONCENTRATION_NOTE = 0.3


class OnlineSgd:
    """The state of one run: parameters theta that step by -learning_rate (grad of the batch mean loss) -
    (learning_rate gamma / d) theta.

    ``step(tokens)`` makes one step on tokens of shape (batch, L, d) given in the working basis; ``parameters`` are
    the matrices there, changed in place. Flops a step: ``forms.flops_per_row`` x batch x L.
    """

    def __init__(
        self, model: AttentionModel, parameters: Matrices, dim: int, learning_rate: float, batch: int, dtype: object
    ) -> None:
        self.model = model
        self.dtype = float_type(dtype)
        self.letters = model_letters(model)
        self.basis = WorkingBasis.of(model, parameters, dim)
        rotated = self.basis.enter(parameters, self.letters)
        self.parameters: dict[str, FloatArray] = {
            name: np.ascontiguousarray(matrix, dtype=self.dtype) for name, matrix in rotated.items()
        }
        self.chunk = max(1, min(batch, _CHUNK_ROWS // model.tokens))
        self.forms = build_forms(model, self.parameters, dim, self.chunk * model.tokens, self.dtype, working=self.basis)
        self.rate = learning_rate
        self.decay = 1 - learning_rate * float(model.weight_decay) / dim

    def gradient(self, tokens: FloatArray) -> tuple[dict[str, FloatArray], bool]:
        """Gradient of the batch mean loss by every moving letter, and whether all forms were finite."""
        batch = len(tokens)
        total: dict[str, FloatArray] = {}
        for start in range(0, batch, self.chunk):
            forms = self.forms.forward(tokens[start : start + self.chunk])
            if not np.isfinite(forms).all():
                return total, False
            cotangent = self.model.loss.gradient(forms)
            cotangent *= self.dtype.type(1 / batch)
            for name, term in self.forms.backward(cotangent).items():
                if name in total:
                    total[name] += term
                else:
                    total[name] = term
        return total, True

    def step(self, tokens: FloatArray) -> bool:
        """One step; False, with nothing changed, when a form was not finite."""
        gradient, finite = self.gradient(tokens)
        if finite:
            for name, term in gradient.items():
                matrix = self.parameters[name]
                if self.decay != 1:
                    matrix *= self.dtype.type(self.decay)
                term *= self.dtype.type(self.rate)
                matrix -= term
        return finite

    def mean_loss(self, tokens: FloatArray) -> float:
        """The loss averaged over tokens of shape (samples, L, d)."""
        parts = [
            self.model.loss.value(self.forms.forward(tokens[start : start + self.chunk]))
            for start in range(0, len(tokens), self.chunk)
        ]
        return float(np.concatenate(parts).mean(dtype=np.float64))

    def original(self) -> Matrices:
        """The parameter matrices in the basis in which they were given, float64."""
        return self.basis.leave({name: self.parameters[name] for name in self.letters}, self.letters)


def sgd(
    model: AttentionModel,
    *,
    dim: int,
    learning_rate: float,
    times: ArrayLike | None = None,
    steps: ArrayLike | None = None,
    batch: int = 1,
    seed: int | None = None,
    seeds: Iterable[int] | None = None,
    rng: np.random.Generator | None = None,
    observables: Iterable[str | Word] | None = None,
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

    Time is t = n x time_factor x learning_rate / d (time_factor 4 for tied attention). Give either ``times``,
    increasing from 0 and rounded to whole steps, or ``steps``: a number of steps, or increasing step counts from 0.
    One run each of ``seeds`` (or one ``seed``, or one seeded from ``rng``; default seed 0): a seed fixes the initial
    matrices and all tokens, whatever is measured. ``initial`` gives parameter matrices by letter name (``{"W1": ...,
    "W2": ...}``) instead of drawing them from the laws.

    ``observables`` are the names that theories use: ``t_1``, ``q_12``, ``p_12``, any ``tr(S1 S2)``; traces are
    evaluated in float64 on the d x d matrices. ``loss`` is the mean loss of ``loss_samples`` fresh samples, which do
    not disturb the run; it estimates Phi up to sampling noise and O(d^{-1/2}). ``eigenvalues`` names symmetric views
    (``"S1"``) whose spectra are kept at every time.

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
    dim = _integer(dim, "dim", 2)
    batch = _integer(batch, "batch", 1)
    loss_samples = _integer(loss_samples, "loss_samples", 1)
    rate = _positive(learning_rate, "learning_rate")
    if not any(model.trainable):
        raise InputError(
            "no index of the model is trainable, so there is nothing to simulate; set trainable=True on one"
        )
    unit = float(model.time_factor) * rate / dim
    counts = _step_counts(times, steps, unit)
    kind = float_type(dtype)
    labels, roots = _seeds(seed, seeds, rng)
    letters = views(model)
    names = _names(observables, model)
    for name in names:
        if name != "loss":
            named_observable(name, model, letters)
    spectra = _spectra(eigenvalues, letters)
    given = None if initial is None else check_parameters(model, initial, dim)

    shape = (len(roots), len(counts))
    recorder = _Recorder(
        values={name: np.full(shape, np.nan) for name in names},
        eigenvalues={str(view): np.full((*shape, dim), np.nan) for view in spectra},
        spectra=spectra,
        model=model,
        views=letters,
    )
    concentration: dict[str, float] = {}
    finals: list[Matrices] = []
    kept: list[tuple[Matrices, ...]] = []
    diverged: dict[int, float] = {}
    code, done, spent, flops = COMPLETE, 0, 0.0, 0
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
            flops = state.forms.flops_per_row * batch * model.tokens
            tokens = GaussianTokens(dim, model.covariance_matrix, batch, kind, streams[1], background=spare_thread())
            samples = GaussianTokens(dim, model.covariance_matrix, min(loss_samples, 256), kind, streams[2])
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
                        finite = recorder.record(row, column, state, traces, samples, loss_samples)
                    if not finite:
                        diverged[row] = step * unit
                        break
                    if snapshots:
                        snapshot.append(state.original())
        except KeyboardInterrupt:
            code = INTERRUPTED
        done += step
        if state is not None:
            finals.append(state.original())
            kept.append(tuple(snapshot))
        if code == INTERRUPTED:
            break
    if diverged and code == COMPLETE:
        code = DIVERGED
    return SgdRun(
        model=model,
        dim=dim,
        learning_rate=rate,
        batch=batch,
        dtype=kind.name,
        seeds=labels,
        times=_snap(counts, unit, times),
        steps=counts,
        values=recorder.values,
        status=RunStatus(code, _notes(diverged, labels, rate * dim / batch, concentration)),
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
        values: dict[str, NDArray[np.float64]],
        eigenvalues: dict[str, NDArray[np.float64]],
        spectra: Sequence[Letter],
        model: AttentionModel,
        views: Views,
    ) -> None:
        self.values = values
        self.eigenvalues = eigenvalues
        self.spectra = spectra
        self.readers = {name: named_observable(name, model, views) for name in values if name != "loss"}

    def record(
        self, row: int, column: int, state: OnlineSgd, traces: WordTraces, samples: GaussianTokens, loss_samples: int
    ) -> bool:
        """Measure; False when a value is not finite, and then nothing is written."""
        traces.load({name: state.parameters[name] for name in state.letters})
        found = {name: float(reader(traces)) for name, reader in self.readers.items()}
        if "loss" in self.values:
            found["loss"] = _sampled_loss(state, samples, loss_samples)
        if not all(math.isfinite(value) for value in found.values()):
            return False
        for name, value in found.items():
            self.values[name][row, column] = value
        for letter in self.spectra:
            self.eigenvalues[str(letter)][row, column] = np.linalg.eigvalsh(traces.matrix(letter))
        return True


def _sampled_loss(state: OnlineSgd, samples: GaussianTokens, count: int) -> float:
    total, left = 0.0, count
    while left > 0:
        tokens = samples()[:left]
        total += state.mean_loss(tokens) * len(tokens)
        left -= len(tokens)
    return total / count


def forms(
    model: AttentionModel,
    parameters: Mapping[str, ArrayLike],
    batch: int,
    rng: np.random.Generator,
    dtype: str = "float64",
) -> FloatArray:
    """The forms G of ``batch`` fresh samples at finite d, shape (batch, L, L, K): what Theorem 1 of [D] says is
    Gaussian.

    ``parameters`` maps letter names to matrices. Memory O(batch L (d + r)). Exact at finite d. Raises ``InputError``
    for matrices that do not fit.

    >>> import aimtheory as aim
    >>> model = aim.models.load("tied-softmax")
    >>> G = forms(model, initial_parameters(model, 20, seed=0), batch=7, rng=np.random.default_rng(1))
    >>> G.shape, bool(np.allclose(G, G.swapaxes(1, 2)))
    ((7, 2, 2, 2), True)
    """
    matrices, dim = _given(model, parameters)
    batch = _integer(batch, "batch", 1)
    seed = np.random.SeedSequence([int(n) for n in rng.integers(2**32, size=4)])
    tokens = GaussianTokens(dim, model.covariance_matrix, batch, dtype, seed)()
    return forms_of(model, matrices, tokens)


def forms_of(model: AttentionModel, parameters: Mapping[str, ArrayLike], tokens: ArrayLike) -> FloatArray:
    """The forms G of given tokens of shape (batch, L, d); shape (batch, L, L, K)."""
    matrices, dim = _given(model, parameters)
    array = _tokens(model, tokens, dim)
    typed: dict[str, FloatArray] = {name: matrix.astype(array.dtype) for name, matrix in matrices.items()}
    machine = build_forms(model, typed, dim, array.shape[0] * array.shape[1], array.dtype)
    return np.ascontiguousarray(machine.forward(array))


def loss_and_gradient(
    model: AttentionModel, parameters: Mapping[str, ArrayLike], tokens: ArrayLike
) -> tuple[float, dict[str, FloatArray]]:
    """The mean loss over given tokens of shape (batch, L, d), and its gradient by every trained letter; no weight
    decay.

    The gradient runs through the S_k of trainable indices alone. float32 tokens are computed in float32, all others
    in float64.

    >>> import aimtheory as aim
    >>> model = aim.models.load("tied-linear")
    >>> W = initial_parameters(model, 10, seed=0)
    >>> loss, gradient = loss_and_gradient(model, W, np.ones((1, 1, 10)))
    >>> sorted(gradient), gradient["W1"].shape
    (['W1'], (10, 10))
    """
    matrices, dim = _given(model, parameters)
    array = _tokens(model, tokens, dim)
    typed: dict[str, FloatArray] = {name: matrix.astype(array.dtype) for name, matrix in matrices.items()}
    machine = build_forms(model, typed, dim, array.shape[0] * array.shape[1], array.dtype)
    values = machine.forward(array)
    cotangent = model.loss.gradient(values) * array.dtype.type(1 / len(array))
    return float(model.loss.value(values).mean(dtype=np.float64)), machine.backward(cotangent)


def _given(model: AttentionModel, parameters: Mapping[str, ArrayLike]) -> tuple[Matrices, int]:
    matrices = check_parameters(model, parameters, None)
    for name, letter in model_letters(model).items():
        if letter.rows == "d":
            return matrices, matrices[name].shape[0]
        if letter.columns == "d":
            return matrices, matrices[name].shape[1]
    raise InputError("the parameters do not touch the embedding space, so its dimension is unknown")


def _tokens(model: AttentionModel, tokens: ArrayLike, dim: int) -> FloatArray:
    array = np.asarray(tokens)
    array = np.ascontiguousarray(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    if array.ndim != 3 or array.shape[1:] != (model.tokens, dim) or not len(array):
        raise InputError(f"tokens have shape {array.shape}; they must be (batch, {model.tokens}, {dim})")
    if not np.isfinite(array).all():
        raise InputError("tokens hold a NaN or an infinity")
    return array


def _integer(value: Any, name: str, lowest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest:
        raise InputError(f"{name} = {value!r} must be an integer of at least {lowest}")
    return int(value)


def _positive(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {value!r} is not a number") from None
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} = {value!r} must be a positive number")
    return number


def _step_counts(times: ArrayLike | None, steps: ArrayLike | None, unit: float) -> NDArray[np.int64]:
    if (times is None) == (steps is None):
        raise InputError("give either times=[0, ...] or steps=, not both and not neither")
    if steps is not None:
        numbers = np.asarray(steps)
        if numbers.ndim == 0:
            numbers = np.array([0, numbers.item()])
        if numbers.dtype.kind not in "iu":
            raise InputError(f"steps = {steps!r} must be integers")
        counts, what = numbers.astype(np.int64), "steps"
    else:
        try:
            grid = np.asarray(times, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"times = {times!r} is not a list of numbers") from None
        if grid.ndim != 1 or not grid.size:
            raise InputError(f"times has shape {grid.shape}; give a list such as [0, 0.5, 1]")
        if not np.isfinite(grid).all():
            raise InputError(f"times[{int(np.flatnonzero(~np.isfinite(grid))[0])}] is not finite")
        counts, what = np.rint(grid / unit).astype(np.int64), "times"
        if grid[0] == 0 and np.any((np.diff(grid) > 0) & (np.diff(counts) <= 0)):
            raise InputError(
                f"two times fall on the same step; one step is {unit:.3g} of time: lower learning_rate or space them"
            )
    if counts.ndim != 1 or not counts.size or counts[0] != 0 or np.any(np.diff(counts) <= 0):
        raise InputError(f"{what} must increase strictly and start at 0")
    return counts


def _snap(counts: NDArray[np.int64], unit: float, times: ArrayLike | None) -> NDArray[np.float64]:
    """Times as asked for where they are a whole number of steps up to rounding."""
    actual = np.asarray(counts * unit, dtype=np.float64)
    if times is None:
        return actual
    asked = np.asarray(times, dtype=np.float64)
    return np.where(np.isclose(asked, actual, rtol=1e-9, atol=0), asked, actual)


def _seeds(
    seed: int | None, seeds: Iterable[int] | None, rng: np.random.Generator | None
) -> tuple[tuple[int | None, ...], list[np.random.SeedSequence]]:
    if sum(option is not None for option in (seed, seeds, rng)) > 1:
        raise InputError("give one of seed=, seeds= and rng=")
    if rng is not None:
        if not isinstance(rng, np.random.Generator):
            raise InputError(f"rng = {rng!r} must be a numpy Generator, for instance numpy.random.default_rng(0)")
        return (None,), [np.random.SeedSequence([int(n) for n in rng.integers(2**32, size=4)])]
    chosen = [0 if seed is None else seed] if seeds is None else list(seeds)
    if not chosen:
        raise InputError("seeds is empty; give at least one")
    labels = tuple(_integer(value, "seed", 0) for value in chosen)
    if len(set(labels)) != len(labels):
        raise InputError(f"seeds = {labels} repeat; every seed must be a new one")
    return labels, [np.random.SeedSequence(value) for value in labels]


def _names(observables: Iterable[str | Word] | None, model: AttentionModel) -> tuple[str, ...]:
    if observables is None:
        return default_observables(model)
    if isinstance(observables, str):
        raise InputError(f"observables = {observables!r} is one name; give a list such as [{observables!r}]")
    names = tuple(dict.fromkeys(trace_name(item) if isinstance(item, Word) else item for item in observables))
    if not names:
        raise InputError("observables is empty; name at least one, or leave it out for the default ones")
    return names


def _spectra(names: Iterable[str], letters: Views) -> tuple[Letter, ...]:
    if isinstance(names, str):
        raise InputError(f"eigenvalues = {names!r} is one name; give a list such as [{names!r}]")
    known = {str(letter): letter for letter in letters.alphabet.letters if letter.symmetric}
    chosen = []
    for name in names:
        if name not in known:
            raise InputError(
                f"no symmetric matrix {name!r} whose eigenvalues could be kept; "
                f"this model has {', '.join(known) or 'none'}"
            )
        chosen.append(known[name])
    return tuple(chosen)


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


__all__ = ["OnlineSgd", "Progress", "forms", "forms_of", "loss_and_gradient", "sgd"]
