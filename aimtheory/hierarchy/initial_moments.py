"""Initial conditions: the joint law of the views at time zero."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.population import check_extensive_rank
from aimtheory.spectra import (
    FockFamily,
    FockLetter,
    FreeFamily,
    JointLaw,
    MatrixFamily,
    ScalarsBeside,
    SpectralLaw,
    extensive_rank_limit,
)
from aimtheory.spectra.law_checks import is_joint_law
from aimtheory.words import SCALARS, Letter, Representation

if TYPE_CHECKING:
    from aimtheory.hierarchy.moments import MomentHierarchy

ParameterMatrices = Mapping[str, np.ndarray]
"""Given matrices of the parameter letters, by name: an initial condition at finite d."""


def initial_law(model: AttentionModel, views: Views) -> JointLaw:
    """The joint law of the views at time zero, letters in the order of the alphabet.

    Independent matrices, one of them orthogonally invariant, are free as d tends to infinity, so that all mixed
    moments follow from the laws of the parameters: a ``FreeFamily`` when every view is self-adjoint with a law of its
    own (exact moments), else a ``FockFamily`` of Gaussian factors; numbers ride along. Raises ``InputError`` for a law
    that is neither.
    """
    matrices = [letter for letter in views.alphabet.letters if not letter.is_scalar]
    laws = {str(letter): _view_law(model, views, letter) for letter in matrices}
    known = {name: law for name, law in laws.items() if law is not None}
    if len(known) == len(laws):
        base: JointLaw = FreeFamily(known)
    else:
        quiver, widths = fock_quiver(model, views)
        base = FockFamily({str(letter): _factors(views, letter) for letter in matrices}, quiver, widths)
    return with_scalars(base, views, initial_scalars(model))


def _view_law(model: AttentionModel, views: Views, letter: Letter) -> SpectralLaw | None:
    """The spectral law of a self-adjoint view: that of X, or of X X^T when no other letter has X's columns."""
    word = views.expansion.get(letter)
    if word is None or not letter.symmetric:
        return None
    first = word.letters[0]
    law = model.parameter(first.name).known_law()
    if len(word) == 1:
        found = law.free_letter()
        return found if law.is_self_adjoint else None  # type: ignore[return-value]  # a self-adjoint law is spectral
    shared = [x for x in model.letters.values() if first.columns in (x.rows, x.columns) and x != first.base]
    return None if shared or len(word) != 2 else law.gram()


def _factors(views: Views, letter: Letter) -> tuple[tuple[str, bool], ...]:
    word = views.expansion[letter.T].T if letter.transposed else views.expansion[letter]
    return tuple((factor.base.name, factor.transposed) for factor in word)


def fock_quiver(model: AttentionModel, views: Views) -> tuple[tuple[FockLetter, ...], dict[str, float]]:
    """The parameter letters as free letters of a quiver, with the widths of their spaces.

    Raises ``InputError`` when a letter is neither Gaussian nor self-adjoint with a spectral law.
    """
    widths = {space: float(width) for space, width in model.widths.items()}
    quiver = []
    for letter in views.parameters:
        if letter.is_scalar:
            continue
        parameter = model.parameter(letter.name)
        try:
            law = parameter.known_law().free_letter()
        except InputError as error:
            inside = ", ".join(f"{form.name} = {form.matrix}" for form in model.forms if letter in form.matrix.letters)
            raise InputError(
                f"no moments follow from the law {parameter.law!r} of {letter.name}"
                f"{f' in {inside}' if inside else ''}: {error}"
            ) from None
        for space in (letter.rows, letter.columns):
            if space not in widths:
                raise InputError(
                    f"the width of the space {space!r} of {letter.name} is not given: no law of a letter with these "
                    "columns has one"
                )
        described = law if parameter.known_law().is_self_adjoint else float(law)  # type: ignore[arg-type]
        quiver.append(
            FockLetter(letter.name, letter.rows, letter.columns, described, views.parameter_degree(letter))  # type: ignore[arg-type]
        )
    return tuple(quiver), widths


