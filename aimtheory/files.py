"""Files: read in whatever encoding they say, written whole or not at all and never over an existing one unasked.

Also which classes a file may name.
"""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from aimtheory.errors import InputError

T = TypeVar("T")

RESULT_SUFFIXES = (".nc", ".json", ".csv", ".parquet")
"""What a result can be saved as; the first two can be loaded again."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark begins alike
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 or 32 where it starts with a byte order mark; lines end in newlines.

    Raises ``InputError`` when there is no such file, it is a folder, may not be read, or is not text.
    """
    data = check_input(path).read_bytes()
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_input(path: str | Path) -> Path:
    """The path of a file that can be opened; else ``InputError``."""
    source = Path(path)
    try:
        with source.open("rb"):
            return source
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; give the name of a file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def check_output(path: str | Path, overwrite: bool = False) -> Path:
    """The path when it may be written: its folder exists and takes files, and it is new or ``overwrite``; else
    ``InputError``."""
    target = Path(path)
    try:
        target.stat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror or error}") from None
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a file")
    if target.exists() and not overwrite:
        raise InputError(
            f"{target} exists and is kept; give another name, or overwrite=True (--force on the command line)"
        )
    if not target.parent.is_dir():
        raise InputError(f"the folder {target.parent} does not exist; make it first")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"the folder {target.parent} cannot be written to; choose another one")
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
    # A name of the greatest length leaves no room for more letters: the temporary one begins as it does.
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name[:40]}.", suffix=f".part{target.suffix[:10]}"
    )
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


def named_subclasses(base: type[T], attribute: str) -> dict[str, type[T]]:
    """The subclasses, at any depth, that set the class attribute themselves, by its value: what a file may name.

    Read anew at each call, since a class may be defined at any time.
    """
    found: dict[str, type[T]] = {}
    pending = base.__subclasses__()
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if attribute in vars(cls):
            found[getattr(cls, attribute)] = cls
    return dict(sorted(found.items()))


__all__ = [
    "RESULT_SUFFIXES",
    "atomic_file",
    "check_input",
    "check_output",
    "named_subclasses",
    "read_text",
    "write_text",
]
