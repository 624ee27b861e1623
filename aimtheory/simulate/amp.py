"""Approximate message passing for attention-indexed models, without sensing matrices ([B], its AMP algorithm).

With X_ab = sym(x_a x_b^T - delta_ab 1)/sqrt(d), D_ab = 1 + delta_ab and h_ab = Tr(X_ab S), one iteration is

    omega_ab = Tr(X_ab S_hat) - D_ab V g_ab                          (forms of the estimate, with Onsager's correction)
    g_ab     = d log Z(y, omega, V) / d omega_ab                     (the channel)
    qhat     = 2 alpha < sum_{a<=b} D_ab g_ab^2 >
    R        = S_hat + 2/(d qhat) sum_mu sum_{a<=b} g_ab X_ab        (looks like S + Z/sqrt(qhat), Z a GOE)
    S_hat    = E[S | R],   V = MMSE(qhat)                            (the prior's spectral denoiser)

started from the prior mean tr(S) 1. Both linear maps are matrix products over blocks of tokens, joined in one pass over
the data: 4 n T d^2 flops and one d x d eigendecomposition an iteration, memory O(n d T) and less.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import (
    Channel,
    GeneralChannel,
    LawPrior,
    MultiIndexStateEvolution,
    StateEvolution,
    make_channel,
)
from aimtheory.checks import check_integer, check_positive
from aimtheory.errors import InputError, NumericsError
from aimtheory.progress import Progress
from aimtheory.simulate.amp_run import AMP_VALUES, AmpRun
from aimtheory.simulate.gaussian_tokens import float_type
from aimtheory.simulate.pair_forms import pair_forms, weighted_outer_sum
from aimtheory.simulate.run_arguments import seed_roots
from aimtheory.simulate.teacher_data import TeacherData, check_memory_limit, law_priors, sample_count, teacher_data
from aimtheory.simulate.token_blocks import TokenBlocks
from aimtheory.spectra import denoise_matrix
from aimtheory.status import Ending, Status

FloatArray = NDArray[np.float64]

_ROUNDING = 1e3
"""Multiples of the machine epsilon to which the forms are trusted: below its square V means exact recovery."""

_NISHIMORI_LIMIT = 20.0
"""|m - q| d / Q0 above which a note is made."""

_BLIND = 1e-12
"""qhat Q0 up to which the output is taken to say nothing."""

_WINDOW = 10
"""Iterations over which a plateau is judged."""

_PLATEAU_CHANGE = 0.3
"""Largest change, in units of sqrt(V/Q0), of a plateau; runs that lost the fixed point swing by more than 1."""

_PLATEAU_DRIFT = 0.02
"""Largest relative drift of the mean V from one window to the next on a plateau."""


class AmpState:
    """AMP on one data set: ``step()`` makes an iteration; works on data without a teacher.

    With ``damping`` c, omega and the V that enters the channel are c old + (1 - c) new: the fixed point is the same.
    ``estimates`` S_hat has shape (count, d, d), ``variance`` V and ``qhat`` shape (count,), ``omega`` and ``gradient``
    shape (n, count, P). ``change`` is the root mean square over samples of (new omega - old omega)/sqrt(D Q0), new
    omega taken before damping; infinite before the second iteration.
    """

    def __init__(
        self,
        channel: Channel,
        priors: Sequence[LawPrior],
        tokens: TokenBlocks,
        outputs: Any,
        damping: float = 0.0,
    ) -> None:
        if tokens.tokens != channel.tokens:
            raise InputError(f"the data has {tokens.tokens} tokens a sample, the channel {channel.tokens}")
        if len(outputs) != tokens.samples:
            raise InputError(f"{len(outputs)} outputs were given for {tokens.samples} samples")
        if not 0 <= damping < 1:
            raise InputError(f"damping = {damping} must lie in [0, 1): the weight of the old omega")
        self.channel, self.priors, self.tokens, self.outputs = channel, tuple(priors), tokens, outputs
        self.damping = float(damping)
        dim = tokens.dim
        self.estimates = np.stack([prior.mean * np.eye(dim) for prior in priors])
        self.variance = np.array([prior.second_moment - prior.mean_square for prior in priors])
        self.used_variance = self.variance.copy()
        self.second_moment = np.array([prior.second_moment for prior in priors])
        self.qhat = np.zeros(len(priors))
        shape = (tokens.samples, len(priors), channel.pairs)
        self.omega = np.zeros(shape)
        self.gradient = np.zeros(shape)
        self.change = math.inf
        self._started = False

    def step(self) -> bool:
        """One iteration; False, with the estimates unchanged, when a number was not finite."""
        count, dim, samples = len(self.priors), self.tokens.dim, self.tokens.samples
        multiplicity = self.channel.multiplicity
        keep = self.damping if self._started else 0.0
        used = keep * self.used_variance + (1 - keep) * self.variance
        onsager = multiplicity * self.variance[:, None]
        scale = multiplicity * self.second_moment[:, None]
        sums = np.zeros((count, dim, dim))
        energy, diagonal = np.zeros(count), np.zeros(count)
        moved = 0.0
        for rows, block in self.tokens:
            omega = np.stack([pair_forms(block, estimate) for estimate in self.estimates], axis=1)
            omega -= onsager * self.gradient[rows]
            if not np.isfinite(omega).all():
                return False
            moved += float(((omega - self.omega[rows]) ** 2 / scale).sum())
            if keep:
                omega *= 1 - keep
                omega += keep * self.omega[rows]
            gradient = self._channel_gradient(rows, omega, used)
            if not np.isfinite(gradient).all():
                return False
            self.omega[rows], self.gradient[rows] = omega, gradient
            energy += (multiplicity * gradient**2).sum(axis=(0, 2))
            diagonal += gradient[:, :, multiplicity == 2].sum(axis=(0, 2))
            for k in range(count):
                sums[k] += weighted_outer_sum(block, gradient[:, k])
        qhat = 2 * energy / dim**2
        if not np.isfinite(qhat).all():
            return False
        fresh = np.empty_like(self.estimates)
        variance = np.empty_like(self.variance)
        for k, prior in enumerate(self.priors):
            if qhat[k] * self.second_moment[k] <= _BLIND:
                # The output says nothing yet, up to rounding: the posterior is the prior.
                fresh[k] = prior.mean * np.eye(dim)
                variance[k] = prior.second_moment - prior.mean_square
                continue
            sums[k][np.diag_indices(dim)] -= diagonal[k]
            observed = self.estimates[k] + (2 / (dim**1.5 * qhat[k])) * sums[k]
            if not np.isfinite(observed).all():
                return False
            fresh[k] = denoise_matrix(prior.law, float(qhat[k]), observed)
            variance[k] = float(prior.mmse(qhat[k]))
        if not (np.isfinite(fresh).all() and np.all(variance > 0)):
            return False
        self.estimates, self.variance, self.used_variance, self.qhat = fresh, variance, used, qhat
        if self._started:
            self.change = math.sqrt(moved / (samples * count * self.channel.pairs))
        self._started = True
        return True

    def _channel_gradient(self, rows: slice, omega: FloatArray, variance: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):  # a diverging run is reported, not warned about
            if self.channel.indices == 1:
                return self.channel.gradient(self.outputs[rows], omega[:, 0], float(variance[0]))[:, None]
            return np.asarray(self.channel.gradient(self.outputs[rows], omega, variance))  # type: ignore[arg-type]

    @property
    def exact(self) -> bool:
        """True when every V is below what the rounding of the forms can resolve."""
        floor = (_ROUNDING * float(np.finfo(self.tokens.dtype).eps)) ** 2
        return bool(np.all(self.variance <= floor * self.second_moment))

    @property
    def counts_enough(self) -> bool:
        """True when the exactly known combinations of forms are as many as the parameters, so that V = 0 can be true.

        Below, V = 0 means that the algorithm fell for a matrix that fits the data without being the teacher.
        """
        known = self.tokens.samples / self.tokens.dim**2 * self.channel.exact_directions
        return known >= 0.98 * sum(float(prior.degrees_of_freedom) for prior in self.priors)

    def measure(self, teachers: FloatArray) -> dict[str, FloatArray]:
        """The values of ``AmpRun`` against teachers (count, d, d), each of shape (count,)."""
        dim = self.tokens.dim
        count = len(self.priors)
        return {
            "overlap": np.einsum("kij,kij->k", teachers, self.estimates) / dim,
            "self_overlap": np.einsum("kij,kij->k", self.estimates, self.estimates) / dim,
            "mse": ((self.estimates - teachers) ** 2).sum(axis=(1, 2)) / dim,
            "variance": self.variance.copy(),
            "qhat": self.qhat.copy(),
            "change": np.full(count, self.change if math.isfinite(self.change) else np.nan),
        }


def amp(
    channel: str | Channel = "softmax",
    *,
    tokens: int | None = None,
    width: object = None,
    prior: object = None,
    alpha: float,
    dim: int,
    seed: int | None = None,
    seeds: Iterable[int] | None = None,
    rng: np.random.Generator | None = None,
    iterations: int = 200,
    damping: float = 0.5,
    tolerance: float = 1e-5,
    dtype: str = "float64",
    memory_limit: float = 4.0,
    predict: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> AmpRun:
    """Learn teachers drawn from the prior with AMP, and set the error beside the Bayes-optimal one.

    ``channel`` is softmax, hardmax, linear (``noise=``), sign (``thresholds=``) or a Channel; the prior is that of [B]
    at ``width`` rho, or a spectral law (a list of them when the channel sees several matrices). n = round(alpha d^2)
    samples. One run each of ``seeds`` (or ``seed``, or ``rng``; default seed 0): a seed fixes teacher, tokens, noise.

    A seed stops as ``converged`` when the *undamped* change of omega falls below ``tolerance``, or when V falls below
    what the rounding of ``dtype`` can resolve (exact recovery, if the samples suffice for it). At finite d the change
    often levels off before, because the limiting denoiser is infinitely steep at the edge of the bulk, which single
    eigenvalues cross: where it stays small and V has settled the seed stops as ``stationary``, and where neither
    happens it ends as ``not converged``; ``values["change"]`` is the residual. ``damping`` is the weight of the old
    omega and V; 0 is the algorithm that state evolution describes step by step, and often unstable at small n/d.
    Tokens beyond ``memory_limit`` GiB are drawn anew at each iteration.
    ``predict=False`` leaves out state evolution (building a hardmax channel of three or more tokens takes a while).

    Cost an iteration: 4 n T d^2 flops + one eigendecomposition; memory O(n T d), never n d^2. Errors O(1/d) against the
    limit. Ctrl-C keeps what was reached. Raises ``InputError`` for arguments out of range.

    >>> run = amp("softmax", tokens=2, width=0.5, alpha=0.1, dim=40, seeds=range(2))
    >>> run.values["mse"].shape[0], run.status.ok, bool(0.2 < run.mse < 0.6)
    (2, True, True)
    """
    built = make_channel(channel, tokens, **options)
    priors = law_priors(built, width, prior)
    dim = check_integer(dim, "dim", 2)
    samples = sample_count(alpha, dim)
    iterations = check_integer(iterations, "iterations", 1)
    tolerance = check_positive(tolerance, "tolerance")
    limit = check_memory_limit(memory_limit)
    kind = float_type(dtype)
    labels, roots = seed_roots(seed, seeds, rng)
    damping = _check_damping(damping)

    shape = (len(roots), iterations + 1, len(priors))
    tables = {name: np.full(shape, np.nan) for name in AMP_VALUES}
    made = np.zeros(len(roots), dtype=np.int64)
    codes: list[Ending] = []
    estimates: list[FloatArray] = []
    teachers: list[FloatArray] = []
    exact: list[bool] = []
    collapsed: list[int] = []
    began = clock.perf_counter()
    for row, root in enumerate(roots):
        code = Ending.UNCONVERGED
        state: AmpState | None = None
        data: TeacherData | None = None
        try:
            data = teacher_data(built, priors, alpha=float(alpha), dim=dim, seed=root, dtype=kind, memory_limit=limit)
            state = AmpState(built, priors, data.tokens, data.outputs, damping)
            _record(tables, row, 0, state, data)
            for step in range(1, iterations + 1):
                try:
                    finite = state.step()
                except NumericsError:
                    finite = False
                if not finite:
                    code = Ending.DIVERGED
                    break
                _record(tables, row, step, state, data)
                made[row] = step
                if progress is not None:
                    progress(row * iterations + step, len(roots) * iterations)
                if state.exact and not state.counts_enough:
                    collapsed.append(row)
                    break
                if state.change <= tolerance or state.exact:
                    code = Ending.CONVERGED
                    break
                if _settled(tables["change"][row, : step + 1, 0], tables["variance"][row, : step + 1], state):
                    code = Ending.STATIONARY
                    break
        except KeyboardInterrupt:
            code = Ending.INTERRUPTED
        codes.append(code)
        exact.append(code == Ending.CONVERGED and state is not None and state.exact)
        if state is not None and data is not None:
            estimates.append(state.estimates)
            teachers.append(data.teachers)
        if code in (Ending.CONVERGED, Ending.STATIONARY) or row in collapsed:
            for table in tables.values():
                table[row, made[row] :] = table[row, made[row]]
        if code == Ending.INTERRUPTED:
            break
    spent = clock.perf_counter() - began
    reached = int(made.max())
    values = {name: table[:, : reached + 1] for name, table in tables.items()}
    if len(priors) == 1:
        values = {name: table[..., 0] for name, table in values.items()}
    predicted: dict[str, FloatArray] = {}
    theory: FloatArray | float = math.nan
    if predict and codes[-1] != Ending.INTERRUPTED:
        try:
            predicted, theory = _state_evolution(built, priors, samples / dim**2, reached, damping)
        except KeyboardInterrupt:
            codes.append(Ending.INTERRUPTED)
    run = AmpRun(
        channel=built,
        priors=priors,
        alpha=samples / dim**2,
        dim=dim,
        samples=samples,
        damping=damping,
        tolerance=tolerance,
        dtype=kind.name,
        seeds=labels,
        seed_status=tuple(codes[: len(roots)]),
        iterations=made,
        values=values,
        predicted=predicted,
        theory=theory,
        status=Status.worst(codes, Ending.CONVERGED),
        estimates=tuple(estimates),
        teachers=tuple(teachers),
        seconds=spent,
    )
    notes = _notes(run, exact, collapsed, labels)
    object.__setattr__(run, "status", Status(run.status.code, notes))
    return run


def _check_damping(damping: object) -> float:
    try:
        value = float(damping)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"damping = {damping!r} is not a number") from None
    if not 0 <= value < 1:
        raise InputError(f"damping = {damping} must lie in [0, 1): the weight of the old omega")
    return value


def _record(tables: dict[str, FloatArray], row: int, step: int, state: AmpState, data: TeacherData) -> None:
    for name, value in state.measure(data.teachers).items():
        tables[name][row, step] = value


def _settled(change: FloatArray, variance: FloatArray, state: AmpState) -> bool:
    """True on a plateau: over two windows the change is small and no longer falls, and V does not drift."""
    if len(change) < 3 * _WINDOW:
        return False
    late, early = change[-_WINDOW:], change[-2 * _WINDOW : -_WINDOW]
    now, before = variance[-_WINDOW:].mean(axis=0), variance[-2 * _WINDOW : -_WINDOW].mean(axis=0)
    small = late.max() <= _PLATEAU_CHANGE * math.sqrt(float((now / state.second_moment).min()))
    return bool(small and late.mean() > 0.8 * early.mean() and np.all(np.abs(now - before) <= _PLATEAU_DRIFT * now))


def _state_evolution(
    channel: Channel, priors: Sequence[LawPrior], alpha: float, steps: int, damping: float
) -> tuple[dict[str, FloatArray], FloatArray | float]:
    """Overlap, MMSE and qhat at iterations 0..steps from the prior mean, and the MMSE of the fixed point."""
    top = np.array([prior.second_moment for prior in priors])
    start = top - np.array([prior.mean_square for prior in priors])
    several = MultiIndexStateEvolution(priors, channel) if isinstance(channel, GeneralChannel) else None
    variances, qhats, used = [start], [np.zeros(len(priors))], start
    for step in range(steps):
        used = damping * used + (1 - damping) * variances[-1] if step else start
        if channel.indices > 1 and several is not None:
            qhat = alpha * np.diagonal(several.signal(used)[0])
        else:
            qhat = np.atleast_1d(channel.qhat(top[0] - used[0], used[0], alpha).value)
        qhats.append(qhat)
        variances.append(np.array([float(prior.mmse(value)) for prior, value in zip(priors, qhat, strict=True)]))
    mse, qhat = np.array(variances), np.array(qhats)
    predicted = {"overlap": top - mse, "mse": mse, "qhat": qhat}
    if channel.indices > 1 and several is not None:
        return predicted, several.solve(alpha).mmse
    theory = float(StateEvolution(priors[0], channel).solve(alpha, "uninformed").mmse)
    return {name: table[:, 0] for name, table in predicted.items()}, theory


def _notes(
    run: AmpRun, exact: Sequence[bool], collapsed: Sequence[int], labels: Sequence[int | None]
) -> tuple[str, ...]:
    notes = [
        f"seed {labels[row]}: V collapsed to 0 although the samples cannot fix the matrix; raise damping or dim"
        for row in collapsed
    ]
    if any(exact):
        names = ", ".join(str(label) for label, flag in zip(labels, exact, strict=False) if flag)
        notes.append(f"recovery is exact to the rounding of {run.dtype} for seeds {names}")
    second = max(prior.second_moment for prior in run.priors)
    gap = np.abs(np.atleast_1d(run.nishimori_gap[:, -1])).reshape(len(run.seeds), -1).max(axis=1)
    for label, value in zip(labels, gap, strict=True):
        if value * run.dim > _NISHIMORI_LIMIT * second:
            notes.append(
                f"seed {label}: |tr(S S_hat) - tr(S_hat^2)| = {value:.3g} is more than fluctuations O(1/d): the "
                "estimate is not Bayes-optimal; look at convergence and at dim"
            )
    return tuple(notes)


__all__ = ["AmpState", "amp"]
