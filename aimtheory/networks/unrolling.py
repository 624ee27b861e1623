"""Unrolling: X_m = sum over paths p of A_p X B_p, which makes every score of a network a function of forms of X alone.

From m-1 to m a path (A, B) stays (the residual stream) and makes (F(A_m^h) A, B V_{m-1}^h) for every head; paths of
one B are added. For any matrix S applied at level m, X_m S X_m^T/sqrt(d) = sum_pq A_p G[B_p S B_q^T] A_q^T, (52)-(53)
of [D] and the closed form of its induction. The A_p are functions of forms of lower levels, the B_p words in the
values: K effective matrices B_p S B_q^T carry all that the network reads of X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from aimtheory.frozen import Uncached
from aimtheory.networks.architecture import Architecture

Path = tuple[tuple[int, int], ...]
"""B as the (level, head) of its values from the left; () is the identity."""


@dataclass(frozen=True)
class Step:
    """One term of the A of a path at the next level: the A of ``source``, behind the attention of ``head`` if any."""

    target: int
    source: int
    head: int | None


@dataclass(frozen=True)
class Tape:
    """What a forward pass keeps for the way back: the A of every level (..., P, L, L), scores and maps of heads."""

    paths: tuple[np.ndarray, ...]
    scores: tuple[tuple[np.ndarray, ...], ...]
    maps: tuple[tuple[np.ndarray, ...], ...]
    output: np.ndarray | None


@dataclass(frozen=True)
class Unrolling(Uncached):
    """The paths of a network and where the forms of its effective matrices stand.

    >>> [len(paths) for paths in Unrolling(Architecture(layers=2, heads=1)).levels]
    [1, 2, 4]
    """

    network: Architecture

    @cached_property
    def _structure(self) -> tuple[tuple[tuple[Path, ...], ...], tuple[tuple[Step, ...], ...]]:
        network = self.network
        levels: list[tuple[Path, ...]] = [((),)]
        steps: list[tuple[Step, ...]] = []
        for level in range(network.layers):
            found: dict[Path, int] = {}
            made: list[Step] = []
            heads: list[int | None] = [None] if network.residual else []
            for head in [*heads, *range(network.heads)]:
                for source, path in enumerate(levels[-1]):
                    longer = path if head is None or not network.values else (*path, (level, head))
                    made.append(Step(found.setdefault(longer, len(found)), source, head))
            levels.append(tuple(found))
            steps.append(tuple(made))
        return tuple(levels), tuple(steps)

    @property
    def levels(self) -> tuple[tuple[Path, ...], ...]:
        """The B of every path, by level 0..M."""
        return self._structure[0]

    @property
    def steps(self) -> tuple[tuple[Step, ...], ...]:
        """How the A of level m+1 are made of those of level m."""
        return self._structure[1]

    @cached_property
    def offsets(self) -> dict[tuple[int, int], int]:
        """Where the forms of each attention matrix (level, head) begin; those of the paths (p, q) follow in rows."""
        result, start = {}, 0
        for level, head in self.network.matrices():
            result[level, head] = start
            start += len(self.levels[level]) ** 2
        return result

    def effective_matrices(self) -> list[tuple[tuple[int, int], Path, Path]]:
        """(matrix, p, q) of every form in order: B_p S B_q^T."""
        return [
            (matrix, left, right)
            for matrix in self.network.matrices()
            for left in self.levels[matrix[0]]
            for right in self.levels[matrix[0]]
        ]

    # Values.

    def _block(self, forms: np.ndarray, level: int, head: int) -> np.ndarray:
        """The forms of one attention matrix as (..., P L, P L): rows (p, i), columns (q, j)."""
        count, start = len(self.levels[level]), self.offsets[level, head]
        tokens = forms.shape[-2]
        block = forms[..., start : start + count * count].reshape(*forms.shape[:-1], count, count)
        order = (-2, -4, -1, -3)
        axes = (*range(forms.ndim - 3), *(forms.ndim + 1 + n for n in order))
        return np.ascontiguousarray(block.transpose(axes)).reshape(*forms.shape[:-3], count * tokens, count * tokens)

    def _unblock(self, block: np.ndarray, count: int, tokens: int) -> np.ndarray:
        """The way back of ``_block``: (..., L, L, P P)."""
        front = block.shape[:-2]
        parts = block.reshape(*front, count, tokens, count, tokens)
        n = len(front)
        return parts.transpose((*range(n), n + 1, n + 3, n, n + 2)).reshape(*front, tokens, tokens, count * count)

    @staticmethod
    def _row(paths: np.ndarray) -> np.ndarray:
        """The A (..., P, L, L) side by side, (..., L, P L)."""
        moved = np.moveaxis(paths, -3, -2)
        return moved.reshape(*moved.shape[:-2], -1)

    @staticmethod
    def _unrow(row: np.ndarray, count: int) -> np.ndarray:
        tokens = row.shape[-2]
        return np.moveaxis(row.reshape(*row.shape[:-1], count, tokens), -2, -3)

    def forward(self, forms: np.ndarray) -> Tape:
        """The whole pass on forms (..., L, L, K): A of every level, scores, maps, and the read-out."""
        network, tokens = self.network, forms.shape[-2]
        attend = network.attention_map
        identity = np.eye(tokens, dtype=forms.dtype)
        paths = [np.broadcast_to(identity, (*forms.shape[:-3], 1, tokens, tokens))]
        all_scores, all_maps = [], []
        for level in range(network.layers):
            row = self._row(paths[-1])
            scores = tuple(
                row @ self._block(forms, level, head) @ np.swapaxes(row, -1, -2) for head in range(network.heads)
            )
            maps = tuple(attend(score) for score in scores)
            new = np.zeros((*forms.shape[:-3], len(self.levels[level + 1]), tokens, tokens), dtype=forms.dtype)
            for step in self.steps[level]:
                source = paths[-1][..., step.source, :, :]
                new[..., step.target, :, :] += source if step.head is None else maps[step.head] @ source
            paths.append(new)
            all_scores.append(scores)
            all_maps.append(maps)
        output = None
        if network.readout == "attention":
            row = self._row(paths[-1])
            output = row @ self._block(forms, network.layers, 0) @ np.swapaxes(row, -1, -2)
        return Tape(tuple(paths), tuple(all_scores), tuple(all_maps), output)

    def backward(self, forms: np.ndarray, tape: Tape, cotangent: np.ndarray) -> np.ndarray:
        """The gradient by the forms of sum(cotangent * result), the result being the score of the read-out (..., L, L),
        or the A of the last level (..., P, L, L)."""
        network, tokens = self.network, forms.shape[-2]
        attend = network.attention_map
        result = np.zeros_like(forms)

        def pull(level: int, head: int, by_score: np.ndarray) -> np.ndarray:
            """Fill the gradient by the forms of one matrix; return that by the A of its level."""
            row, block = self._row(tape.paths[level]), self._block(forms, level, head)
            count, start = len(self.levels[level]), self.offsets[level, head]
            across = np.swapaxes(row, -1, -2)
            result[..., start : start + count * count] = self._unblock(across @ by_score @ row, count, tokens)
            moved = by_score @ row @ np.swapaxes(block, -1, -2) + np.swapaxes(by_score, -1, -2) @ row @ block
            return self._unrow(moved, count)

        by_paths = pull(network.layers, 0, cotangent) if network.readout == "attention" else cotangent
        for level in reversed(range(network.layers)):
            before = tape.paths[level]
            by_before = np.zeros(before.shape, dtype=forms.dtype)
            by_maps = [np.zeros_like(one) for one in tape.maps[level]]
            for step in self.steps[level]:
                part = by_paths[..., step.target, :, :]
                if step.head is None:
                    by_before[..., step.source, :, :] += part
                    continue
                by_maps[step.head] += part @ np.swapaxes(before[..., step.source, :, :], -1, -2)
                by_before[..., step.source, :, :] += np.swapaxes(tape.maps[level][step.head], -1, -2) @ part
            for head in range(network.heads):
                by_score = attend.vector_jacobian(tape.scores[level][head], by_maps[head])
                by_before += pull(level, head, by_score)
            by_paths = by_before
        return result

    # The same with symbols.

    def expressions(self, forms: list[sp.Matrix]) -> tuple[list[sp.Matrix], sp.Matrix | None]:
        """The A of the last level and the score of the read-out, in L x L matrices of symbols, one a form."""
        network, tokens = self.network, forms[0].rows
        paths: list[Any] = [sp.eye(tokens)]

        def score(level: int, head: int) -> sp.Matrix:
            count, start = len(self.levels[level]), self.offsets[level, head]
            total = sp.zeros(tokens, tokens)
            for p in range(count):
                for q in range(count):
                    total += paths[p] * forms[start + p * count + q] * paths[q].T
            return total

        for level in range(network.layers):
            maps = [network.attention_map.expression(score(level, head)) for head in range(network.heads)]
            new = [sp.zeros(tokens, tokens) for _ in self.levels[level + 1]]
            for step in self.steps[level]:
                new[step.target] += paths[step.source] if step.head is None else maps[step.head] * paths[step.source]
            paths = new
        return paths, score(network.layers, 0) if network.readout == "attention" else None


__all__ = ["Path", "Step", "Tape", "Unrolling"]
