"""What a command says and where: results on stdout, remarks and progress on stderr, files where they may be written."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from aimtheory.cli.streams import complain, write_out
from aimtheory.errors import InputError

INTERRUPTED_CODE = 130
_PATIENCE = 2.0
"""Seconds before a progress bar appears."""

Progress = Callable[[float, float], None]


class Session:
    """One run of a command: its output mode, its output file, and whether the keyboard interrupted it.

    A first Ctrl-C is remembered and raised as ``KeyboardInterrupt``, so that a computation that turns it into a partial
    result still ends with exit code 130.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.json: bool = getattr(arguments, "json", False)
        self.output: str | None = getattr(arguments, "output", None)
        self.force: bool = getattr(arguments, "force", False)
        self.interrupted = False
        self._bar: Any = None
        self._previous: Any = None

    def __enter__(self) -> Session:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def say(self, text: str) -> None:
        """Text for a reader, on stdout; silent when the output is JSON."""
        if not self.json:
            write_out(f"{text}\n")

    def remark(self, text: str) -> None:
        """A remark beside the result, on stderr."""
        complain(text)

    def emit(self, record: Mapping[str, Any]) -> None:
        """The one JSON object of the command, on stdout; only with --json."""
        if self.json:
            from aimtheory.records import to_json

            write_out(to_json(record))

    def save(self, result: Any, path: Path, **options: Any) -> None:
        """Write a result in the format of the file's suffix, with the options of its ``save``."""
        result.save(path, overwrite=self.force, **options)
        self.wrote(path)

    def target(self, path: str | Path | None = None) -> Path | None:
        """The output file, checked before any work: its folder exists, it is new or --force was given."""
        from aimtheory.files import check_output

        chosen = self.output if path is None else path
        return None if chosen is None else check_output(chosen, overwrite=self.force)

    def wrote(self, path: Path) -> None:
        """Say that a file was written."""
        if not self.json:
            self.remark(f"wrote {path}")

    def write_text(self, path: Path, text: str) -> None:
        """Write a text file whole or not at all."""
        from aimtheory.files import write_text

        write_text(path, text)
        self.wrote(path)

    def progress(self, label: str) -> Progress:
        """A callback (done, total) that draws a bar on stderr when that is a terminal and the work takes over 2 s."""
        self._close_bar()
        if not sys.stderr.isatty():
            return self._watch
        from tqdm import tqdm

        bar = tqdm(
            total=1.0,
            desc=label,
            delay=_PATIENCE,
            leave=False,
            file=sys.stderr,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {remaining} left",
        )
        self._bar = bar

        def update(done: float, total: float) -> None:
            self._watch(done, total)
            bar.update(min(1.0, done / total if total else 1.0) - bar.n)

        return update

    def _watch(self, _done: float, _total: float) -> None:
        # A library that swallowed the interrupt inside one of several computations must not go on with the next.
        if self.interrupted:
            raise KeyboardInterrupt

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def suffix_of(path: Path, allowed: tuple[str, ...]) -> str:
    """The suffix of an output file, which chooses its format; ``InputError`` when there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in allowed:
        raise InputError(f"{path} ends in {suffix or 'nothing'}; the suffix chooses the format: {', '.join(allowed)}")
    return suffix


__all__ = ["INTERRUPTED_CODE", "Progress", "Session", "suffix_of"]
