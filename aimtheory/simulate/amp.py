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
    JointChannel,
    LawPrior,
    StateEvolution,
    make_any_channel,
    make_rectangular_prior,
)
from aimtheory.checks import check_integer, check_positive
from aimtheory.errors import InputError, NumericsError
from aimtheory.progress import Progress
from aimtheory.simulate.amp_run import AMP_VALUES, AmpRun
from aimtheory.simulate.amp_state import AmpState
from aimtheory.simulate.cross_amp import CrossAmpState, cross_teacher_data
from aimtheory.simulate.gaussian_tokens import float_type
from aimtheory.simulate.joint_amp import JointAmpState, joint_state_evolution
from aimtheory.simulate.run_arguments import seed_roots
from aimtheory.simulate.teacher_data import TeacherData, check_memory_limit, law_priors, sample_count, teacher_data
from aimtheory.status import Ending, Status

FloatArray = NDArray[np.float64]

_NISHIMORI_LIMIT = 20.0
"""|m - q| d / Q0 above which a note is made."""

_WINDOW = 10
"""Iterations over which a plateau is judged."""

_EXCESS = 1.5
"""Largest ratio of the measured qhat to the one that V claims at a solution."""

_PLATEAU_CHANGE = 0.3
"""Largest change, in units of sqrt(V/Q0), of a plateau; runs that lost the fixed point swing by more than 1."""

_PLATEAU_DRIFT = 0.02
"""Largest relative drift of the mean V from one window to the next on a plateau."""


def _excess_residual(state: AmpState) -> float:
    """``qhat / (alpha signal(Q0 - V, V))`` of one matrix: 1 + O(1/d) for a true solution; 1 where nothing is expected.

    qhat is measured on the data, V is what the algorithm claims; above 1 the samples disagree with the estimate more
    than V allows, as for a matrix that the algorithm fell for.
    """
    if len(state.priors) > 1:
        return 1.0
    variance, qhat = float(np.ravel(state.variance)[0]), float(np.ravel(state.qhat)[0])
    alpha = state.tokens.samples / state.dim**2
    overlap = max(state.priors[0].second_moment - variance, 0.0)
    expected = alpha * float(state.channel.signal(overlap, variance).value)
    return qhat / expected if 0 < expected < math.inf else 1.0


def amp(
    channel: str | Channel | JointChannel = "softmax",
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

    ``channel`` is softmax, hardmax, linear, sign (with their noise, see ``make_channel``) or a Channel; the prior is
    that of [B] at ``width`` rho, or a spectral law (a list of them when the channel sees several matrices, a
    RectangularPrior for cross-attention). Heads that the output cannot tell apart are matched to the teachers of
    largest overlap. n = round(alpha d^2) samples. One run each of ``seeds`` (or ``seed``, or ``rng``; default seed
    0): a seed fixes teacher, tokens, noise.

    A seed stops as ``converged`` when the *undamped* change of omega falls below ``tolerance``, or when V falls below
    what the rounding of ``dtype`` can resolve (exact recovery, if the samples suffice for it). At finite d the change
    often levels off before, because the limiting denoiser is infinitely steep at the edge of the bulk, which single
    eigenvalues cross: where it stays small and V has settled the seed stops as ``stationary``, and where neither
    happens it ends as ``not converged``; ``values["change"]`` is the residual. A seed whose
    samples disagree with the V that it claims (qhat above 1.5 times what state evolution gives at that V) has fallen
    for a wrong matrix and is ``not converged`` too. ``damping`` is the weight of the old
    omega and V; 0 is the algorithm that state evolution describes step by step, and often unstable at small n/d.
    Tokens beyond ``memory_limit`` GiB are drawn anew at each iteration.
    ``predict=False`` leaves out state evolution (building a hardmax channel of three or more tokens takes a while).

    Cost an iteration: 4 n T d^2 flops + one eigendecomposition; memory O(n T d), never n d^2. Errors O(1/d) against the
    limit. Ctrl-C keeps what was reached. Raises ``InputError`` for arguments out of range.

    >>> run = amp("softmax", tokens=2, width=0.5, alpha=0.1, dim=40, seeds=range(2))
    >>> run.values["mse"].shape[0], run.status.ok, bool(0.2 < run.mse < 0.6)
    (2, True, True)
    """
    built: Any = make_any_channel(channel, tokens, **options)
    cross = built.is_rectangular
    priors: Any = (make_rectangular_prior(width, prior),) if cross else law_priors(built, width, prior)
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
            data, state = _start(built, priors, float(alpha), dim, root, kind, limit, damping)
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
                ended = state.change <= tolerance and not state.exact
                if ended and (predict or built.is_fast) and _excess_residual(state) > _EXCESS:
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
    if channel.indices > 1:
        return joint_state_evolution(channel, priors, alpha, steps, damping)
    prior = priors[0]
    top = prior.second_moment
    variances, qhats, used = [top - prior.mean_square], [0.0], top - prior.mean_square
    for step in range(steps):
        used = damping * used + (1 - damping) * variances[-1] if step else used
        qhats.append(float(channel.qhat(top - used, used, alpha).value))
        variances.append(float(prior.mmse(qhats[-1])))
    mse = np.array(variances)
    theory = float(StateEvolution(prior, channel).solve(alpha, "uninformed").mmse)
    return {"overlap": top - mse, "mse": mse, "qhat": np.array(qhats)}, theory


def _start(
    channel: Any,
    priors: Any,
    alpha: float,
    dim: int,
    root: np.random.SeedSequence,
    kind: np.dtype[Any],
    limit: float,
    damping: float,
) -> tuple[TeacherData, AmpState]:
    """A data set and the algorithm that fits the channel."""
    options: dict[str, Any] = {"alpha": alpha, "dim": dim, "seed": root, "dtype": kind, "memory_limit": limit}
    if channel.is_rectangular:
        data = cross_teacher_data(channel, priors[0], **options)
        return data, CrossAmpState(channel, priors[0], data.tokens, data.outputs, dim, damping)
    data = teacher_data(channel, priors, **options)
    if channel.indices == 1:
        return data, AmpState(channel, priors, data.tokens, data.outputs, damping)
    split = np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 3)))
    return data, JointAmpState(channel, priors, data.tokens, data.outputs, damping, split)


def _notes(
    run: AmpRun, exact: Sequence[bool], collapsed: Sequence[int], labels: Sequence[int | None]
) -> tuple[str, ...]:
    notes = [
        f"seed {labels[row]}: V collapsed although the samples cannot fix the matrix so well, and disagree with it; "
        "raise damping or dim"
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
