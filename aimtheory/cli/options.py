"""The options that commands share, and the readers of their values."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from aimtheory.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from aimtheory.dynamics import Event

Subparsers = Any
"""What ``ArgumentParser.add_subparsers`` returns; its class is private to argparse."""

_MOST_POINTS = 1_000_000


def command(
    subparsers: Subparsers, name: str, summary: str, example: str, *, output: str | None
) -> argparse.ArgumentParser:
    """A parser with the options every command has; ``output`` says what -o saves, None leaves -o out."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    if output is not None:
        parser.add_argument("-o", "--output", metavar="FILE", help=output)
        parser.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    return parser


def add_model(parser: argparse.ArgumentParser) -> None:
    """The positional MODEL."""
    parser.add_argument(
        "model", metavar="MODEL", help="name of a built-in model ('aimtheory models' lists them) or a TOML file"
    )


def add_times(parser: argparse.ArgumentParser, default: str) -> None:
    """--times."""
    parser.add_argument(
        "--times",
        default=default,
        metavar="A:B:N",
        help="N times from A to B, both included, or a list such as 0,0.5,1 (default %(default)s)",
    )


def add_observables(parser: argparse.ArgumentParser) -> None:
    """--observables."""
    parser.add_argument(
        "--observables",
        metavar="LIST",
        help="what to read, separated by commas: t_1 = tr S_1, q_12 = tr(S_1 S_2^T) (1 the student, 2 the teacher), "
        "p_12 = q_12 - t_1 t_2, m_1, loss, or a trace such as 'tr(S1 S2)'; 'aimtheory names' explains them (default: "
        "traces, overlaps and the loss)",
    )


def read_times(text: str, name: str = "--times") -> np.ndarray:
    """Times from ``A:B:N`` or a comma list: increasing, finite, at least 0; ``InputError`` names what is not.

    >>> read_times("0:4:5").tolist(), read_times("0,1/2,1").tolist()
    ([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 1.0])
    """
    from aimtheory.dynamics.integrate import check_times

    try:
        return check_times(read_range(text, name))
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(name) else f"{name} {text}: {error}") from None


def read_range(text: str, name: str) -> np.ndarray:
    """Numbers from ``A:B:N`` (N points, both ends included) or a comma list; nothing is evaluated."""
    import numpy as np

    from aimtheory.scalars import to_scalar

    if ":" not in text:
        return np.array([float(to_scalar(part, name)) for part in text.split(",")])
    parts = text.split(":")
    if len(parts) != 3 or not re.fullmatch(r"\d+", parts[2].strip()):
        raise InputError(f"{name} {text!r} is not A:B:N, N points from A to B with both included, such as 0:4:9")
    low, high, count = float(to_scalar(parts[0], name)), float(to_scalar(parts[1], name)), int(parts[2])
    if not 2 <= count <= _MOST_POINTS:
        raise InputError(
            f"{name} {text!r} asks for N = {count} points; N is from 2 to {_MOST_POINTS}; "
            "a single value is written without colons"
        )
    return np.linspace(low, high, count)


def read_names(text: str | None) -> list[str] | None:
    """Names from a comma list; a comma before a digit belongs to a name, as in ``q_10,12``.

    >>> read_names("p_12, tr(S1 S2)")
    ['p_12', 'tr(S1 S2)']
    """
    if text is None:
        return None
    names = [part.strip() for part in re.split(r",(?!\d)", text)]
    if not all(names):
        raise InputError(f"the list {text!r} has an empty entry; separate names by single commas")
    return names


def read_integers(text: str, name: str) -> list[int]:
    """Integers from a comma list such as ``4,6,8`` or a span ``0..3``."""
    span = re.fullmatch(r"\s*(\d{1,9})\.\.(\d{1,9})\s*", text)
    if span:
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + _MOST_POINTS:
            raise InputError(f"{name} {text!r} must be a span A..B with A at most B")
        return list(range(first, last + 1))
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[+-]?\d{1,18}", part) for part in parts):
        raise InputError(f"{name} {text!r} is not a list of integers such as 4,6,8")
    return [int(part) for part in parts]


def read_events(items: list[str] | None, terminal: bool) -> list[Event]:
    """Events from ``p_12=0.3`` or ``p_12=0.3 rising`` (``falling``) items, several in one by commas."""
    from aimtheory.dynamics import Event
    from aimtheory.dynamics.integrate import DIRECTIONS
    from aimtheory.scalars import to_scalar

    events = []
    for item in items or []:
        for part in read_names(item) or []:
            name, equals, level = part.rpartition("=")
            if not equals or not name.strip():
                raise InputError(f"event {part!r} is not OBSERVABLE=LEVEL, such as p_12=0.3 or 'p_12=0.3 rising'")
            direction = 0
            for sign, word in DIRECTIONS.items():
                if level.rstrip().endswith(f" {word}"):
                    direction, level = sign, level.rstrip().removesuffix(word)
            value = float(to_scalar(level.strip(), f"the level of {name.strip()}"))
            events.append(Event(name.strip(), value, terminal, direction))
    return events


def number(text: str) -> float:
    """An argparse type: a finite number, a decimal or a rational such as 1/2."""
    from aimtheory.scalars import to_scalar

    try:
        return float(to_scalar(text))
    except (InputError, OverflowError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive_float(text: str) -> float:
    """An argparse type: a finite number above 0, a decimal or a rational such as 1/2."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return value


__all__ = [
    "Subparsers",
    "add_model",
    "add_observables",
    "add_times",
    "command",
    "number",
    "positive_float",
    "read_events",
    "read_integers",
    "read_names",
    "read_range",
    "read_times",
]
