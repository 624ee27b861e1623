"""Files of results: written whole or not at all, and never over an existing one unless asked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aimtheory.errors import InputError


def check_output(path: str | Path, overwrite: bool = False) -> Path:
    """The path when it may be written: its folder exists, and it is new or ``overwrite``; else ``InputError``."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a file")
    if target.exists() and not overwrite:
        raise InputError(
            f"{target} exists and is kept; give another name, or overwrite=True (--force on the command line)"
        )
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    return target


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well, and is removed when it does not.

    The permissions are those of any new file. A crash in between leaves the old file whole.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "a.txt"
    ...     with atomic_file(target) as part:
    ...         _ = part.write_text("whole")
    ...     target.read_text()
    'whole'
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=f".part{target.suffix}")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # Files of mkstemp are private; a result gets the permissions of any new file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, whole or not at all."""
    target = Path(path)
    with atomic_file(target) as part:
        part.write_text(text, encoding="utf-8")
    return target


__all__ = ["atomic_file", "check_output", "write_text"]
