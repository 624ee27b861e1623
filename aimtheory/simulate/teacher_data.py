"""The data of Bayes-optimal learning at finite d: teacher matrices from a prior, Gaussian tokens, channel outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.bayes import Channel, LawPrior, Prior, make_prior
from aimtheory.bayes.channel import check_alpha
from aimtheory.checks import check_integer
from aimtheory.errors import InputError
from aimtheory.simulate.pair_forms import pair_forms
from aimtheory.simulate.token_blocks import TokenBlocks

Float64Array = NDArray[np.float64]


def law_priors(channel: Channel, width: object = None, prior: object = None) -> tuple[LawPrior, ...]:
    """One prior with a spectral law for each matrix that the channel sees; ``InputError`` for the small-width limit.

    A single law or width serves all matrices, which are drawn independently; ``prior`` may be a list, one a matrix.
    """
    several = isinstance(prior, Sequence) and not isinstance(prior, str)
    given: list[Prior] = [make_prior(None, each) for each in prior] if several else [make_prior(width, prior)]  # type: ignore[attr-defined]
    if several and width is not None:
        raise InputError("give either width or prior, not both")
    if len(given) == 1:
        given *= channel.indices
    if len(given) != channel.indices:
        raise InputError(f"the channel sees {channel.indices} matrices, but {len(given)} priors were given")
    return tuple(each.as_law_prior() for each in given)


def sample_count(alpha: object, dim: int) -> int:
    """``n = round(alpha d^2) >= 1``, else ``InputError``."""
    rate = float(check_alpha(np.asarray(alpha, dtype=np.float64)))
    count = round(rate * dim**2)
    if count < 1:
        raise InputError(f"alpha = {rate} at dim = {dim} leaves no sample: n = round(alpha d^2) must be >= 1")
    return count


@dataclass(frozen=True, eq=False)
class TeacherData:
    """Tokens, the outputs y = g(h) they gave, and the teachers S (count, d, d) that made them."""

    channel: Channel
    dim: int
    tokens: TokenBlocks = field(repr=False)
    outputs: Any = field(repr=False)
    teachers: Float64Array = field(repr=False)

    @property
    def samples(self) -> int:
        """n."""
        return self.tokens.samples

    @property
    def alpha(self) -> float:
        """``n/d^2`` after rounding n."""
        return self.samples / self.dim**2


def teacher_data(
    channel: Channel,
    priors: Sequence[LawPrior],
    *,
    alpha: float,
    dim: int,
    seed: np.random.SeedSequence,
    dtype: object = "float64",
    memory_limit: float = 4.0,
) -> TeacherData:
    """n = round(alpha d^2) samples: S from the priors, x ~ N(0, 1_d), y from the channel at the centred forms.

    Teacher forms are computed in float64. Memory O(n T d) up to ``memory_limit`` GiB of tokens, which are drawn anew at
    each pass beyond it, plus O(n T^2).

    >>> from aimtheory.bayes import SoftmaxChannel, make_prior
    >>> data = teacher_data(
    ...     SoftmaxChannel(2), [make_prior(0.5)], alpha=0.1, dim=20, seed=np.random.SeedSequence(0)
    ... )
    >>> data.samples, data.outputs.shape, data.teachers.shape
    (40, (40, 2, 2), (1, 20, 20))
    """
    dim = check_integer(dim, "dim", 2)
    count = sample_count(alpha, dim)
    streams = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, n)) for n in range(3)]
    rng = np.random.default_rng(streams[0])
    teachers = np.stack([np.asarray(prior.law.sample(dim, rng), dtype=np.float64) for prior in priors])
    tokens = TokenBlocks(dim, channel.tokens, count, dtype, streams[1], memory_limit)
    noise = np.random.default_rng(streams[2])
    parts = []
    for _, block in tokens:
        exact = block.astype(np.float64, copy=False)
        forms = np.stack([pair_forms(exact, teacher) for teacher in teachers], axis=1)
        parts.append(channel.sample(forms if channel.indices > 1 else forms[:, 0], noise))
    return TeacherData(channel, dim, tokens, np.concatenate(parts), teachers)


def check_memory_limit(value: object) -> float:
    """A finite number of GiB >= 0, else ``InputError``."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"memory_limit = {value!r} is not a number") from None
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"memory_limit = {value!r} must be finite and >= 0 (GiB of tokens kept in memory)")
    return number


__all__ = ["TeacherData", "check_memory_limit", "law_priors", "sample_count", "teacher_data"]
