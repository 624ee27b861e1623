"""The Fock space of paths: rectangular Gaussian matrices and free self-adjoint ones, compressed to paths of bounded
degree.

A quiver of spaces (the embedding space, the inner spaces of factors) carries one Hilbert space a node, spanned by the
paths from the vacuum of the base node. A Gaussian letter X, rows a and columns b, entries of variance s/d, widths
rho_a = dim(a)/d, acts as

    X = sqrt(s rho_a) l(f) + sqrt(s rho_b) l(e)^*,   l(f): H_b -> H_a,   l(e): H_a -> H_b,

l(f) and l(e) the creation of a step; X^T is its adjoint. A square Gaussian matrix (Ginibre) is the case a = b. A
self-adjoint letter with a law of its own acts on the leading run of its own steps by its Jacobi matrix, as in the
free product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import scipy.sparse as sparse

from aimtheory.errors import InputError
from aimtheory.records import record
from aimtheory.spectra.law import FloatArray, SpectralLaw, check_words

Step = tuple[str, str, int]
"""(kind, letter, length of the run): kind ``"out"`` for l(e), ``"in"`` for l(f), ``"run"`` for a self-adjoint letter.
"""


@record("fock-letter")
@dataclass(frozen=True)
class FockLetter:
    """A letter of the quiver: ``law`` is the variance s of Gaussian entries (variance s/d), or a self-adjoint
    spectral law.
    """

    name: str
    rows: str
    columns: str
    law: float | SpectralLaw
    degree: Fraction = Fraction(1)
    spectral: SpectralLaw | None = field(init=False, repr=False, compare=False)
    """The law of a self-adjoint letter, None for Gaussian entries."""
    variance: float = field(init=False, repr=False, compare=False)
    """The variance s of Gaussian entries, NaN for a self-adjoint letter."""

    def __post_init__(self) -> None:
        spectral, variance = (self.law, math.nan) if isinstance(self.law, SpectralLaw) else (None, self.law)
        object.__setattr__(self, "spectral", spectral)
        object.__setattr__(self, "variance", variance)
        if spectral is not None:
            if self.rows != self.columns:
                raise InputError(f"letter {self.name} has a spectral law but maps {self.columns!r} to {self.rows!r}")
        elif not (math.isfinite(variance) and variance >= 0):
            raise InputError(f"letter {self.name}: variance {variance} must be finite and at least 0")
        if self.degree <= 0:
            raise InputError(f"letter {self.name}: degree {self.degree} must be positive")


@dataclass(frozen=True)
class FockOperators:
    """Letters compressed to all paths of degree <= ``depth`` from the vacuum of ``base``.

    ``operators[name]`` is a CSR matrix from the paths at its column space to those at its row space;
    ``dimensions[space]`` counts paths. The vacuum is path 0 of the base space. ``<vacuum, word vacuum>`` is the
    normalized trace of every closed word of degree <= 2 depth at the base.
    """

    letters: tuple[FockLetter, ...]
    depth: Fraction
    base: str
    operators: Mapping[str, sparse.csr_array]
    dimensions: Mapping[str, int]

    @property
    def state(self) -> FloatArray:
        """The vacuum vector of the base space."""
        vector = np.zeros(self.dimensions[self.base])
        vector[0] = 1.0
        return vector


def fock_operators(
    letters: Sequence[FockLetter], widths: Mapping[str, float], depth: Fraction | int, base: str = "d"
) -> FockOperators:
    """Compress free letters of a quiver to the paths of degree <= ``depth``.

    ``widths`` gives dim(space)/d for every space; the base has 1. Exact for all moments of degree <= 2 depth; the
    number of paths grows like (2 x letters)^depth. Raises ``InputError`` for an unknown space or a width that is not
    positive.

    >>> U = FockLetter("U", "d", "r", 1.0, Fraction(1, 2))
    >>> system = fock_operators([U], {"d": 1.0, "r": 0.5}, 1)
    >>> vector = system.operators["U"].T @ system.state
    >>> round(float(vector @ vector), 12)            # tr U U^T = rho s
    0.5
    """
    known: dict[str, float] = {base: 1.0, **{space: float(width) for space, width in widths.items()}}
    for letter in letters:
        for space in (letter.rows, letter.columns):
            if space not in known:
                raise InputError(f"letter {letter.name} uses the space {space!r}, whose width is not given")
            if not (math.isfinite(known[space]) and known[space] > 0):
                raise InputError(f"width of {space!r} is {known[space]}; it must be positive")
    depth = Fraction(depth)
    runs = {
        letter.name: letter.spectral.jacobi(int(depth / letter.degree) + 1).floats()
        for letter in letters
        if letter.spectral is not None
    }
    index: dict[str, dict[tuple[Step, ...], int]] = {space: {} for space in known}
    index[base][()] = 0
    queue: list[tuple[str, tuple[Step, ...], Fraction]] = [(base, (), Fraction(0))]
    for space, path, degree in queue:
        for letter in letters:
            if degree + letter.degree > depth:
                continue
            for target, new in _creations(letter, space, path, runs):
                if new not in index[target]:
                    index[target][new] = len(index[target])
                    queue.append((target, new, degree + letter.degree))
        check_words(len(queue), depth)
    operators = {letter.name: _operator(letter, index, known, runs) for letter in letters}
    dimensions = {space: len(paths) for space, paths in index.items()}
    return FockOperators(tuple(letters), depth, base, operators, dimensions)


def _raised(letter: FockLetter, path: tuple[Step, ...]) -> tuple[int, tuple[Step, ...]]:
    """Length of the leading run of a self-adjoint letter, and the path with that run one longer."""
    if path and path[0][0] == "run" and path[0][1] == letter.name:
        return path[0][2], (("run", letter.name, path[0][2] + 1), *path[1:])
    return 0, (("run", letter.name, 1), *path)


def _creations(
    letter: FockLetter, space: str, path: tuple[Step, ...], runs: Mapping[str, tuple[FloatArray, FloatArray]]
) -> list[tuple[str, tuple[Step, ...]]]:
    if letter.name in runs:
        if space != letter.rows:
            return []
        run, new = _raised(letter, path)
        return [(space, new)] if runs[letter.name][1][run] > 0 else []
    if letter.variance == 0:
        return []
    created = []
    if space == letter.columns:
        created.append((letter.rows, (("in", letter.name, 1), *path)))
    if space == letter.rows:
        created.append((letter.columns, (("out", letter.name, 1), *path)))
    return created


def _operator(
    letter: FockLetter,
    index: Mapping[str, Mapping[tuple[Step, ...], int]],
    widths: Mapping[str, float],
    runs: Mapping[str, tuple[FloatArray, FloatArray]],
) -> sparse.csr_array:
    rows, columns, values = [], [], []

    def put(row: int, column: int, value: float) -> None:
        rows.append(row)
        columns.append(column)
        values.append(value)

    targets = index[letter.rows]
    if letter.name in runs:
        diagonal, offdiagonal = runs[letter.name]
        for path, here in targets.items():
            run, new = _raised(letter, path)
            if diagonal[run] != 0:
                put(here, here, float(diagonal[run]))
            if new in targets:
                put(targets[new], here, float(offdiagonal[run]))
                put(here, targets[new], float(offdiagonal[run]))
    else:
        inward = math.sqrt(letter.variance * widths[letter.rows])
        outward = math.sqrt(letter.variance * widths[letter.columns])
        for path, here in index[letter.columns].items():
            new = (("in", letter.name, 1), *path)
            if new in targets:
                put(targets[new], here, inward)
            if path and path[0][:2] == ("out", letter.name):
                put(targets[path[1:]], here, outward)
    shape = (len(targets), len(index[letter.columns]))
    return sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


__all__ = ["FockLetter", "FockOperators", "Step", "fock_operators"]
