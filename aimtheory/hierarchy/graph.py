"""The dependency graph of the moments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.scalars import to_sympy
from aimtheory.words import Word, trace_name

if TYPE_CHECKING:
    from aimtheory.hierarchy.moments import MomentHierarchy
    from aimtheory.spectra import JointLaw


def moment_graph(hierarchy: MomentHierarchy, initial: JointLaw | None = None) -> nx.DiGraph:
    """The dependency graph of a hierarchy as a ``networkx.DiGraph``.

    Nodes are names of canonical words with ``degree`` (a string when fractional), ``constant``, ``missing`` (above the
    truncation degree) and ``initial``, the value at time 0 (absent for missing words, and when the law gives no
    moments), ``source`` where the drift has a term without a moment. An edge u -> v says that the drift of u calls on
    v; its ``coefficient`` is the sympy coefficient, linear in the couplings. Attributes are converted to text on
    export.
    """
    graph = nx.DiGraph(name=hierarchy.model.name, truncation=hierarchy.degree)
    if initial is None:
        try:
            initial = initial_law(hierarchy.model, hierarchy.views)
        except InputError:
            initial = None
    for name, word, constant in zip(hierarchy.names, hierarchy.words, hierarchy.constant, strict=True):
        graph.add_node(name, degree=hierarchy.views.degree(word), constant=bool(constant), missing=False)
        if initial is not None:
            graph.nodes[name]["initial"] = to_sympy(initial.moment([str(letter) for letter in word]))
    for word in hierarchy.missing:
        graph.add_node(trace_name(word), degree=hierarchy.views.degree(word), constant=False, missing=True)
    for name, word in zip(hierarchy.names, hierarchy.words, strict=True):
        total: dict[str, list[sp.Expr]] = {}
        for (coupling, target), coefficient in hierarchy.drift(word).items():
            total.setdefault(trace_name(target), []).append(to_sympy(coefficient) * coupling.symbol)
        source = total.pop(trace_name(Word(())), None)
        if source is not None:
            graph.nodes[name]["source"] = sp.Add(*source)
        for target_name, terms in total.items():
            graph.add_edge(name, target_name, coefficient=sp.Add(*terms))
    return graph


def write_graphml(graph: nx.DiGraph, path: str | Path) -> None:
    """Write the graph as GraphML with plain attributes: coefficients as text, initial values as floats."""
    plain = nx.DiGraph(**{key: str(value) for key, value in graph.graph.items()})
    for node, data in graph.nodes(data=True):
        attributes = dict(data)
        attributes["degree"] = float(data["degree"])
        if "initial" in data:
            value = data["initial"]
            attributes["initial"] = float(value) if value.is_number else str(value)
        if "source" in data:
            attributes["source"] = str(data["source"])
        plain.add_node(node, **attributes)
    for source, target, data in graph.edges(data=True):
        plain.add_edge(source, target, coefficient=str(data["coefficient"]))
    nx.write_graphml(plain, str(path))


__all__ = ["moment_graph", "write_graphml"]
