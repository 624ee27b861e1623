"""Any saved result, read back: the rooms that define results, and the files that hold them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from aimtheory.records import read

ROOMS = ("model", "networks", "dynamics", "bayes", "simulate")
"""Rooms of which the classes have records; a file of another kind needs the import of what defines it."""


def load(path: str | Path) -> Any:
    """The result in a file that ``save`` wrote, whatever it is: a trajectory, a run, a threshold, a diagram, ...

    Everything comes back as it was, and nothing in the file is executed. Raises ``InputError`` for a file that is
    missing, foreign, cut short or damaged, or of a later version.

    >>> import aimtheory as aim, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = aim.bayes.threshold(width="1/2").save(f"{folder}/threshold.json")
    ...     aim.load(path)
    Threshold(3/16)
    """
    for room in ROOMS:
        importlib.import_module(f"aimtheory.{room}")
    return read(path)


__all__ = ["ROOMS", "load"]
