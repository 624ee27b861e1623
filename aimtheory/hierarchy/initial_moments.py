"""Initial conditions: the joint law of the views at time zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aimtheory.errors import InputError, NumericsError
from aimtheory.hierarchy.moments import MomentHierarchy
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.spectra import FreeFamily, JointLaw, MatrixFamily, SpectralLaw
from aimtheory.words import Letter


def initial_law(model: AttentionModel, views: Views) -> FreeFamily:
    """The free family of the model's laws, letters in the order of the alphabet.

    Independent matrices, one of them orthogonally invariant, are free as d tends to infinity, so that all mixed moments
    follow from the laws of the indices. Raises ``InputError`` when a view is not a self-adjoint matrix with a law of
    its own (factors of untied attention).
    """
    laws: dict[str, SpectralLaw] = {}
    for index in model.indices:
        words = tuple(views.read(word) for word, _ in index.factorization.polynomial)
        simple = len(words) == 1 and len(words[0]) == 1 and words[0].letters[0].symmetric
        if simple and isinstance(index.law, SpectralLaw):
            laws[str(words[0])] = index.law
    letters = [str(letter) for letter in views.alphabet.letters]
    lacking = [name for name in letters if name not in laws]
    if lacking:
        raise InputError(
            f"no spectral law gives the initial moments of {', '.join(lacking)}; give matrices instead "
            "(initial=MatrixFamily(...)), or use a tied model whose student and teacher have spectral laws"
        )
    return FreeFamily({name: laws[name] for name in letters})


def matrix_views(views: Views, parameters: Mapping[str, np.ndarray]) -> dict[Letter, np.ndarray]:
    """Every letter of the alphabet as a matrix, from the matrices of the parameters by name."""
    result: dict[Letter, np.ndarray] = {}
    for letter, word in views.expansion.items():
        product: np.ndarray | None = None
        for factor in word:
            base = factor.T if factor.transposed else factor
            if base.name not in parameters:
                raise InputError(f"no matrix was given for {base.name}; given are {', '.join(sorted(parameters))}")
            matrix = np.asarray(parameters[base.name])
            matrix = matrix.T if factor.transposed else matrix
            product = matrix if product is None else product @ matrix
        assert product is not None  # an expansion has at least one letter
        result[letter] = product
        if not letter.symmetric:
            result[letter.T] = product.T
    return result


def matrix_family(views: Views, parameters: Mapping[str, np.ndarray]) -> MatrixFamily:
    """Given parameter matrices as initial condition, letters in the order of the alphabet."""
    matrices = matrix_views(views, parameters)
    return MatrixFamily({str(letter): matrices[letter] for letter in views.alphabet.letters})


def initial_moments(hierarchy: MomentHierarchy, law: JointLaw | None = None) -> np.ndarray:
    """The moments of all words of a hierarchy at time zero, float64, in state order.

    ``law`` defaults to the free family of the model. Raises ``InputError`` when its letters are not those of the
    alphabet and ``NumericsError`` when a moment is not finite.
    """
    law = initial_law(hierarchy.model, hierarchy.views) if law is None else law
    check_letters(law, hierarchy.views)
    values = [law.moments_of_codes(codes, n + 1) for n, codes in enumerate(hierarchy.codes) if len(codes)]
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


__all__ = ["check_letters", "initial_law", "initial_moments", "matrix_family", "matrix_views"]
