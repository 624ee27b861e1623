"""The closed right-hand side as Python source that needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import sympy as sp
from sympy.printing.numpy import NumPyPrinter

from aimtheory.hierarchy import MomentHierarchy
from aimtheory.hierarchy.closure_map import ClosureMap, check_closure_map
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.hierarchy.symbolic_couplings import symbolic_couplings
from aimtheory.report.coupling_source import coupling_source
from aimtheory.words import Word


def python_source(
    hierarchy: MomentHierarchy,
    initial: Sequence[float] | None = None,
    potential: sp.Expr | None = None,
    mean: Sequence[float] | None = None,
    closure: ClosureMap | None = None,
) -> str:
    """A module that needs numpy alone: ``WORDS``, ``COUPLINGS``, ``drift(couplings, moments)``, and more where it can.

    The equations of the hierarchy under a closure map; without one, words above the truncation degree are zero ([D]
    (13)). tr 1 is one. ``moments`` has shape (number of words, ...). Exact rational coefficients, evaluated in floats.

    Where the potential has a closed form, ``couplings(moments)`` and ``rhs(t, moments)`` close the system: the same
    right-hand side as that of ``solve(closure="zero")``. Forms with a mean take it as a further argument, a value on
    the branch, and ``settle(moments, mean)`` moves it to m*(q); ``MEAN`` is that of time zero, when given. ``INITIAL``
    are the moments at time zero, when given.

    >>> import aimtheory as aim
    >>> space = {}
    >>> exec(python_source(aim.derive(aim.models.load("exact-linear"), 2)), space)
    >>> [float(x) for x in space["rhs"](0.0, [0.5, 1.0, 0.5, 0.5, 1.5])]
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    names = {coupling: coupling.name.replace(",", "_") for coupling in hierarchy.views.couplings}
    couplings = list(names.values())
    parts = symbolic_couplings(hierarchy)
    position = {word: n for n, word in enumerate(hierarchy.words)}
    supplied = {word: value for word, value in check_closure_map(hierarchy, closure).items() if value != 0}
    place = {word: n for n, word in enumerate(supplied)}
    lines = [
        f'"""Closed moment equations of the model {_text(hierarchy.model.name)} at degree {hierarchy.degree}.',
        "",
        "d moments / dt = drift(couplings, moments), the moments in the order of WORDS. Of the words above the",
        f"truncation degree {len(supplied)} are given by a closure map, the other "
        f"{len(hierarchy.missing) - len(supplied)} are zero.",
        "Couplings: g_kl = [grad Phi]_kl with dPhi = sum over all ordered pairs of g_kl dq_kl, q_kl = tr(S_k S_l), so",
        "that g_12 is half the derivative by the shared variable q_12; g1, g2 likewise by tr(S_k S_l^T) and",
        "tr(S_k S_l); beta_k the bias of the mean; gamma the weight decay.",
        "rhs(t, moments) closes the system: the couplings are formulas of the moments."
        if parts is not None
        else "Phi has no closed form here, so the couplings must be supplied: functions of the second moments.",
    ]
    if potential is not None:
        lines.append(f"Phi = {potential}")
    lines += [
        '"""',
        "",
        "import numpy as np",
        "",
        _tuple("WORDS", [repr(name) for name in hierarchy.names]),
        _tuple("COUPLINGS", [repr(name) for name in couplings]),
    ]
    if initial is not None:
        lines.append(_tuple("INITIAL", [repr(float(value)) for value in initial]))
    if mean is not None:
        lines.append(_tuple("MEAN", [repr(float(value)) for value in mean]))
    lines += [
        "",
        "",
        "def drift(couplings, moments):",
        '    """Time derivatives of the moments, an array of their shape."""',
        f"    ({', '.join(couplings)}{',' if couplings else ''}) = couplings",
        "    m = np.asarray(moments, dtype=float)",
        f"    if len(m) != {len(hierarchy)}:",
        f'        raise ValueError(f"{len(hierarchy)} moments are needed, in the order of WORDS; got {{len(m)}}")',
        "    result = np.zeros(m.shape)",
    ]
    if supplied:
        lines += ["    c = (", *(f"        {_numpy(value, hierarchy)}," for value in supplied.values()), "    )"]
    for n, word in enumerate(hierarchy.words):
        # A word without letters is tr 1 = 1: the term is the coupling itself.
        kept = [
            _term(c, names[coupling], _place(v, position, place))
            for (coupling, v), c in hierarchy.drift(word).items()
            if v in position or v in place or not len(v)
        ]
        if kept:
            lines.append(f"    # {hierarchy.names[n]}")
            lines.append(f"    result[{n}] = {_join(kept)}")
    lines += ["    return result", ""]
    if parts is not None:
        lines += coupling_source(hierarchy, parts, names)
    return "\n".join(lines)


def _place(word: Word, position: Mapping[Word, int], supplied: Mapping[Word, int]) -> str | None:
    """Where a moment stands in the module; None for tr 1."""
    if not len(word):
        return None
    return f"m[{position[word]}]" if word in position else f"c[{supplied[word]}]"


def _numpy(value: sp.Expr, hierarchy: MomentHierarchy) -> str:
    """An expression of the moments as numpy code."""
    names = {moment_symbol(word): sp.Symbol(f"m[{n}]", real=True) for n, word in enumerate(hierarchy.words)}
    return str(NumPyPrinter().doprint(value.xreplace(names))).replace("numpy.", "np.")


def _term(coefficient: Fraction, coupling: str, target: str | None) -> str:
    """One term; without a target it has no moment."""
    sign = "-" if coefficient < 0 else "+"
    size = abs(coefficient)
    front = (
        ""
        if size == 1
        else f"{size.numerator} * "
        if size.denominator == 1
        else f"{size.numerator} / {size.denominator} * "
    )
    return f"{sign} {front}{coupling}" + ("" if target is None else f" * {target}")


def _join(terms: Sequence[str]) -> str:
    """Terms as an expression, in parentheses over several lines when it is long."""
    first = terms[0][2:] if terms[0].startswith("+") else f"-{terms[0][2:]}"
    flat = " ".join([first, *terms[1:]])
    if len(flat) <= 100:
        return flat
    return "(\n        " + "\n        ".join([first, *terms[1:]]) + "\n    )"


def _tuple(name: str, items: Sequence[str]) -> str:
    return f"{name} = (\n" + "".join(f"    {item},\n" for item in items) + ")"


def _text(value: str) -> str:
    """A name that cannot end the docstring in which it stands."""
    return repr(value).replace("\\", "/").replace('"', "'")


__all__ = ["python_source"]
