"""``aimtheory models``: the built-in models, and any model as TOML."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from aimtheory.cli.options import Subparsers, command
from aimtheory.cli.session import Session
from aimtheory.errors import InputError

if TYPE_CHECKING:
    from aimtheory.model import AttentionModel, Parameter


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

    from aimtheory import library
    from aimtheory.model import toml

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
    """One line: forms, tokens, loss, laws of the parameters.

    >>> from aimtheory import library
    >>> describe(library.load("tied-erf"))
    'S1 = W1 W1^T (trained), S2 = W2 W2^T; L = 1; mse of erf; W1, W2: gaussian_entries(width=1, trace=1)'
    """
    forms = ", ".join(
        (form.name if str(form.matrix) == form.name else f"{form.name} = {form.matrix}") + " (trained)" * trained
        for form, trained in zip(model.forms, model.trained_forms, strict=True)
    )
    laws: dict[str, list[str]] = {}
    for parameter in model.parameters:
        laws.setdefault(_law(parameter), []).append(parameter.name)
    try:
        data = model.loss.to_mapping()
        loss = data["expression"] if "expression" in data else f"{data['loss']} of {data['activation']}"
    except InputError:
        loss = repr(model.loss)
    tokens = " or ".join(str(context.tokens) for context in model.contexts)
    shown = ", ".join(f"{', '.join(names)}: {law}" for law, names in laws.items())
    return f"{forms}; L = {tokens}; {loss}; {shown}"


def _law(parameter: Parameter) -> str:
    if parameter.law is None:
        return "no law"
    try:
        data = parameter.law.to_mapping()
    except InputError:  # symbolic parameters have no file form
        return repr(parameter.law)
    options = ", ".join(f"{key}={value}" for key, value in data.items() if key != "law" and not isinstance(value, list))
    return f"{data['law']}({options})"


__all__ = ["describe", "register", "run"]
