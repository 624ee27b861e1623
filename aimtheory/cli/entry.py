"""The entry point: reads the arguments, runs the command, turns errors into one message and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from aimtheory.cli.session import INTERRUPTED_CODE, Session
from aimtheory.errors import AimTheoryError, InputError

COMMANDS = ("demo", "derive", "solve", "truncation", "recovery", "bayes", "simulate", "plot", "models")
"""Modules of this package that define ``register(subparsers)``; a new command is a module and its name here."""

_ERROR_CODE = 2


class _Parser(argparse.ArgumentParser):
    """Reports misuse like every other error, instead of printing the usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; no numerical library is loaded."""
    from aimtheory import __version__

    parser = _Parser(
        prog="aimtheory",
        description="Order parameters, moment hierarchies and exact thresholds of attention-indexed models.",
        epilog="Start with 'aimtheory demo'. Every command explains itself with --help.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"aimtheory {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"aimtheory.cli.{name}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 2 an error (one message on stderr), 130 interrupted from the keyboard."""
    try:
        arguments = build_parser().parse_args(argv)
        with Session(arguments) as session:
            code = int(arguments.run(arguments, session))
            return INTERRUPTED_CODE if session.interrupted else code
    except SystemExit as request:  # --help and --version
        return int(request.code or 0)
    except AimTheoryError as error:
        print(f"aimtheory: error: {error}", file=sys.stderr)
        return _ERROR_CODE
    except MemoryError as error:
        detail = str(error).rstrip(".") or "an array is too large"
        print(
            f"aimtheory: error: out of memory: {detail}; lower the degree, the dimension or the batch", file=sys.stderr
        )
        return _ERROR_CODE
    except KeyboardInterrupt:
        print("aimtheory: interrupted; nothing was finished that could be saved", file=sys.stderr)
        return INTERRUPTED_CODE
    except BrokenPipeError:
        # The reader of our output left, as in "aimtheory models | head -1"; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"aimtheory: error: {error.strerror or error}: {error.filename}", file=sys.stderr)
        return _ERROR_CODE


__all__ = ["COMMANDS", "build_parser", "main"]