def initial_scalars(model: AttentionModel) -> dict[str, float]:
    """Where the trainable scalars start, by name."""
    rng = np.random.default_rng(0)  # the law of a number is a constant
    return {x.name: float(x.known_law().draw(1, 1, 1, rng)[0, 0]) for x in model.parameters if x.is_scalar}


def with_scalars(base: JointLaw, views: Views, values: Mapping[str, float]) -> JointLaw:
    """A joint law of the matrices together with the numbers of the model, letters in the order of the alphabet."""
    if not values:
        return base
    named = {str(letter): values[letter.name] for letter in views.alphabet.letters if letter.is_scalar}
    return ScalarsBeside(base, named, tuple(map(str, views.alphabet.letters)))


def initial_means(model: AttentionModel) -> np.ndarray:
    """The limits m_k of Tr S_k/sqrt(d) at time zero, shape (K,): the means of the forms and those that the laws of
    single letters carry. A product of independent letters has none."""
    means = []
    for form in model.forms:
        total = float(form.mean)
        for word, coefficient in form.matrix:
            if not model.centred and len(word) == 1:
                law = model.parameter(word.letters[0].name).law
                scaled = Fraction(0) if law is None else law.scaled_trace
                total += float(coefficient) * float(scaled or 0)
        means.append(total)
    return np.array(means)


def matrix_views(views: Views, parameters: ParameterMatrices) -> dict[Letter, np.ndarray]:
    """Every letter of the alphabet as a matrix, from the matrices of the parameters by name."""
    result: dict[Letter, np.ndarray] = {}
    checked = check_parameters(views, parameters)
    words = Representation({letter: checked[letter.name] for letter in views.parameters})
    for letter, word in views.expansion.items():
        result[letter] = words.product(word)
        if not letter.symmetric:
            result[letter.T] = result[letter].T
    return result


def check_parameters(views: Views, parameters: ParameterMatrices) -> dict[str, np.ndarray]:
    """The matrices as float64 arrays of fitting shapes; ``InputError`` names the letter, the shape or the entry that
    is wrong.
    """
    sizes: dict[str, tuple[int, str]] = {SCALARS: (1, "the space of numbers")}
    result: dict[str, np.ndarray] = {}
    for letter in views.parameters:
        if letter.name not in parameters:
            raise InputError(
                f"no matrix was given for {letter.name}; given are {', '.join(sorted(parameters)) or 'none'}"
            )
        matrix = np.asarray(parameters[letter.name], dtype=np.float64)
        if matrix.ndim != 2:
            raise InputError(f"the matrix of {letter.name} has shape {matrix.shape}; it must have rows and columns")
        if not np.isfinite(matrix).all():
            raise InputError(f"the matrix of {letter.name} has an entry that is not finite")
        for space, size in ((letter.rows, matrix.shape[0]), (letter.columns, matrix.shape[1])):
            known, owner = sizes.setdefault(space, (size, letter.name))
            if known != size:
                raise InputError(
                    f"the matrix of {letter.name} has shape {matrix.shape}, so the space {space!r} has dimension "
                    f"{size}, but {owner} says {known}; factors that share a space must fit"
                )
        if letter.symmetric and np.abs(matrix - matrix.T).max() > 1e-12 * max(1.0, np.abs(matrix).max()):
            raise InputError(f"the matrix of {letter.name} is not symmetric, as this letter must be")
        result[letter.name] = matrix
    return result


def matrix_family(views: Views, parameters: ParameterMatrices) -> JointLaw:
    """Given parameter matrices as initial condition, letters in the order of the alphabet."""
    matrices = matrix_views(views, parameters)
    family = MatrixFamily({str(letter): matrices[letter] for letter in views.alphabet.letters if not letter.is_scalar})
    scalars = {letter.name: float(matrix[0, 0]) for letter, matrix in matrices.items() if letter.is_scalar}
    return with_scalars(family, views, scalars)


