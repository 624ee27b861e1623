"""Spectra from files: a list of eigenvalues as ``.npy`` or ``.csv``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError


def read_spectrum(path: Path) -> NDArray[np.float64]:
    """The eigenvalues of a ``.npy`` file (one-dimensional, real) or a ``.csv`` file (numbers by commas or lines).

    Raises ``InputError`` naming the file and what is wrong: missing, of another kind, not real, not finite, not a list.
    """
    if not path.is_file():
        raise InputError(
            f"there is no spectrum file {path}; a path in a model file is taken from the folder of that file"
        )
    if path.suffix not in (".npy", ".csv"):
        raise InputError(
            f"spectrum file {path} is neither .npy nor .csv; save it with numpy.save or as numbers by commas"
        )
    try:
        if path.suffix == ".npy":
            values = np.asarray(np.load(path, allow_pickle=False))
        else:
            text = path.read_text(encoding="utf-8-sig").replace(",", "\n").replace(";", "\n")
            values = np.array([float(item) for item in text.split()])
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"cannot read the spectrum file {path}: {error}") from None
    if values.ndim != 1 or values.size == 0:
        raise InputError(
            f"spectrum file {path} has shape {values.shape}; it must be a list of eigenvalues, one-dimensional"
        )
    if values.dtype.kind not in "fiu":
        raise InputError(f"spectrum file {path} holds {values.dtype}; eigenvalues are real numbers")
    bad = np.flatnonzero(~np.isfinite(values.astype(np.float64)))
    if len(bad):
        raise InputError(f"eigenvalue {bad[0]} of the spectrum file {path} is {values[bad[0]]}; it must be finite")
    return values.astype(np.float64)


__all__ = ["read_spectrum"]
