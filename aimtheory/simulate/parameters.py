"""Parameter matrices at finite d: sampled or given, checked, and put in the basis where simulation is cheapest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.arrays import real_array
from aimtheory.errors import InputError
from aimtheory.model import AttentionModel, Context
from aimtheory.population import check_extensive_rank
from aimtheory.simulate.attention_forms import AttentionForms, AttentionMatrix, evaluate
from aimtheory.simulate.gaussian_tokens import FloatArray
from aimtheory.spectra import extensive_rank_limit
from aimtheory.words import EMBEDDING, SCALARS, Letter, Polynomial

Matrices = dict[str, NDArray[np.float64]]


def moving_letters(model: AttentionModel) -> frozenset[str]:
    """Names of the letters that SGD moves."""
    return frozenset(letter.name for letter in model.trained_letters)


def model_letters(model: AttentionModel) -> dict[str, Letter]:
    """Every parameter letter of the model by name, untransposed."""
    return model.letters


def initial_parameters(model: AttentionModel, dim: int, seed: int | np.random.SeedSequence) -> Matrices:
    """The parameter matrices from which ``sgd(model, dim=dim, seed=seed)`` starts, by letter name, float64.

    Drawn from the laws of the model. Give them to a theory to start it from the same matrices (``MatrixFamily``), so
    that initial fluctuations O(1/d) drop out of the comparison.
    """
    return model.sample(dim, np.random.default_rng(seed_streams(seed)[0]))


def seed_streams(seed: int | np.random.SeedSequence) -> list[np.random.SeedSequence]:
    """Independent seed sequences of one run: parameters, tokens of the steps, tokens of the measured loss."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    # Built by key and not by ``spawn``, which counts its calls: the same sequence must give the same streams again.
    return [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, n)) for n in range(3)]


def check_parameters(model: AttentionModel, parameters: Mapping[str, ArrayLike], dim: int | None) -> Matrices:
    """Given matrices as float64 copies; ``InputError`` names a letter that is missing, foreign, misshapen or not
    finite.
    """
    letters = model_letters(model)
    unknown = sorted(set(parameters) - set(letters))
    missing = sorted(set(letters) - set(parameters))
    if unknown or missing:
        what = f"unknown {unknown[0]!r}" if unknown else f"no matrix for {missing[0]!r}"
        raise InputError(f"parameters: {what}; this model needs exactly {', '.join(sorted(letters))}")
    sizes: dict[str, tuple[int, str]] = {SCALARS: (1, "the space of numbers")}
    if dim is not None:
        sizes[EMBEDDING] = (dim, "dim")
    result: Matrices = {}
    for name, letter in letters.items():
        matrix = real_array(parameters[name], f"parameters[{name!r}]", ndim=2)
        if 0 in matrix.shape:
            raise InputError(f"parameters[{name!r}] has shape {matrix.shape}; it must have rows and columns")
        for space, size in zip((letter.rows, letter.columns), matrix.shape, strict=True):
            known, source = sizes.setdefault(space, (size, name))
            if known != size:
                raise InputError(
                    f"parameters[{name!r}] has shape {matrix.shape}, but {source} fixes the dimension "
                    f"of space {space!r} to {known}"
                )
        if letter.symmetric and not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max()):
            raise InputError(f"parameters[{name!r}] is not symmetric, but its letter is declared so")
        result[name] = matrix
    return result


def extensive_ranks(model: AttentionModel, parameters: Matrices, dim: int) -> dict[str, float]:
    """||S_k||_op / ||S_k||_F of every attention matrix that is not zero, by name; cost d^3.

    Assumption 1.1 of [D] asks that the ratio tends to 0. Raises ``AssumptionError`` above max(1/2, 4/sqrt(d)): less
    than 4 effective directions, unless d is so small that matrices of extensive rank have no more (MP has sqrt(8/d)).
    """
    limit = extensive_rank_limit(dim)
    found = {}
    for form in model.forms:
        name = form.name
        matrix = evaluate(form.matrix, parameters, dim)
        if matrix.any():
            symmetric = form.is_symmetric
            spectrum = (
                np.linalg.eigvalsh((matrix + matrix.T) / 2) if symmetric else np.linalg.svd(matrix, compute_uv=False)
            )
            found[name] = check_extensive_rank(spectrum, limit=limit, name=name).ratio
    return found


