"""The closed right-hand side as Python source that needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sympy as sp

from aimtheory.hierarchy import MomentHierarchy


def python_source(
    hierarchy: MomentHierarchy, initial: Sequence[float] | None = None, potential: sp.Expr | None = None
) -> str:
    """A module with ``WORDS``, ``COUPLINGS``, ``INITIAL`` (when given) and ``drift(couplings, moments)``.

    The equations of the hierarchy under the zero closure: words above the truncation degree are zero ([D] (13)).
    ``moments`` has shape (number of words, ...). Exact rational coefficients, evaluated in floats.

    >>> import aimtheory as aim
    >>> space = {}
    >>> exec(python_source(aim.derive(aim.models.load("exact-linear"), 2)), space)
    >>> [float(x) for x in space["drift"]([2.0, -2.0], [0.5, 1.0, 0.5, 0.5, 1.5])]
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    couplings = [coupling.name.replace(",", "_") for coupling in hierarchy.views.couplings]
    position = {word: n for n, word in enumerate(hierarchy.words)}
    lines = [
        f'"""Closed moment equations of the model {_text(hierarchy.model.name)} at degree {hierarchy.degree}.',
        "",
        "d moments / dt = drift(couplings, moments), the moments in the order of WORDS. Zero closure: words above the",
        f"truncation degree are zero. Left out: {len(hierarchy.missing)} words.",
        "Couplings: g_kl = [grad Phi]_kl with dPhi = sum over all ordered pairs of g_kl dq_kl, q_kl = tr(S_k S_l), so",
        "that g_12 is half the derivative by the shared variable q_12; g1, g2 likewise by tr(S_k S_l^T) and",
        "tr(S_k S_l); beta_k the bias of the mean; gamma the weight decay.",
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
    for n, word in enumerate(hierarchy.words):
        kept = [(c, coupling, position[v]) for (coupling, v), c in hierarchy.drift(word).items() if v in position]
        if kept:
            lines.append(f"    # {hierarchy.names[n]}")
            terms = [_term(c, coupling.name.replace(",", "_"), target) for c, coupling, target in kept]
            lines.append(f"    result[{n}] = {_join(terms)}")
    lines += ["    return result", ""]
    return "\n".join(lines)


def _term(coefficient: Fraction, coupling: str, target: int) -> str:
    sign = "-" if coefficient < 0 else "+"
    size = abs(coefficient)
    front = (
        ""
        if size == 1
        else f"{size.numerator} * "
        if size.denominator == 1
        else f"{size.numerator} / {size.denominator} * "
    )
    return f"{sign} {front}{coupling} * m[{target}]"


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
