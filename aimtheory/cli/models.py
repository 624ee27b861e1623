"""``aimtheory models``: the built-in models, and any model as TOML."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from aimtheory.cli.options import Subparsers, command
from aimtheory.cli.session import Session
from aimtheory.errors import InputError

if TYPE_CHECKING:
    from aimtheory.model import AttentionModel


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "models",
        "list the built-in models, or print one as TOML to start your own from",
        "  aimtheory models --show tied-softmax > mine.toml",
        output="save the list, or the TOML of --show, to FILE",
    )
    parser.add_argument("--show", metavar="NAME", help="print this model (a name or a TOML file) as TOML")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """List or show."""
    target = session.target()

    from aimtheory.model import library, toml

    if arguments.show is not None:
        model = library.load(arguments.show)
        text = toml.dumps(model)
        record = {"model": model.name, "description": describe(model), "toml": text, **toml.to_mapping(model)}
    else:
        entries = {name: describe(library.load(name)) for name in library.names()}
        width = max(map(len, entries))
        text = "\n".join(f"{name:<{width}}  {entry}" for name, entry in entries.items()) + "\n"
        record = {"models": list(entries), "descriptions": entries}
    if target is not None:
        session.write_text(target, text)
    else:
        session.say(text.rstrip("\n"))
    session.emit(record)
    return 0


def describe(model: AttentionModel) -> str:
    """One line: parameterization, tokens, loss, laws of student and teacher.

    >>> from aimtheory.model import library
    >>> describe(library.load("tied-erf"))
    'tied, L = 1, mse of erf, student wishart(width=1, trace=1), teacher wishart(width=1, trace=1)'
    """
    from aimtheory.model import toml

    try:
        data = toml.to_mapping(model)
    except InputError:
        return repr(model)
    laws = {
        role: ", ".join(f"{key}={value}" for key, value in data[role].items() if key != "law")
        for role in ("student", "teacher")
    }
    loss = data["expression"] if data["loss"] == "expression" else f"{data['loss']} of {data['activation']}"
    shown = ", ".join(f"{role} {data[role]['law']}({law})" for role, law in laws.items())
    return f"{data['parameterization']}, L = {model.tokens}, {loss}, {shown}"


__all__ = ["describe", "register", "run"]
