"""Hardmax of any number of tokens: the posterior of an answer by randomized quasi-Monte Carlo over its winners.

The winning pairs {a, y_a} of an answer form a forest: row a is won below the winner of row y_a (two rows that choose
each other share one winner, a root). Were every losing pair bounded by one winner, all integrals would be exact
messages along the forest, M_a(v) = weight that the winner of row a and all below it lie under v. A losing pair {a, b}
is bounded by the lower of two winners, by ``Phi(min(v_a, v_b))``; in the messages each of its rows takes a power of
Phi instead. The winners are drawn from the messages, roots first, one uniform number each, and weighted by the exact
density of the answer over the one drawn from: a number near 1. All other pairs have truncated normal means given the
winners. T numbers a point; the cost grows like T^2, and no answer is enumerated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from aimtheory.bayes.hardmax_rows import TINY, RowPosterior, row_posterior
from aimtheory.bayes.token_pairs import pair_index
from aimtheory.errors import InputError
from aimtheory.spectra.law import FloatArray

IntArray = NDArray[np.int64]
_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))
_SHARE = 2 / 3
"""The power at which each of two rows takes Phi of a losing pair into its message: between 1/2, right where the two
winners are level, and 1, right where they are far apart."""


def all_rows(omega: FloatArray, scale: FloatArray, tokens: int) -> RowPosterior:
    """The row posteriors of all T rows of means ``omega`` (N, P): arrays (N, T, ...), form c of row a at place c."""
    index = pair_index(tokens)
    count = len(omega)
    spread = np.broadcast_to(scale[index], (count, tokens, tokens)).reshape(-1, tokens)
    flat = row_posterior(omega[:, index].reshape(-1, tokens), spread)
    names = ("probability", "gradient", "low", "step", "cumulative", "density")
    return RowPosterior(*(_split(getattr(flat, name), count, tokens) for name in names))


def _split(array: FloatArray, count: int, tokens: int) -> FloatArray:
    return array.reshape(count, tokens, *array.shape[1:])


def forest_moments(
    answers: IntArray, omega: FloatArray, scale: FloatArray, rows: RowPosterior, points: FloatArray, parts: int = 1
) -> tuple[FloatArray, FloatArray]:
    """``Z`` (parts, N) and ``E[z 1(answer)]`` (parts, N, P) for answers (N, T), h = omega + scale z, by the uniform
    ``points`` (T, Q) or (N, T, Q), cut into ``parts`` independent rules; ``rows`` are those of ``all_rows``.
    """
    count, tokens = answers.shape
    forest = _Forest(answers, omega, scale, rows)
    heights, log_weight = forest.draw(np.broadcast_to(points, (count, tokens, points.shape[-1])))
    first, second = np.triu_indices(tokens)
    bound = np.minimum(heights[:, first], heights[:, second])
    won = (answers[:, first] == second) | (answers[:, second] == first)
    z = (bound - omega[:, :, None]) / scale[:, None]
    below = np.maximum(ndtr(z), TINY)
    log_weight += np.log(np.where(won[:, :, None], 1.0, below)).sum(axis=1)
    mean = np.where(won[:, :, None], z, -np.exp(-0.5 * z * z) / (_ROOT_TWO_PI * below))
    weight = np.exp(np.where(np.isnan(log_weight), -np.inf, log_weight))
    weight = weight.reshape(count, parts, -1)
    mean = mean.reshape(count, len(scale), parts, -1)
    size = weight.shape[-1]
    return weight.mean(axis=2).T, np.einsum("npkq,nkq->knp", mean, weight) / size


class _Forest:
    """The messages of a batch of answers."""

    def __init__(self, answers: IntArray, omega: FloatArray, scale: FloatArray, rows: RowPosterior) -> None:
        count, tokens = answers.shape
        index = pair_index(tokens)
        self.answers, self.means, self.scale = answers, omega[:, index], scale[index]
        place = np.arange(tokens)
        self.mutual = (np.take_along_axis(answers, answers, axis=1) == place) & (answers != place)
        self.leads = ~self.mutual | (place < answers)
        self.depth = self._depths()
        self.cells = rows.cumulative.shape[-1]
        self.low, self.step = rows.low.copy(), rows.step.copy()
        self.cumulative = rows.cumulative.copy()
        self._merge()
        sides = np.arange(tokens)
        own = self.cumulative[:, sides, sides].copy()
        self.cumulative **= _SHARE
        self.cumulative[:, sides, sides] = own
        winner = answers[:, :, None]
        self.center = np.take_along_axis(self.means, winner, axis=2)[:, :, 0]
        spread = np.broadcast_to(self.scale, self.means.shape)
        self.width = np.take_along_axis(spread, winner, axis=2)[:, :, 0]
        np.put_along_axis(self.cumulative, winner[..., None], 1.0, axis=2)
        self.mass = np.zeros((count, tokens, self.cells + 1))
        self.top = int(self.depth.max(initial=0))
        for level in range(self.top, -1, -1):
            self._send(level)

    def _depths(self) -> IntArray:
        """How many winners lie above that of each row, by the answer."""
        root = self.mutual | (self.answers == np.arange(self.answers.shape[1]))
        place = np.broadcast_to(np.arange(self.answers.shape[1]), self.answers.shape)
        depth = np.zeros(self.answers.shape, dtype=np.int64)
        for _ in range(self.answers.shape[1]):
            at_root = np.take_along_axis(root, place, axis=1)
            depth += ~at_root
            place = np.where(at_root, place, np.take_along_axis(self.answers, place, axis=1))
        if not np.take_along_axis(root, place, axis=1).all():
            bad = int(np.flatnonzero(~np.take_along_axis(root, place, axis=1).all(axis=1))[0])
            answer = tuple(self.answers[bad].tolist())
            raise InputError(f"the hardmax answer {answer} is impossible: its rows form a cycle")
        return depth

    def _merge(self) -> None:
        """Two rows with one winner share one grid."""
        n, a = np.nonzero(self.mutual)
        if not len(n):
            return
        high = self.low + self.step * self.cells
        b = self.answers[n, a]
        low = np.maximum(self.low[n, a], self.low[n, b])
        step = (np.maximum(high[n, a], high[n, b]) - low) / self.cells
        self.low[n, a], self.step[n, a] = low, step
        v = low[:, None] + step[:, None] * (np.arange(self.cells) + 0.5)
        x = (v[:, None, :] - self.means[n, a][:, :, None]) / self.scale[a][:, :, None]
        self.cumulative[n, a] = ndtr(x)

    def _send(self, level: int) -> None:
        """Masses of the winners at one depth, and their messages to the rows above."""
        n, a = np.nonzero((self.depth == level) & self.leads)
        low, step = self.low[n, a, None], self.step[n, a, None]
        v = low + step * (np.arange(self.cells) + 0.5)
        z = (v - self.center[n, a, None]) / self.width[n, a, None]
        density = self.cumulative[n, a].prod(axis=1) * np.exp(-0.5 * z * z) * step
        density /= _ROOT_TWO_PI * self.width[n, a, None]
        shared = self.mutual[n, a]
        density[shared] *= self.cumulative[n[shared], self.answers[n, a][shared]].prod(axis=1)
        mass = np.concatenate([np.zeros((len(n), 1)), np.cumsum(density, axis=1)], axis=1)
        self.mass[n, a] = mass
        if level > 0:
            above = self.answers[n, a]
            grid = self.low[n, above, None] + self.step[n, above, None] * (np.arange(self.cells) + 0.5)
            self.cumulative[n, above, a] = self._below(grid, n, a)

    def _below(self, v: FloatArray, n: IntArray, a: IntArray) -> FloatArray:
        """Mass of the winners of rows (n, a) under the heights v, linear within a cell."""
        mass = self.mass[n, a]
        cell = np.clip((v - self.low[n, a, None]) / self.step[n, a, None], 0.0, self.cells)
        whole = np.minimum(cell.astype(np.int64), self.cells - 1)
        left = np.take_along_axis(mass, whole, axis=1)
        return np.asarray(left + (cell - whole) * (np.take_along_axis(mass, whole + 1, axis=1) - left))

    def draw(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Heights (N, T, Q) of the winners of all rows, and the log of the density ratio of the drawn ones (N, Q)."""
        heights = np.empty(points.shape)
        log_weight = np.zeros((points.shape[0], points.shape[2]))
        for level in range(self.top + 1):
            n, a = np.nonzero((self.depth == level) & self.leads)
            mass = self.mass[n, a]
            whole = np.maximum(mass[:, -1:], TINY)
            limit = mass[:, -1:] if level == 0 else self._below(heights[n, self.answers[n, a]], n, a)
            share = points[n, a] * limit / whole
            # Row i of the table lives on [2i, 2i + 1], so that one sorted search serves all rows.
            offset = 2.0 * np.arange(len(n))[:, None]
            found = np.searchsorted((mass / whole + offset).ravel(), (share + offset).ravel(), side="right")
            cell = found.reshape(share.shape) - 1 - (self.cells + 1) * np.arange(len(n))[:, None]
            cell = np.clip(cell, 0, self.cells - 1)
            left = np.take_along_axis(mass, cell, axis=1)
            inside = np.take_along_axis(mass, cell + 1, axis=1) - left
            fraction = np.divide(share * whole - left, inside, out=np.full_like(share, 0.5), where=inside > 0)
            v = self.low[n, a, None] + self.step[n, a, None] * (cell + np.clip(fraction, 0.0, 1.0))
            heights[n, a] = v
            shared = self.mutual[n, a]
            heights[n[shared], self.answers[n, a][shared]] = v[shared]
            z = (v - self.center[n, a, None]) / self.width[n, a, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.log(limit * self.step[n, a, None]) - np.log(inside * _ROOT_TWO_PI * self.width[n, a, None])
            np.add.at(log_weight, n, ratio - 0.5 * z * z)
        return heights, log_weight


__all__ = ["all_rows", "forest_moments"]
