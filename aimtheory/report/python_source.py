"""The closed right-hand side as Python source that needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from aimtheory.dynamics import ClosedModel
from aimtheory.hierarchy import MomentHierarchy
from aimtheory.hierarchy.closure_map import ClosureMap, check_closure_map
from aimtheory.hierarchy.moment_source import moment_drift_source
from aimtheory.hierarchy.symbolic_couplings import coupling_formulas, symbolic_couplings
from aimtheory.hierarchy.system_source import PRELUDE, tuple_source
from aimtheory.report.coupling_source import coupling_names, coupling_source


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
    couplings = list(coupling_names(hierarchy.views.couplings).values())
    parts = symbolic_couplings(hierarchy)
    position = {word: n for n, word in enumerate(hierarchy.words)}
    supplied = len([value for value in check_closure_map(hierarchy, closure).values() if value != 0])
    lines = [
        f'"""Closed moment equations of the model {quoted(hierarchy.model.name)} at degree {hierarchy.degree}.',
        "",
        "d moments / dt = drift(couplings, moments), the moments in the order of WORDS. Of the words above the",
        f"truncation degree {supplied} are given by a closure map, the other "
        f"{len(hierarchy.missing) - supplied} are zero.",
        *CONVENTIONS,
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
        tuple_source("WORDS", [repr(name) for name in hierarchy.names]),
        tuple_source("COUPLINGS", [repr(name) for name in couplings]),
    ]
    if initial is not None:
        lines.append(tuple_source("INITIAL", [repr(float(value)) for value in initial]))
    if mean is not None:
        lines.append(tuple_source("MEAN", [repr(float(value)) for value in mean]))
    lines += ["", "", *moment_drift_source(hierarchy, couplings, closure), ""]
    if parts is not None:
        lines += coupling_source(hierarchy.views.couplings, parts, position)
    return "\n".join(lines)


def closed_source(closed: ClosedModel) -> str:
    """A closed model of any closure as a module that needs numpy alone: ``INITIAL``, ``drift``, ``rhs`` where it can.

    ``rhs(t, state)`` is ``closed.rhs`` to rounding; ``moments(state)`` are the traces of WORDS, off which the couplings
    are read. Φ is a formula, or an average of products of functions of one Gaussian feature each (softmax of two
    tokens, any elementwise activation); elsewhere (softmax of three tokens or more) there is no ``rhs`` and the
    couplings must be supplied. Forms with a mean take it as a further argument, see ``python_source``. Raises
    ``InputError`` for a closure of one's own that does not write its equations.

    >>> import aimtheory as aim
    >>> closed = aim.close(aim.models.load("tied-softmax"), closure="gns", degree=5)
    >>> space = {}
    >>> exec(closed_source(closed), space)
    >>> bool(abs(space["rhs"](0.0, space["INITIAL"]) - closed.rhs(0.0, closed.initial)).max() < 1e-10)
    True
    """
    couplings = list(coupling_names(closed.views.couplings).values())
    parts = coupling_formulas(closed.model, closed.views)
    words = closed.couplings.words if parts is None else parts.words
    branch = None if closed.model.centred else closed.initial_branch
    lines = [
        f'"""The model {quoted(closed.model.name)} under the closure {closed.closure.name}'
        + ("." if closed.degree is None else f" of degree {closed.degree}."),
        "",
        "d state / dt = drift(couplings, state); moments(state) are the traces of WORDS.",
        *CONVENTIONS,
        "rhs(t, state) closes the system: the couplings are functions of those moments."
        if parts is not None
        else "The couplings must be supplied: functions of those moments, which have no short formula here.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *PRELUDE,
        tuple_source("WORDS", [repr(f"tr({word})") for word in words]),
        tuple_source("COUPLINGS", [repr(name) for name in couplings]),
        *([] if branch is None else [tuple_source("MEAN", [repr(float(value)) for value in branch.mean])]),
        *closed.system.source(words, couplings),
        "",
    ]
    if parts is not None:
        position = {word: n for n, word in enumerate(words)}
        lines += coupling_source(closed.views.couplings, parts, position, of_state=False)
    return "\n".join(lines)


CONVENTIONS = (
    "Couplings: g_kl = [grad Phi]_kl with dPhi = sum over all ordered pairs of g_kl dq_kl, q_kl = tr(S_k S_l), so",
    "that g_12 is half the derivative by the shared variable q_12; g1, g2 likewise by tr(S_k S_l^T) and",
    "tr(S_k S_l); dPhi_R the derivative by a trace R; beta_k the bias of the mean; gamma the weight decay.",
)
"""What the couplings are, for the docstring of a module."""


def quoted(value: str) -> str:
    """A name that cannot end the docstring in which it stands."""
    return repr(value).replace("\\", "/").replace('"', "'")


__all__ = ["closed_source", "python_source"]
