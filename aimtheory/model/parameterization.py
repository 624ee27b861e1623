"""Parameterizations: an attention matrix of a law, made of parameters as tied, untied or direct attention makes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from aimtheory.errors import InputError
from aimtheory.model.form import Form
from aimtheory.model.parameter import Parameter
from aimtheory.scalars import to_scalar
from aimtheory.spectra import InitialLaw, MatrixLaw
from aimtheory.spectra.law_checks import is_parameter_law
from aimtheory.words import Polynomial


@dataclass(frozen=True)
class Attention:
    """One attention matrix: its form, its parameters, and readable names for products of them (A1 for U1 U1^T)."""

    form: Form
    parameters: tuple[Parameter, ...]
    names: tuple[tuple[str, str], ...] = ()


def tied(k: int, law: MatrixLaw | None = None, *, trained: bool = True) -> Attention:
    """S_k = W_k W_k^T ([D] section 3), W_k of shape d x r_k; ``law`` is that of S_k. Counts from 1.

    >>> tied(1).form.polynomial
    'W1 W1^T'
    """
    factor = None if law is None else law.factor()
    if law is not None and factor is None:
        raise InputError(
            f"law {law!r} does not fit tied attention: S_{k} = W_{k} W_{k}^T is positive, and this law is not that of "
            "such a product; use Wishart or another spectral law on [0, infinity)"
        )
    return Attention(Form(f"S{k}", f"W{k} W{k}^T"), (Parameter(f"W{k}", "d", f"r{k}", factor, trained),))


def untied(k: int, law: MatrixLaw | None = None, *, trained: bool = True) -> Attention:
    """M_k = U_k V_k^T ([D] section 4), U_k and V_k of shape d x r_k, with A_k = U_k U_k^T and B_k = V_k V_k^T."""
    pair = (None, None) if law is None else law.factor_pair()
    if pair is None:
        raise InputError(f"law {law!r} does not fit untied attention, U_{k} V_{k}^T; use GaussianFactors")
    left, right = (Parameter(f"{x}{k}", "d", f"r{k}", each, trained) for x, each in zip("UV", pair, strict=True))
    names = ((f"A{k}", f"U{k} U{k}^T"), (f"B{k}", f"V{k} V{k}^T"))
    return Attention(Form(f"M{k}", f"U{k} V{k}^T"), (left, right), names)


def direct(
    k: int, law: MatrixLaw | None = None, *, trained: bool = True, name: str = "S", symmetric: bool = False
) -> Attention:
    """S_k itself ([D] appendix E), any d x d matrix; ``symmetric`` for one that is its own transpose."""
    if law is not None and not is_parameter_law(law):
        raise InputError(f"law {law!r} does not fit a matrix that is a parameter itself; use Ginibre or a spectral law")
    parameter = Parameter(f"{name}{k}", law=law, trained=trained, symmetric=symmetric)
    return Attention(Form(f"{name}{k}", f"{name}{k}"), (parameter,))


def written(
    name: str,
    polynomial: Polynomial,
    laws: Mapping[str, InitialLaw] | None = None,
    *,
    trained: bool | Collection[str] = True,
    mean: object = 0,
) -> Attention:
    """S_k as a polynomial of letters of your own, with their ``laws`` by name; ``trained``: all, none, or those named.

    >>> from aimtheory.words import Letter
    >>> U, V = Letter("U", "d", "r"), Letter("V", "d", "r")
    >>> [p.trained for p in written("S1", Polynomial.word(U, V.T), trained=("U",)).parameters]
    [True, False]
    """
    known = dict(laws or {})
    unknown = sorted(set(known) - {letter.name for letter in polynomial.letters})
    if unknown:
        raise InputError(f"a law is given for {unknown[0]!r}, which is not a letter of {name} = {polynomial}")
    moving = {letter.name for letter in polynomial.letters} if trained is True else set(trained or ())
    unknown = sorted(moving - {letter.name for letter in polynomial.letters})
    if unknown:
        raise InputError(f"trained letter {unknown[0]!r} is not a letter of {name} = {polynomial}")
    parameters = tuple(
        Parameter(x.name, x.rows, x.columns, known.get(x.name), x.name in moving, x.symmetric)
        for x in polynomial.letters
    )
    return Attention(Form(name, polynomial, to_scalar(mean, "mean")), parameters)


PARAMETERIZATIONS: Mapping[str, Callable[..., Attention]] = {"tied": tied, "untied": untied, "direct": direct}
"""Built-in parameterizations by name; any other polynomial is written as a ``Form``."""


def parameterized(name: object, k: int, law: MatrixLaw | None, *, trained: bool = True) -> Attention:
    """The attention matrix of that parameterization; ``InputError`` lists the names that exist."""
    if not isinstance(name, str) or name not in PARAMETERIZATIONS:
        raise InputError(
            f"unknown parameterization {name!r}; choose one of {', '.join(PARAMETERIZATIONS)}, or build an "
            "AttentionModel from your own Form"
        )
    return PARAMETERIZATIONS[str(name)](k, law, trained=trained)


def fixed_teacher(name: str, k: int, law: MatrixLaw) -> Attention:
    """A fixed teacher: factored as the student where its law allows it, else as its law is, else the matrix itself."""
    if name == "tied" and law.factor() is not None:
        return tied(k, law, trained=False)
    if law.factor_pair() is not None:
        return untied(k, law, trained=False)
    letter = "M" if name == "untied" else "S"
    return direct(k, law, trained=False, name=letter, symmetric=law.is_self_adjoint)


__all__ = ["PARAMETERIZATIONS", "Attention", "direct", "fixed_teacher", "parameterized", "tied", "untied", "written"]
