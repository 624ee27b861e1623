"""Arguments of a simulation, checked: times, steps, seeds and names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.arrays import real_array
from aimtheory.checks import check_integer
from aimtheory.errors import InputError
from aimtheory.hierarchy import Views
from aimtheory.words import Letter


def step_counts(times: ArrayLike | None, steps: ArrayLike | None, unit: float) -> NDArray[np.int64]:
    """Step counts from times or steps, strictly increasing from 0; ``unit`` is the time of one step."""
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
        assert times is not None
        grid = real_array(times, "times")
        if grid.ndim != 1 or not grid.size:
            raise InputError(f"times has shape {grid.shape}; give a list such as [0, 0.5, 1]")
        counts, what = np.rint(grid / unit).astype(np.int64), "times"
        if grid[0] == 0 and np.any((np.diff(grid) > 0) & (np.diff(counts) <= 0)):
            raise InputError(
                f"two times fall on the same step; one step is {unit:.3g} of time: lower learning_rate or space them"
            )
    if counts.ndim != 1 or not counts.size or counts[0] != 0 or np.any(np.diff(counts) <= 0):
        raise InputError(f"{what} must increase strictly and start at 0")
    return counts


def snap_times(counts: NDArray[np.int64], unit: float, times: ArrayLike | None) -> NDArray[np.float64]:
    """Times as asked for where they are a whole number of steps up to rounding."""
    actual = np.asarray(counts * unit, dtype=np.float64)
    if times is None:
        return actual
    asked = np.asarray(times, dtype=np.float64)
    return np.where(np.isclose(asked, actual, rtol=1e-9, atol=0), asked, actual)


def seed_roots(
    seed: int | None, seeds: Iterable[int] | None, rng: np.random.Generator | None
) -> tuple[tuple[int | None, ...], list[np.random.SeedSequence]]:
    """Labels and seed sequences of the runs; a generator gives one run with no label."""
    if sum(option is not None for option in (seed, seeds, rng)) > 1:
        raise InputError("give one of seed=, seeds= and rng=")
    if rng is not None:
        if not isinstance(rng, np.random.Generator):
            raise InputError(f"rng = {rng!r} must be a numpy Generator, for instance numpy.random.default_rng(0)")
        return (None,), [np.random.SeedSequence([int(n) for n in rng.integers(2**32, size=4)])]
    chosen = [0 if seed is None else seed] if seeds is None else list(seeds)
    if not chosen:
        raise InputError("seeds is empty; give at least one")
    labels = tuple(check_integer(value, "seed", 0) for value in chosen)
    if len(set(labels)) != len(labels):
        raise InputError(f"seeds = {labels} repeat; every seed must be a new one")
    return labels, [np.random.SeedSequence(value) for value in labels]


def spectral_views(names: Iterable[str], letters: Views) -> tuple[Letter, ...]:
    """Symmetric views by name, else ``InputError`` with those that exist."""
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


__all__ = [
    "seed_roots",
    "snap_times",
    "spectral_views",
    "step_counts",
]
