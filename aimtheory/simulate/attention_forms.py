"""The forms G_ijk = x_i^T S_k x_j / sqrt(d) of a batch of tokens and the gradient of a loss by the parameters,
without d x d x batch arrays.

S_k is a polynomial in parameter letters. A term c u v of it, split into two words, gives x_i^T u v x_j = (u^T x_i) .
(v x_j): the only large arrays are tokens times prefixes of words, X u, one matrix product a letter. Prefixes that are
equal (both halves of W W^T, letters shared between indices) are computed once. Backpropagation runs the same products
in reverse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aimtheory.simulate.gaussian_tokens import FloatArray
from aimtheory.words import SCALARS, Letter, Polynomial, Representation, Word

_FEW_TOKENS = 6
"""Up to this many tokens L^2 dot products beat a batch of small matrix products."""


@dataclass
class Prefix:
    """The node X u of the computation: its parent X u' and the last letter, u = u' letter."""

    parent: int
    letter: Letter
    moves: bool
    value: FloatArray = field(repr=False)
    adjoint: FloatArray = field(repr=False)
    touched: bool = False


@dataclass(frozen=True)
class FormTerm:
    """G_ij += coefficient (X u)_i . (X v^T)_j / sqrt(d): the nodes ``left`` and ``right``."""

    coefficient: float
    left: int
    right: int


@dataclass(frozen=True)
class AttentionMatrix:
    """How one S_k enters: its polynomial, whether the loss is differentiated through it, and its spectrum if it is
    diagonal.

    ``eigenvalues`` given means S_k = diag(eigenvalues) is fixed, in the basis in which the tokens are drawn.
    """

    polynomial: Polynomial
    differentiated: bool
    eigenvalues: NDArray[np.float64] | None = None


class AttentionForms:
    """Forms and their pull-back for one set of parameter matrices, which may be changed in place between calls.

    ``parameters`` maps letter names to arrays of one dtype; ``rows`` bounds batch x L in one call. Memory O(rows x (d
    + widths)) on top of the parameters; flops 2 rows x (entries) for each letter forward, twice that backward.
    """

    def __init__(
        self,
        matrices: Sequence[AttentionMatrix],
        parameters: Mapping[str, FloatArray],
        moving: frozenset[str],
        dim: int,
        covariance: NDArray[np.float64],
        centred: bool,
        rows: int,
        dtype: np.dtype[Any],
    ) -> None:
        self.matrices = tuple(matrices)
        self.parameters = parameters
        self.moving = moving
        self.tokens = len(covariance)
        self.dtype = dtype
        self.dim = dim
        self.rows = rows
        self.scale = 1 / math.sqrt(self.dim)
        self.covariance = covariance.astype(self.dtype)
        self.centred = centred
        self.prefixes: list[Prefix] = []
        self._nodes: dict[tuple[Letter, ...], int] = {(): 0}
        self._root = np.empty((0, self.dim), dtype=self.dtype)
        self._diagonals: dict[int, tuple[slice, FloatArray]] = {}
        self._terms: list[tuple[FormTerm, ...]] = []
        self._fixed_traces: dict[int, float] = {}
        for k, matrix in enumerate(self.matrices):
            if matrix.eigenvalues is not None:
                kept = np.flatnonzero(np.abs(matrix.eigenvalues) > 1e-13 * np.abs(matrix.eigenvalues).max(initial=0.0))
                columns = slice(int(kept[0]), int(kept[-1]) + 1) if len(kept) else slice(0, 0)
                self._diagonals[k] = (columns, matrix.eigenvalues[columns].astype(self.dtype))
                self._fixed_traces[k] = float(matrix.eigenvalues.sum())
                self._terms.append(())
                continue
            self._terms.append(tuple(self._plan(word, float(c)) for word, c in matrix.polynomial))
            if centred and not any(letter.name in moving for letter in matrix.polynomial.letters):
                self._fixed_traces[k] = trace(matrix.polynomial, parameters, dim)
        self._weighted = np.empty((rows if self._diagonals else 0, dim), dtype=dtype)
        self.flops_per_row = self._count_flops()

    def _plan(self, word: Word, coefficient: float) -> FormTerm:
        """Split the word where the new prefixes cost least; of equal splits the most balanced."""
        letters = word.letters
        options = []
        for cut in range(len(letters) + 1):
            left, right = letters[:cut], tuple(letter.T for letter in reversed(letters[cut:]))
            new = {half[:n] for half in (left, right) for n in range(1, len(half) + 1)} - self._nodes.keys()
            cost = sum(self.parameters[prefix[-1].name].size for prefix in new)
            options.append((cost, abs(2 * cut - len(letters)), cut))
        cut = min(options)[2]
        right = tuple(letter.T for letter in reversed(letters[cut:]))
        return FormTerm(coefficient, self._node(letters[:cut]), self._node(right))

    def _node(self, letters: tuple[Letter, ...]) -> int:
        if letters not in self._nodes:
            parent = self._node(letters[:-1])
            letter = letters[-1]
            width = self.parameters[letter.name].shape[0 if letter.transposed else 1]
            moves = any(each.name in self.moving for each in letters)
            value = np.empty((self.rows, width), dtype=self.dtype)
            adjoint = np.empty((self.rows if moves else 0, width), dtype=self.dtype)
            self.prefixes.append(Prefix(parent, letter, moves, value, adjoint))
            self._nodes[letters] = len(self.prefixes)
        return self._nodes[letters]

    def _count_flops(self) -> int:
        """Flops of the matrix products a row of tokens takes, forward and backward."""
        total = 0
        for prefix in self.prefixes:
            size = 2 * self.parameters[prefix.letter.name].size
            total += size
            if prefix.letter.name in self.moving:
                total += size
            if prefix.parent and self.prefixes[prefix.parent - 1].moves:
                total += size
        return total

    def _matrix(self, letter: Letter) -> FloatArray:
        matrix = self.parameters[letter.name]
        return matrix.T if letter.transposed else matrix

    def _value(self, node: int, rows: int) -> FloatArray:
        return self._root if node == 0 else self.prefixes[node - 1].value[:rows]

    def forward(self, tokens: FloatArray) -> FloatArray:
        """G of shape (batch, L, L, K) for tokens (batch, L, d), batch x L at most ``rows``."""
        batch, count = tokens.shape[0], self.tokens
        rows = batch * count
        self._root = tokens.reshape(rows, self.dim)
        for prefix in self.prefixes:
            np.matmul(self._value(prefix.parent, rows), self._matrix(prefix.letter), out=prefix.value[:rows])
        # Batch last in memory: the loss works on many small L x L arrays, and its inner loops then run over the batch.
        storage = np.empty((count, count, len(self.matrices), batch), dtype=self.dtype)
        forms = storage.transpose(3, 0, 1, 2)
        for k, terms in enumerate(self._terms):
            target = forms[..., k]
            if k in self._diagonals:
                columns, eigenvalues = self._diagonals[k]
                part = self._root[:, columns]
                weighted = np.multiply(part, eigenvalues, out=self._weighted[:rows, : len(eigenvalues)])
                _inner(_batched(weighted, batch), _batched(part, batch), target)
            else:
                for number, term in enumerate(terms):
                    left, right = (_batched(self._value(node, rows), batch) for node in (term.left, term.right))
                    if number == 0:
                        _inner(left, right, target)
                        if term.coefficient != 1:
                            target *= self.dtype.type(term.coefficient)
                    else:
                        target += self.dtype.type(term.coefficient) * _inner(left, right, None)
            if self.centred:
                target -= self.covariance * self._trace(k)
            target *= self.dtype.type(self.scale)
        return forms

    def _trace(self, k: int) -> Any:
        if k in self._fixed_traces:
            return self.dtype.type(self._fixed_traces[k])
        return self.dtype.type(trace(self.matrices[k].polynomial, self.parameters, self.dim))

    def backward(self, cotangent: FloatArray) -> dict[str, FloatArray]:
        """Gradients by every moving letter of sum(cotangent x G), for the tokens of the last ``forward``; fresh
        arrays.
        """
        batch = cotangent.shape[0]
        rows = batch * self.tokens
        gradients: dict[str, FloatArray] = {}
        for prefix in self.prefixes:
            prefix.touched = False
        for k, matrix in enumerate(self.matrices):
            if not matrix.differentiated or not self._terms[k]:
                continue
            pulled = np.ascontiguousarray(cotangent[..., k])
            pulled *= self.dtype.type(self.scale)
            for term in self._terms[k]:
                self._pull_term(term, pulled, batch)
            if self.centred:
                weight = -float(np.vdot(pulled.sum(axis=0), self.covariance))
                add_trace_gradient(matrix.polynomial, self.parameters, self.dim, self.moving, weight, gradients)
        for prefix in reversed(self.prefixes):
            if prefix.touched:
                self._pull_letter(prefix, rows, gradients)
        for matrix in self.matrices:
            for letter in matrix.polynomial.letters:
                if letter.symmetric and letter.name in gradients:
                    gradients[letter.name] = (gradients[letter.name] + gradients[letter.name].T) / 2
        return gradients

    def _pull_term(self, term: FormTerm, pulled: FloatArray, batch: int) -> None:
        weighted = pulled if term.coefficient == 1 else pulled * self.dtype.type(term.coefficient)
        if term.left == term.right:
            self._pull_node(term.left, weighted + weighted.transpose(0, 2, 1), term.left, batch)
        else:
            self._pull_node(term.left, weighted, term.right, batch)
            self._pull_node(term.right, weighted.transpose(0, 2, 1), term.left, batch)

    def _pull_node(self, node: int, weights: FloatArray, other: int, batch: int) -> None:
        """adjoint(node)_i += sum_j weights_ij value(other)_j."""
        if node == 0 or not self.prefixes[node - 1].moves:
            return
        prefix = self.prefixes[node - 1]
        rows = batch * self.tokens
        value = _batched(self._value(other, rows), batch)
        target = _batched(prefix.adjoint[:rows], batch)
        apply = np.multiply if self.tokens == 1 else np.matmul
        if prefix.touched:
            target += apply(weights, value)
        else:
            apply(weights, value, out=target)
            prefix.touched = True

    def _pull_letter(self, prefix: Prefix, rows: int, gradients: dict[str, FloatArray]) -> None:
        adjoint = prefix.adjoint[:rows]
        letter = prefix.letter
        if letter.name in self.moving:
            parent = self._value(prefix.parent, rows)
            product = adjoint.T @ parent if letter.transposed else parent.T @ adjoint
            _accumulate(gradients, letter.name, product)
        if prefix.parent and self.prefixes[prefix.parent - 1].moves:
            below = self.prefixes[prefix.parent - 1]
            if below.touched:
                below.adjoint[:rows] += adjoint @ self._matrix(letter).T
            else:
                np.matmul(adjoint, self._matrix(letter).T, out=below.adjoint[:rows])
                below.touched = True


def _batched(rows: FloatArray, batch: int) -> FloatArray:
    return rows.reshape(batch, -1, rows.shape[-1])


def _inner(left: FloatArray, right: FloatArray, out: FloatArray | None) -> FloatArray:
    """left_i . right_j for every item of the batch: shape (batch, L, L)."""
    if left.shape[1] <= _FEW_TOKENS:
        return np.vecdot(left[:, :, None, :], right[:, None, :, :], out=out)
    return np.matmul(left, right.transpose(0, 2, 1), out=out)


def _accumulate(gradients: dict[str, FloatArray], name: str, term: FloatArray) -> None:
    if name in gradients:
        gradients[name] += term
    else:
        gradients[name] = term


def evaluate(polynomial: Polynomial, parameters: Mapping[str, FloatArray], dim: int) -> FloatArray:
    """The polynomial on matrices, shape (d, d)."""
    words = _words(polynomial, parameters, dim)
    total: FloatArray | None = None
    for word, coefficient in polynomial:
        term = float(coefficient) * words.product(word)
        total = term if total is None else total + term
    assert total is not None  # a factorization has at least one term
    return total


def trace(polynomial: Polynomial, parameters: Mapping[str, FloatArray], dim: int) -> float:
    """Tr of a square polynomial: entrywise products of half words, O(d r) for words of one or two letters."""
    total = 0.0
    dim = 1 if polynomial.rows == SCALARS else dim
    words = _words(polynomial, parameters, 1)
    for word, coefficient in polynomial:
        total += float(coefficient) * (words.trace(word) if len(word) else float(dim))
    return total


def add_trace_gradient(
    polynomial: Polynomial,
    parameters: Mapping[str, FloatArray],
    dim: int,
    moving: frozenset[str],
    weight: float,
    gradients: dict[str, FloatArray],
) -> None:
    """Add ``weight`` times the gradient of Tr P by every moving letter: u X v gives (v u)^T, u X^T v gives v u."""
    dim = 1 if polynomial.rows == SCALARS else dim
    pieces: dict[tuple[str, tuple[Letter, ...]], float] = {}
    for word, coefficient in polynomial:
        letters = word.letters
        for position, letter in enumerate(letters):
            if letter.name in moving:
                rest = letters[position + 1 :] + letters[:position]
                rest = rest if letter.transposed else tuple(each.T for each in reversed(rest))
                pieces[letter.name, rest] = pieces.get((letter.name, rest), 0.0) + weight * float(coefficient)
    words = _words(polynomial, parameters, dim)
    for (name, rest), value in pieces.items():
        product = words.product(rest)
        term = product * product.dtype.type(value)
        if name in gradients:
            gradients[name] += term
        else:
            gradients[name] = term


def _words(polynomial: Polynomial, parameters: Mapping[str, FloatArray], dim: int) -> Representation[Letter]:
    return Representation({letter.base: parameters[letter.name] for letter in polynomial.letters}, dim=dim)


__all__ = ["AttentionForms", "AttentionMatrix", "add_trace_gradient", "evaluate", "trace"]
