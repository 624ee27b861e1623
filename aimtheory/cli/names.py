"""``aimtheory names``: what p_12, t_1, A1 and the other names in equations and results mean."""

from __future__ import annotations

import argparse
import textwrap

from aimtheory.cli.options import Subparsers, command
from aimtheory.cli.session import Session
from aimtheory.glossary import GLOSSARY, explain


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "names",
        "explain p_12, t_1, A1 and the other names in equations and results",
        "  aimtheory names\n  aimtheory names untied-hermite2",
        output="save the text to FILE",
    )
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a built-in model or a TOML file, for the names of its own order parameters and matrices",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Explain, for one model or for all."""
    target = session.target()
    sections = {section: dict(entries) for section, entries in GLOSSARY.items()}
    if arguments.model is not None:
        sections = of_model(arguments.model)
    text = "\n\n".join(_section(title, entries) for title, entries in sections.items()) + "\n"
    if target is not None:
        session.write_text(target, text)
    else:
        session.say(text.rstrip("\n"))
    session.emit({"names": sections})
    return 0


def of_model(name: str) -> dict[str, dict[str, str]]:
    """The observables, letters and couplings of one model, each with its meaning."""
    from aimtheory import library
    from aimtheory.hierarchy import views
    from aimtheory.hierarchy.observables import default_observables

    model = library.load(name)
    seen = views(model)
    letters = {
        str(letter): f"{'' if str(word) == str(letter) else f'{word}: '}{explain(str(letter)) or 'a factor of its own'}"
        for letter, word in seen.expansion.items()
    }
    # The names of explicit traces are the model's own, so that no glossary can have them.
    traces = {trace.name: f"tr({trace.matrix}), which the loss reads as a number" for trace in model.traces}
    slopes = {f"dPhi_{name}": f"gradient of Phi by {name}" for name in traces}
    return {
        "Order parameters": {
            item.name: traces.get(item.name) or explain(item.name) or "" for item in default_observables(model, seen)
        },
        "Matrices in words": letters,
        "Couplings": {c.name: slopes.get(c.name) or explain(c.name) or "" for c in seen.couplings},
    }


def _section(title: str, entries: dict[str, str]) -> str:
    width = max(map(len, entries), default=0)
    lines = [
        textwrap.fill(meaning, 100, initial_indent=f"  {name:<{width}}  ", subsequent_indent=" " * (width + 4))
        for name, meaning in entries.items()
    ]
    return "\n".join([title, *lines])


__all__ = ["of_model", "register", "run"]
