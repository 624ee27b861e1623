"""Initial conditions: the joint law of the views at time zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from aimtheory.errors import AssumptionError, InputError, NumericsError
from aimtheory.hierarchy.views import Views
from aimtheory.model import EMBEDDING, AttentionModel, LetterLaws
from aimtheory.population import check_extensive_rank
from aimtheory.spectra import (
    FockFamily,
    FockLetter,
    FreeFamily,
    GaussianFactors,
    Ginibre,
    JointLaw,
    MatrixFamily,
    SpectralLaw,
    Wishart,
    extensive_rank_limit,
)
from aimtheory.words import Letter

if TYPE_CHECKING:
    from aimtheory.hierarchy.moments import MomentHierarchy

ParameterMatrices = Mapping[str, np.ndarray]
"""Given matrices of the parameter letters, by name: an initial condition at finite d."""


def initial_law(model: AttentionModel, views: Views) -> JointLaw:
    """The joint law of the views at time zero, letters in the order of the alphabet.

    Independent matrices, one of them orthogonally invariant, are free as d tends to infinity, so that all mixed
    moments follow from the laws of the indices: a ``FreeFamily`` when every view is self-adjoint with a law of its
    own (exact moments), else a ``FockFamily`` of Gaussian factors. Raises ``InputError`` for a law that is neither.
    """
    laws: dict[str, SpectralLaw] = {}
    for index in model.indices:
        terms = tuple(index.factorization.polynomial)
        words = tuple(views.read(word) for word, _ in terms if len(word))
        # The law is that of S_k, so only when S_k is the letter itself is it the law of the letter.
        simple = (
            len(terms) == len(words) == 1 and terms[0][1] == 1 and len(words[0]) == 1 and words[0].letters[0].symmetric
        )
        if simple and isinstance(index.law, SpectralLaw):
            laws[str(words[0])] = index.law
    letters = [str(letter) for letter in views.alphabet.letters]
    if all(name in laws for name in letters):
        return FreeFamily({name: laws[name] for name in letters})
    quiver, widths = fock_quiver(model, views)
    products = {
        str(letter): tuple(
            (factor.base.name, factor.transposed)
            for factor in (views.expansion[letter.T].T if letter.transposed else views.expansion[letter])
        )
        for letter in views.alphabet.letters
    }
    return FockFamily(products, quiver, widths)


def fock_quiver(model: AttentionModel, views: Views) -> tuple[tuple[FockLetter, ...], dict[str, float]]:
    """The parameter letters as free letters of a quiver, with the widths of their spaces.

    Raises ``InputError`` when a letter is neither Gaussian nor self-adjoint with a spectral law.
    """
    laws: dict[str, float | SpectralLaw] = {}
    widths: dict[str, float] = {EMBEDDING: 1.0}
    for index in model.indices:
        form, law = index.factorization, index.law
        if isinstance(law, LetterLaws):
            for letter in form.letters:
                if letter.name not in law.laws:
                    raise InputError(
                        f"no law is given for the letter {letter.name} of {form.name}; add it to LetterLaws"
                    )
                value = law.laws[letter.name]
                laws[letter.name] = value if isinstance(value, SpectralLaw) else float(value)
                for space in (letter.rows, letter.columns):
                    if space != EMBEDDING:
                        if space not in law.widths:
                            raise InputError(
                                f"the width of the space {space!r} of {form.name} is not given in LetterLaws"
                            )
                        widths[space] = float(law.widths[space])
        elif form.kind == "tied" and isinstance(law, Wishart):
            (letter,) = form.letters
            widths[letter.columns] = float(law.width)
            laws[letter.name] = float(law.trace) / float(law.width)
        elif form.kind == "untied" and isinstance(law, GaussianFactors):
            left, right = form.letters
            widths[left.columns] = float(law.width)
            laws |= {left.name: float(law.left), right.name: float(law.right)}
        elif form.kind == "direct" and isinstance(law, Ginibre):
            laws[form.letters[0].name] = float(law.variance)
        elif form.kind == "direct" and isinstance(law, SpectralLaw):
            laws[form.letters[0].name] = law
        else:
            raise InputError(
                f"no moments follow from the law {law!r} of {form.name} = {form.polynomial}; use Gaussian factors "
                "(Wishart, GaussianFactors, Ginibre, LetterLaws), or give matrices: initial={name: matrix}"
            )
    quiver = tuple(
        FockLetter(letter.name, letter.rows, letter.columns, laws[letter.name], views.parameter_degree(letter))
        for letter in views.parameters
    )
    return quiver, widths


def initial_means(model: AttentionModel) -> np.ndarray:
    """The limits m_k of Tr S_k/sqrt(d) at time zero, shape (K,): zero but for laws that carry a mean."""
    means = [float(index.law.mean) if isinstance(index.law, Ginibre | LetterLaws) else 0.0 for index in model.indices]
    return np.array(means)


def matrix_views(views: Views, parameters: ParameterMatrices) -> dict[Letter, np.ndarray]:
    """Every letter of the alphabet as a matrix, from the matrices of the parameters by name."""
    result: dict[Letter, np.ndarray] = {}
    checked = check_parameters(views, parameters)
    for letter, word in views.expansion.items():
        product: np.ndarray | None = None
        for factor in word:
            matrix = checked[factor.base.name]
            matrix = matrix.T if factor.transposed else matrix
            product = matrix if product is None else product @ matrix
        assert product is not None  # an expansion has at least one letter
        result[letter] = product
        if not letter.symmetric:
            result[letter.T] = product.T
    return result


def check_parameters(views: Views, parameters: ParameterMatrices) -> dict[str, np.ndarray]:
    """The matrices as float64 arrays of fitting shapes; ``InputError`` names the letter, the shape or the entry that
    is wrong.
    """
    sizes: dict[str, tuple[int, str]] = {}
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


def matrix_family(views: Views, parameters: ParameterMatrices) -> MatrixFamily:
    """Given parameter matrices as initial condition, letters in the order of the alphabet."""
    matrices = matrix_views(views, parameters)
    return MatrixFamily({str(letter): matrices[letter] for letter in views.alphabet.letters})


def joint_law(model: AttentionModel, views: Views, initial: JointLaw | ParameterMatrices | None) -> JointLaw:
    """Any initial condition as a joint law of the views: the model's own when None, given parameter matrices as a
    family.
    """
    if initial is None:
        return initial_law(model, views)
    law = initial if isinstance(initial, JointLaw) else matrix_family(views, initial)
    check_letters(law, views)
    if isinstance(law, MatrixFamily):
        check_given_matrices(views, {letter: law.matrix(str(letter)) for letter in views.alphabet.letters})
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
    "joint_law",
    "matrix_family",
    "matrix_views",
]
