"""The entry point: reads the arguments, runs the command, turns errors into one message and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from aimtheory.cli.session import INTERRUPTED_CODE, Session
from aimtheory.cli.streams import abandon, complain, prepare_streams, write_out
from aimtheory.errors import AimTheoryError, InputError

COMMANDS = ("demo", "derive", "solve", "truncation", "recovery", "bayes", "simulate", "plot", "models", "names")
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
        epilog="""In results, 1 is the student and 2 the teacher:
  t_1    tr S_1, the mean eigenvalue of the student's attention matrix (tr = Tr/d)
  q_12   tr(S_1 S_2^T), the overlap of student and teacher
  p_12   q_12 - t_1 t_2, the structural overlap, beyond the mean eigenvalues
  m_1    the mean of the student's attention form, where it is not centred
  A1, B1, M1   U U^T, V V^T, U V^T of untied attention S_1 = U V^T
'aimtheory names' explains every name. Start with 'aimtheory demo'; every command explains itself with --help.""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"aimtheory {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"aimtheory.cli.{name}").register(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 2 an error (one message on stderr), 130 interrupted from the keyboard."""
    closed = prepare_streams()
    if argv is None:
        # Figures are drawn without a backend, and one meant for notebooks may not exist here. In a process of our own
        # only: who calls this from Python keeps the backend they chose.
        os.environ["MPLBACKEND"] = "agg"
    try:
        return _run(argv, closed)
    except AimTheoryError as error:
        complain(f"error: {error}")
    except MemoryError as error:
        detail = str(error).rstrip(".") or "an array is too large"
        complain(f"error: out of memory: {detail}; lower the degree, the dimension or the batch")
    except KeyboardInterrupt:
        complain("interrupted; nothing was finished that could be saved")
        return INTERRUPTED_CODE
    except BrokenPipeError:
        abandon(sys.stdout)  # the reader of our output left, as in "aimtheory models | head -1"
        return 0
    except OSError as error:
        complain(f"error: {error.strerror or error}" + ("" if error.filename is None else f": {error.filename}"))
    return _ERROR_CODE


def _run(argv: Sequence[str] | None, closed: bool) -> int:
    """The command, and what it said written out to the end."""
    try:
        arguments = build_parser().parse_args(argv)
        if closed and not (getattr(arguments, "output", None) or getattr(arguments, "saves", False)):
            raise InputError("standard output is closed, so the result has nowhere to go; add -o FILE")
        with Session(arguments) as session:
            code = int(arguments.run(arguments, session))
            code = INTERRUPTED_CODE if session.interrupted else code
    except SystemExit as request:  # --help and --version
        code = int(request.code or 0)
    write_out("")
    return code


__all__ = ["COMMANDS", "build_parser", "main"]
