"""The drift of the moments as Python source, term by term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import sympy as sp

from aimtheory.hierarchy.closure_map import ClosureMap, check_closure_map
from aimtheory.hierarchy.moments import MomentHierarchy, moment_symbol
from aimtheory.hierarchy.system_source import numpy_text
from aimtheory.words import Word


def moment_drift_source(
    hierarchy: MomentHierarchy, couplings: Sequence[str], closure: ClosureMap | None = None
) -> list[str]:
    """The lines of ``drift(couplings, moments)``; ``couplings`` are identifiers in the order of the views.

    Words above the truncation degree are zero unless a closure map gives them. Exact rational coefficients.
    """
    names = dict(zip(hierarchy.views.couplings, couplings, strict=True))
    position = {word: n for n, word in enumerate(hierarchy.words)}
    supplied = {word: value for word, value in check_closure_map(hierarchy, closure).items() if value != 0}
    place = {word: n for n, word in enumerate(supplied)}
    lines = [
        "def drift(couplings, moments):",
        '    """Time derivatives of the moments, an array of their shape."""',
        f"    ({', '.join(couplings)}{',' if couplings else ''}) = couplings",
        "    m = np.asarray(moments, dtype=float)",
        f"    if len(m) != {len(hierarchy)}:",
        f'        raise ValueError(f"{len(hierarchy)} moments are needed, in the order of WORDS; got {{len(m)}}")',
        "    result = np.zeros(m.shape)",
    ]
    if supplied:
        numbered = {moment_symbol(word): sp.Symbol(f"m[{n}]", real=True) for word, n in position.items()}
        given = [f"        {numpy_text(value.xreplace(numbered))}," for value in supplied.values()]
        lines += ["    c = (", *given, "    )"]
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
    return [*lines, "    return result"]


def _place(word: Word, position: Mapping[Word, int], supplied: Mapping[Word, int]) -> str | None:
    """Where a moment stands in the module; None for tr 1."""
    if not len(word):
        return None
    return f"m[{position[word]}]" if word in position else f"c[{supplied[word]}]"


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


__all__ = ["moment_drift_source"]
