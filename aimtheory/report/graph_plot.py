"""The dependency graph of a hierarchy, drawn in layers by degree."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from aimtheory.errors import InputError
from aimtheory.hierarchy import MomentHierarchy
from aimtheory.report.style import GREY, LINES, OKABE_ITO, colour, new_figure, observable_label, plain_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_NODES = 100
_MISSING = 24
"""More words than this above the truncation degree are counted, not drawn."""


def graph_plot(hierarchy: MomentHierarchy) -> Figure:
    """Words as boxes in columns by degree; an arrow u -> v says that the drift of u calls on v.

    Arrows are coloured by the coupling that carries them. Filled boxes are words that move, grey ones constants, dashed
    ones words above the truncation degree, which a closure must supply. Raises ``InputError`` above 100 words: export
    GraphML and use a graph viewer.
    """
    graph = hierarchy.graph
    missing = [node for node, data in graph.nodes(data=True) if data["missing"]]
    if len(missing) > _MISSING:
        graph = graph.subgraph([node for node in graph if node not in set(missing)]).copy()
    if len(graph) > MOST_NODES:
        raise InputError(
            f"the dependency graph has {len(graph)} words, too many to read in a figure (at most {MOST_NODES}); "
            "lower the degree, restrict it with observables, or export GraphML"
        )
    places, layers = _layout(graph)
    tallest = max(len(nodes) for nodes in layers.values())
    width = 1.0 + 2.3 * len(layers)
    unit = width / len(layers)  # inches a column
    figure, (axes,) = new_figure(width, max(3.2, 0.42 * tallest + 1.4))
    axes.axis("off")
    names = [coupling.name for coupling in hierarchy.views.couplings]
    used = _draw_edges(axes, graph, places, names, unit)
    for node, (x, y) in places.items():
        data = graph.nodes[node]
        face = "white" if data["missing"] else ("#dddddd" if data["constant"] else "#d6e9f5")
        box = {
            "boxstyle": "round,pad=0.25",
            "facecolor": face,
            "edgecolor": GREY if data["missing"] or data["constant"] else OKABE_ITO[0],
            "linestyle": (0, (3, 2)) if data["missing"] else "-",
            "linewidth": 1.0,
        }
        axes.text(
            x,
            y,
            observable_label(node),
            ha="center",
            va="center",
            fontsize=8.5,
            bbox=box,
            zorder=3,
        )
    top = max(y for _, y in places.values())
    for number, (degree, nodes) in enumerate(layers.items()):
        beyond = degree > hierarchy.degree
        text = f"degree {degree}" + ("\n(for the closure)" if beyond else f"\n{len(nodes)} words")
        axes.text(number, top + 0.9, text, ha="center", va="bottom", fontsize=9, color=GREY)
    axes.set_xlim(-0.5, len(layers) - 0.5)
    axes.set_ylim(min(y for _, y in places.values()) - 0.8, top + 2.0)
    handles = [
        Line2D([], [], color=colour(n), linestyle=LINES[n % len(LINES)], label=_coupling_label(name))
        for n, name in enumerate(names)
        if name in used
    ]
    if "several" in used:
        handles.append(Line2D([], [], color="black", label="several couplings"))
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, len(handles)),
        frameon=False,
        title="coupling that carries the arrow",
        title_fontsize=8,
    )
    left_out = f"; {len(missing)} words for the closure not drawn" if len(missing) > _MISSING else ""
    figure.suptitle(
        f"{plain_text(hierarchy.model.name)}: dependency graph to degree {hierarchy.degree}{left_out}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    return figure


def _coupling_label(name: str) -> str:
    kind, _, index = name.partition("_")
    symbol = {"g": "g", "g1": "g^{(1)}", "g2": "g^{(2)}", "beta": r"\beta", "gamma": r"\gamma"}[kind]
    return rf"${symbol}_{{{index}}}$" if index else rf"${symbol}$"


def _layout(graph: nx.DiGraph) -> tuple[dict[str, tuple[float, float]], dict[Fraction, list[str]]]:
    """Columns by degree; in a column the order of the barycentres of neighbours on the left, which uncrosses arrows."""
    layers: dict[Fraction, list[str]] = {}
    for node, data in graph.nodes(data=True):
        layers.setdefault(data["degree"], []).append(node)
    layers = dict(sorted(layers.items()))
    height: dict[str, float] = {}
    places: dict[str, tuple[float, float]] = {}
    for column, (degree, nodes) in enumerate(layers.items()):

        def barycentre(node: str, fallback: float) -> float:
            left = [height[other] for other in (*graph.predecessors(node), *graph.successors(node)) if other in height]
            return float(np.mean(left)) if left else fallback

        spread = {node: barycentre(node, -float(n)) for n, node in enumerate(nodes)}
        moving = [node for node in nodes if not graph.nodes[node]["constant"]]
        constant = [node for node in nodes if graph.nodes[node]["constant"]]
        ordered = sorted(moving, key=lambda node: -spread[node]) + constant
        layers[degree] = ordered
        for n, node in enumerate(ordered):
            y = (len(ordered) - 1) / 2 - n
            places[node] = (float(column), y)
            height[node] = y
    return places, layers


def _half_width(name: str, unit: float) -> float:
    """Half the width of the box of a word, in columns, from the number of its letters (0.135 in each)."""
    letters = name.count(" ") + 1 + 0.4 * name.count("^T")
    return 0.5 * (0.30 + 0.135 * letters) / unit


def _draw_edges(
    axes: Axes, graph: nx.DiGraph, places: dict[str, tuple[float, float]], names: list[str], unit: float
) -> set[str]:
    used: set[str] = set()
    for source, target, data in graph.edges(data=True):
        carried = sorted(str(symbol) for symbol in data["coefficient"].free_symbols)
        single = len(carried) == 1
        used.update(carried if single else {"several"})
        number = names.index(carried[0]) if single else 0
        ink = colour(number) if single else "black"
        (x0, y0), (x1, y1) = places[source], places[target]
        before, after = _half_width(source, unit), _half_width(target, unit)
        if source == target:
            axes.text(x0 + before, y0 + 0.3, "\u21bb", ha="left", va="center", fontsize=10, color=ink, zorder=4)
            continue
        # Arrows inside a column leave and enter on one side: downwards on the right, upwards on the left.
        if x0 == x1:
            side = 1.0 if y1 < y0 else -1.0
            start, end, bend = x0 + side * before, x1 + side * after, -0.5 / max(1.0, abs(y1 - y0)) ** 0.5
        else:
            side = 1.0 if x1 > x0 else -1.0
            start, end, bend = x0 + side * before, x1 - side * after, 0.0
        axes.annotate(
            "",
            (end, y1),
            (start, y0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": ink,
                "linestyle": LINES[number % len(LINES)] if single else "-",
                "linewidth": 1.0,
                "alpha": 0.75,
                "shrinkA": 0,
                "shrinkB": 0,
                "mutation_scale": 9,
                "connectionstyle": f"arc3,rad={bend}",
            },
            zorder=1,
        )
    return used


__all__ = ["MOST_NODES", "graph_plot"]
