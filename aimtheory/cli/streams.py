"""Standard output and standard error as they are found: closed, full, or unable to spell a name."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys

from aimtheory.errors import InputError

_ESCAPE = "aimtheory.escape"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks as \\uXXXX, which TOML, JSON and Python read back as what they were."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    codes = map(ord, error.object[error.start : error.end])
    return "".join(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}" for code in codes), error.end


def prepare_streams() -> bool:
    """Make both streams take any text; True when standard output is closed.

    Python has None in place of a closed stream. An empty one takes its place, also so that a file opened later does
    not get the number of standard output and what C libraries print there.
    """
    codecs.register_error(_ESCAPE, _escape)
    closed = sys.stdout is None
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and stream.errors != _ESCAPE:
            stream.reconfigure(errors=_ESCAPE)
    return closed


def write_out(text: str) -> None:
    """Write to standard output at once. ``InputError`` when it takes no more; a reader that left raises
    ``BrokenPipeError``.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon(sys.stdout)
        raise InputError(f"cannot write to standard output: {error.strerror or error}; save with -o FILE") from None


def complain(text: str) -> None:
    """A line on standard error; nothing where it cannot be written."""
    try:
        print(f"aimtheory: {text}", file=sys.stderr, flush=True)
    except OSError:
        abandon(sys.stderr)


def abandon(stream: object) -> None:
    """Let what is still waiting in a stream go nowhere: Python would complain of it at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream without a descriptor, as in a notebook
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[attr-defined]


__all__ = ["abandon", "complain", "prepare_streams", "write_out"]
