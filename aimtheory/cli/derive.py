"""``aimtheory derive``: the moment hierarchy as text, LaTeX, JSON, GraphML, Python source or a figure of its graph."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from aimtheory.cli.models import describe
from aimtheory.cli.options import Subparsers, add_model, add_observables, command, read_names
from aimtheory.cli.session import Session, suffix_of
from aimtheory.errors import InputError
from aimtheory.files import RESULT_SUFFIXES

if TYPE_CHECKING:
    import sympy as sp

    from aimtheory.hierarchy import MomentHierarchy

FORMATS = ("text", "latex", "json", "graphml", "python", "figure")
_BY_SUFFIX = {
    ".tex": "latex",
    ".json": "json",
    ".graphml": "graphml",
    ".py": "python",
    ".png": "figure",
    ".pdf": "figure",
    ".svg": "figure",
    ".txt": "text",
    ".nc": "record",
    ".csv": "record",
    ".parquet": "record",
}


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "derive",
        "derive the moment equations of a model, symbolically and exactly",
        "  aimtheory derive tied-softmax --degree 3\n"
        "  aimtheory derive tied-softmax --degree 6 --format latex -o equations.tex",
        output="save to FILE in --format, or as its suffix says (.txt .tex .json .graphml .py .nc .csv .parquet .png)",
    )
    add_model(parser)
    parser.add_argument("--degree", type=int, default=3, metavar="M", help="truncation degree (default %(default)s)")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="text (default), latex document, json, graphml, python module of a closure, figure of the graph",
    )
    parser.add_argument("--closure", help="the closure whose equations --format python writes (default zero)")
    add_observables(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Derive and print or save."""
    from aimtheory import library
    from aimtheory.hierarchy import derive
    from aimtheory.records import as_data

    target = session.target()
    chosen = arguments.format or "text"
    if target is not None and arguments.format is None:
        chosen = _BY_SUFFIX[suffix_of(target, tuple(_BY_SUFFIX))]
    elif target is not None and _BY_SUFFIX.get(target.suffix.lower(), chosen) != chosen:
        raise InputError(f"{target} would not hold what --format {chosen} writes; leave --format out, or rename it")
    if session.json and target is None and arguments.format not in (None, "json"):
        raise InputError(f"--json prints JSON, so --format {arguments.format} needs a file to go to: add -o FILE")
    if chosen == "figure" and target is None:
        raise InputError("--format figure needs a file to go to: add -o graph.png")
    if arguments.closure is not None:
        if chosen != "python":
            raise InputError(f"--closure {arguments.closure} goes with --format python; the hierarchy itself is open")
        return _closed(arguments, session, target)
    hierarchy = derive(library.load(arguments.model), arguments.degree, read_names(arguments.observables))
    potential = closed_potential(hierarchy)
    if target is not None and chosen == "figure":
        from aimtheory.report import graph_plot, save_figure

        save_figure(graph_plot(hierarchy), target)
        session.wrote(target)
    elif target is not None and target.suffix.lower() in RESULT_SUFFIXES:
        session.save(hierarchy, target, potential=None if potential is None else str(potential))
    elif target is not None:
        session.write_text(target, render(hierarchy, chosen, potential))
    elif not session.json:
        session.say(render(hierarchy, chosen, potential).rstrip("\n"))
    if session.json:
        session.emit(as_data(hierarchy, potential=None if potential is None else str(potential)))
    return 0


def _closed(arguments: argparse.Namespace, session: Session, target: Path | None) -> int:
    """The module of a closed model."""
    from aimtheory import library
    from aimtheory.dynamics import close
    from aimtheory.report import closed_source

    closed = close(library.load(arguments.model), degree=arguments.degree, closure=arguments.closure)
    if target is None:
        session.say(closed_source(closed).rstrip("\n"))
    else:
        session.write_text(target, closed_source(closed))
    return 0


def closed_potential(hierarchy: MomentHierarchy) -> sp.Expr | None:
    """The closed form of Phi in the order parameters that the model has, or None."""
    from aimtheory.population import population_loss
    from aimtheory.population.closed_forms import order_symbols, tied_symbols

    model = hierarchy.model
    population = population_loss(model)
    mean, q1, q2 = order_symbols(len(model.forms))
    zero = [0] * len(model.forms)
    if model.symmetric:
        q = tied_symbols(len(model.forms))
        return population.symbolic_value(zero, q, q)
    return population.symbolic_value(zero if model.centred else mean, q1, q2)


def render(hierarchy: MomentHierarchy, chosen: str, potential: sp.Expr | None) -> str:
    """The hierarchy in a text format."""
    from aimtheory.records import as_data, to_json
    from aimtheory.report import derivation_latex, python_source

    if chosen == "latex":
        return derivation_latex(hierarchy, potential)
    if chosen == "json":
        return to_json(as_data(hierarchy, potential=None if potential is None else str(potential)))
    if chosen == "graphml":
        return graphml(hierarchy)
    if chosen == "python":
        return python_source(hierarchy, _initial(hierarchy), potential, _mean(hierarchy))
    return text(hierarchy, potential)


def text(hierarchy: MomentHierarchy, potential: sp.Expr | None) -> str:
    """Readable equations."""
    lines = [f"{hierarchy.model.name}: {describe(hierarchy.model)}", "", hierarchy.report(), ""]
    lines.append(
        f"Phi = {potential}"
        if potential is not None
        else "Phi: no closed form; its gradients g are computed by cubature"
    )
    lines += ["couplings: " + ", ".join(coupling.name for coupling in hierarchy.views.couplings), ""]
    width = max(map(len, hierarchy.names), default=0)
    for name, word, constant in zip(hierarchy.names, hierarchy.words, hierarchy.constant, strict=True):
        if not constant:
            lines.append(f"d/dt {name:<{width}} = {hierarchy.equations[word]}")
    fixed = [name for name, constant in zip(hierarchy.names, hierarchy.constant, strict=True) if constant]
    if fixed:
        lines += ["", "constant: " + ", ".join(fixed)]
    return "\n".join(lines) + "\n"


def graphml(hierarchy: MomentHierarchy) -> str:
    """The dependency graph as GraphML text."""
    import tempfile

    from aimtheory.hierarchy.graph import write_graphml

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.graphml"
        write_graphml(hierarchy.graph, path)
        return path.read_text(encoding="utf-8")


def _initial(hierarchy: MomentHierarchy) -> list[float] | None:
    """Moments at time zero, where the model's laws give them."""
    from aimtheory.hierarchy.initial_moments import initial_moments

    try:
        return [float(value) for value in initial_moments(hierarchy)]
    except InputError:
        return None


def _mean(hierarchy: MomentHierarchy) -> list[float] | None:
    """The means at time zero that the fast flow settles at, for forms that have one."""
    from aimtheory.dynamics import solve
    from aimtheory.errors import AimTheoryError

    if hierarchy.model.centred:
        return None
    names = [f"m_{k + 1}" for k in range(len(hierarchy.views.matrices))]
    try:
        run = solve(
            hierarchy.model, degree=hierarchy.degree, times=[0.0], closure="zero", observables=names, check=False
        )
    except AimTheoryError:
        return None
    return [float(run[name][0]) for name in names]


__all__ = ["FORMATS", "closed_potential", "graphml", "register", "render", "run", "text"]