@dataclass(frozen=True)
class WorkingBasis:
    """An orthonormal basis Q of the embedding space and, when Q diagonalizes a fixed S_k, that index and its spectrum.

    Gaussian tokens have the same law in every orthonormal basis, so that SGD may run in the eigenbasis of a teacher:
    its forms then cost O(L d) a sample instead of a matrix product. A letter X becomes Q^T X, X Q or Q^T X Q
    according to its spaces; traces do not change.
    """

    basis: NDArray[np.float64] | None = None
    index: int | None = None
    eigenvalues: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, model: AttentionModel, parameters: Matrices, dim: int) -> WorkingBasis:
        """The eigenbasis of the fixed symmetric attention matrix whose forms would cost most, if there is one."""
        moving = moving_letters(model)
        best: tuple[int, int] | None = None
        for k, form in enumerate(model.forms):
            polynomial = form.matrix
            if polynomial.is_symmetric and not moving & {letter.name for letter in polynomial.letters}:
                cost = sum(parameters[letter.name].size for letter in polynomial.letters)
                if best is None or cost > best[0]:
                    best = (cost, k)
        if best is None:
            return cls()
        matrix = evaluate(model.forms[best[1]].matrix, parameters, dim)
        eigenvalues, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        return cls(vectors, best[1], eigenvalues)

    def enter(self, parameters: Matrices, letters: Mapping[str, Letter]) -> Matrices:
        """The matrices in this basis."""
        return self._rotate(parameters, letters, self.basis)

    def leave(self, parameters: Mapping[str, FloatArray], letters: Mapping[str, Letter]) -> Matrices:
        """The matrices in the original basis, float64."""
        inverse = None if self.basis is None else self.basis.T
        return self._rotate(parameters, letters, inverse)

    @staticmethod
    def _rotate(
        parameters: Mapping[str, NDArray[Any]], letters: Mapping[str, Letter], basis: NDArray[np.float64] | None
    ) -> Matrices:
        result: Matrices = {}
        for name, matrix in parameters.items():
            rotated = np.array(matrix, dtype=np.float64)
            if basis is not None and letters[name].rows == EMBEDDING:
                rotated = basis.T @ rotated
            if basis is not None and letters[name].columns == EMBEDDING:
                rotated = rotated @ basis
            result[name] = rotated
        return result


def build_forms(
    model: AttentionModel,
    parameters: dict[str, FloatArray],
    dim: int,
    rows: int,
    dtype: np.dtype[Any],
    working: WorkingBasis | None = None,
    context: Context | None = None,
) -> AttentionForms:
    """The forms of a model at given matrices, each S_k entered in the way that costs fewest flops.

    A fixed S_k that is diagonal in the working basis enters by its spectrum; another fixed one as a single d x d
    matrix where that is cheaper than its factors. ``parameters`` may gain such constants; moving letters are used in
    place. ``context`` is that of the tokens, needed for a model that mixes several.
    """
    seen = model.context if context is None else context
    moving = moving_letters(model)
    matrices = []
    for k, (form, trained) in enumerate(zip(model.forms, model.trained_forms, strict=True)):
        polynomial = form.matrix
        letters = polynomial.letters
        spectrum = working.eigenvalues if working is not None and working.index == k else None
        if spectrum is None and not moving & {letter.name for letter in letters}:
            factors = {letter for word, _ in polynomial for letter in word}
            if sum(parameters[letter.name].size for letter in _distinct_halves(polynomial)) > dim * dim and factors:
                constant = Letter(f"constant{k + 1}", EMBEDDING, EMBEDDING)
                parameters[constant.name] = evaluate(polynomial, parameters, dim)
                polynomial = Polynomial.word(constant)
        matrices.append(AttentionMatrix(polynomial, trained and not form.detached, spectrum))
    return AttentionForms(matrices, parameters, moving, dim, seen.covariance_matrix, model.centred, rows, dtype)


def _distinct_halves(polynomial: Polynomial) -> list[Letter]:
    """One letter for each matrix product that the forms of the polynomial take, halves of palindromes counted once."""
    return [
        letter
        for word, _ in polynomial
        for letter in (word.letters[: len(word) // 2] if word == word.T and len(word) % 2 == 0 else word.letters)
    ]


__all__ = [
    "WorkingBasis",
    "build_forms",
    "check_parameters",
    "extensive_ranks",
    "initial_parameters",
    "model_letters",
    "moving_letters",
    "seed_streams",
]
