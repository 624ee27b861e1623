"""Hardmax of few tokens, exactly: the winners of the rows one by one, from the lowest up.

An answer y says that the pair {a, y_a} is the largest of row a. These *winning* pairs are partly ordered (if row a is
won by {a, b}, that pair sits in row b, below the winner of row b), and every other pair lies below the lower winner
of its two rows. Once the winners are sorted by height all factors hang on one winner each: with S the set of the
winners below height v,

    A_{S + k}(v) = sum int_{-inf}^v A_S(u) phi_k(u) prod_l Phi_l(u) du,

l the pairs that k bounds when the winners in S are below it and the others above. That is a chain of one-dimensional
cumulative integrals over the admissible sets S (at most 2^T), and ``Z = A_all(inf)``; the same backwards gives the
density of every winner's height, hence every posterior mean. Spectral accuracy, and no sampling.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from aimtheory.bayes.hardmax_rows import TINY
from aimtheory.bayes.token_pairs import pair_index, token_pairs
from aimtheory.spectra.law import FloatArray

_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))
_REACH = 5.5


@dataclass(frozen=True)
class Chain:
    """One possible answer: ``winners``, pair positions; ``steps`` (S, k, pairs that k bounds) over admissible sets S of
    winners, as bit masks, every S before those that contain it; ``full``, the set of all.
    """

    winners: tuple[int, ...]
    steps: tuple[tuple[int, int, tuple[int, ...]], ...]
    full: int


@lru_cache(maxsize=4096)
def answer_chain(answer: tuple[int, ...]) -> Chain | None:
    """The chain of an answer; None when it is impossible (its rows form a cycle of three or more).

    >>> answer_chain((1, 2, 0)) is None, answer_chain((0, 1)).winners
    (True, (0, 2))
    """
    tokens = len(answer)
    index = pair_index(tokens)
    winners: list[int] = []
    group = [0] * tokens
    for a in range(tokens):
        pair = int(index[a, answer[a]])
        if pair not in winners:
            winners.append(pair)
        group[a] = winners.index(pair)
    below = [0] * len(winners)
    for a in range(tokens):
        if group[answer[a]] != group[a]:
            below[group[answer[a]]] |= 1 << group[a]
    losers = [(p, group[a], group[b]) for p, (a, b) in enumerate(token_pairs(tokens)) if p not in winners]
    steps, reached = [], {0}
    for members in range(1 << len(winners)):
        if members not in reached:
            continue
        for k in range(len(winners)):
            if members >> k & 1 or below[k] & ~members:
                continue
            bounded = tuple(
                p for p, i, j in losers if (i == k and not members >> j & 1) or (j == k and not members >> i & 1)
            )
            steps.append((members, k, bounded))
            reached.add(members | 1 << k)
    full = (1 << len(winners)) - 1
    return Chain(tuple(winners), tuple(steps), full) if full in reached else None


@lru_cache(maxsize=8)
def possible_answers(tokens: int) -> tuple[tuple[int, ...], ...]:
    """All answers that some forms give.

    >>> [len(possible_answers(tokens)) for tokens in (2, 3, 4)]
    [4, 25, 218]
    """
    everything = itertools.product(range(tokens), repeat=tokens)
    return tuple(answer for answer in everything if answer_chain(answer) is not None)


@dataclass(frozen=True, eq=False)
class HeightTables:
    """Heights v (n, N) over which the winners of any likely answer range, gaps between far rows left out, their
    ``step`` (N,); per pair Phi, phi/s and phi/(s Phi) at them, (P, n, N).
    """

    heights: FloatArray
    step: FloatArray
    cumulative: FloatArray
    density: FloatArray
    hazard: FloatArray

    def at(self, rows: NDArray[np.int64]) -> HeightTables:
        """The tables of some of the N."""
        tables = (self.cumulative, self.density, self.hazard)
        return HeightTables(self.heights[:, rows], self.step[rows], *(np.take(t, rows, axis=2) for t in tables))


def height_tables(
    omega: FloatArray, scale: FloatArray, tokens: int, cells: int, kind: Any = np.float64
) -> HeightTables:
    """Tables for means ``omega`` (N, P) and standard deviations ``scale`` (P,), stored as ``kind``."""
    index = pair_index(tokens)
    rows, spread = omega[:, index], scale[index]
    low, high = (rows - _REACH * spread).max(axis=2), (rows + _REACH * spread).max(axis=2)
    order = np.argsort(low, axis=1)
    low = np.take_along_axis(low, order, axis=1)
    high = np.maximum.accumulate(np.take_along_axis(high, order, axis=1), axis=1)
    start = low.copy()
    start[:, 1:] = np.maximum(low[:, 1:], high[:, :-1])
    ends = np.cumsum(high - start, axis=1)
    offset = ends[:, -1:] * (np.arange(cells) + 0.5) / cells
    heights = low[:, :1] + offset
    for k in range(1, tokens):
        heights = heights + (start[:, k] - high[:, k - 1])[:, None] * (offset > ends[:, k - 1 : k])
    x = (heights.T[None] - omega.T[:, None, :]) / scale[:, None, None]
    cumulative = ndtr(x)
    density = np.exp(-0.5 * x * x) / (_ROOT_TWO_PI * scale[:, None, None])
    hazard = density / np.maximum(cumulative, TINY)
    return HeightTables(
        heights.T, ends[:, -1] / cells, cumulative.astype(kind), density.astype(kind), hazard.astype(kind)
    )


@lru_cache(maxsize=8)
def _cumulation(cells: int, kind: Any) -> FloatArray:
    """The matrix of ``int_{-inf}^{v_i}`` at unit step: trapezoid with the Euler-Maclaurin terms to fourth order."""
    unit = np.eye(cells)
    wide = np.pad(unit, ((2, 2), (0, 0)))
    first = wide[3:-1] - wide[1:-3]
    third = wide[4:] - 2 * first - wide[:-4]
    return np.asarray(np.cumsum(unit, axis=0) - 0.5 * unit - first / 24 + third * 11 / 1440).astype(kind)


def chain_moments(
    chain: Chain, tables: HeightTables, omega: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """``Z`` (N,) and ``dZ/d omega`` (N, P) of one answer, for the means of the tables."""
    kind = tables.cumulative.dtype
    cumulation = _cumulation(len(tables.heights), kind)
    step = tables.step.astype(kind)
    forward: dict[int, Any] = {0: None}
    waiting: dict[int, Any] = {}
    factors = []
    for members, k, bounded in chain.steps:
        if members not in forward:
            forward[members] = (cumulation @ waiting.pop(members)) * step
        factor = tables.density[chain.winners[k]]
        for pair in bounded:
            factor = factor * tables.cumulative[pair]
        factors.append(factor)
        mass = factor if forward[members] is None else forward[members] * factor
        after = members | 1 << k
        waiting[after] = waiting[after] + mass if after in waiting else mass
    z = waiting[chain.full].sum(axis=0) * step
    backward: dict[int, Any] = {chain.full: None}
    heights: dict[int, Any] = {}
    bounds: dict[int, Any] = {}
    for (members, k, bounded), factor in zip(reversed(chain.steps), reversed(factors), strict=True):
        after = members | 1 << k
        if after not in backward:
            mass = waiting.pop(-after)
            backward[after] = (mass.sum(axis=0) - cumulation @ mass) * step
        mass = factor if backward[after] is None else factor * backward[after]
        waiting[-members] = waiting[-members] + mass if -members in waiting else mass
        law = mass if forward[members] is None else mass * forward[members]
        heights[k] = heights[k] + law if k in heights else law
        for pair in bounded:
            bounds[pair] = bounds[pair] + law if pair in bounds else law
    gradient = np.zeros((len(tables.step), len(scale)))
    for pair, law in bounds.items():
        gradient[:, pair] = -np.einsum("nb,nb->b", law, tables.hazard[pair]) * step
    for k, pair in enumerate(chain.winners):
        away = (tables.heights - omega[:, pair]) / scale[pair] ** 2
        gradient[:, pair] = np.einsum("nb,nb->b", heights[k], away) * step
    return z.astype(np.float64), gradient


__all__ = ["Chain", "HeightTables", "answer_chain", "chain_moments", "height_tables", "possible_answers"]