def joint_law(model: AttentionModel, views: Views, initial: JointLaw | ParameterMatrices | None) -> JointLaw:
    """Any initial condition as a joint law of the views: the model's own when None, given parameter matrices as a
    family.
    """
    if initial is None:
        return initial_law(model, views)
    law = initial if is_joint_law(initial) else matrix_family(views, initial)  # type: ignore[arg-type]  # a mapping
    check_letters(law, views)
    given = law.matrix_part.given_matrices
    if given is not None:
        matrices = [letter for letter in views.alphabet.letters if not letter.is_scalar]
        check_given_matrices(views, {letter: given[str(letter)] for letter in matrices})
    return law


def check_positive_views(views: Views, matrices: Mapping[Letter, np.ndarray]) -> None:
    """Raise ``AssumptionError`` when a view X X^T is given by what is not positive semidefinite."""
    for letter, matrix in matrices.items():
        word = None if letter.transposed else views.expansion.get(letter)
        if word is None or len(word) < 2 or word != word.T:
            continue
        scale = max(1.0, float(np.abs(matrix).max()))
        if float(np.abs(matrix - matrix.T).max()) > 1e-8 * scale:
            raise AssumptionError(f"{letter} = {word} must be symmetric, but the matrix given is not")
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        if smallest < -1e-7 * scale:
            raise AssumptionError(
                f"{letter} = {word} must be positive semidefinite, but what is given for it has the eigenvalue "
                f"{smallest:.4g}: no real factor has these moments (for a spectral law, take one on [0, infinity))"
            )


def check_given_matrices(views: Views, matrices: Mapping[Letter, np.ndarray]) -> None:
    """Raise ``AssumptionError`` when a given attention matrix is close to finite rank (Assumption 1.1 of [D]).

    Only self-adjoint views are looked at, and only those that are an attention matrix by themselves.
    """
    check_positive_views(views, matrices)
    alone = {word.letters[0] for S in views.matrices for word, _ in S if len(word) == 1 and len(S) == 1}
    for letter, matrix in matrices.items():
        if letter in alone and letter.symmetric and matrix.any():
            spectrum = np.linalg.eigvalsh(matrix)
            check_extensive_rank(spectrum, limit=extensive_rank_limit(len(matrix)), name=str(letter))


def initial_moments(hierarchy: MomentHierarchy, law: JointLaw | ParameterMatrices | None = None) -> np.ndarray:
    """The moments of all words of a hierarchy at time zero, float64, in state order.

    ``law`` defaults to that of the model. Raises ``InputError`` when its letters are not those of the alphabet and
    ``NumericsError`` when a moment is not finite.
    """
    joint = joint_law(hierarchy.model, hierarchy.views, law)
    values = [joint.moments_of_codes(codes, n + 1) for n, codes in enumerate(hierarchy.codes) if len(codes)]
    result = np.concatenate(values) if values else np.zeros(0)
    if not np.isfinite(result).all():
        bad = int(np.flatnonzero(~np.isfinite(result))[0])
        raise NumericsError(f"initial moment {hierarchy.names[bad]} = {result[bad]} is not finite")
    return result


def check_letters(law: JointLaw, views: Views) -> None:
    """Raise ``InputError`` unless the law's letters are the alphabet's, in its order."""
    expected = tuple(str(letter) for letter in views.alphabet.letters)
    if tuple(law.letters) != expected:
        raise InputError(
            f"the initial law has letters {', '.join(law.letters)}; this model needs {', '.join(expected)}"
        )


__all__ = [
    "ParameterMatrices",
    "check_given_matrices",
    "check_letters",
    "check_parameters",
    "check_positive_views",
    "fock_quiver",
    "initial_law",
    "initial_means",
    "initial_moments",
    "initial_scalars",
    "joint_law",
    "matrix_family",
    "matrix_views",
    "with_scalars",
]
