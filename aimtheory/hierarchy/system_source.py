"""What the Python source of a closed system is written with: arrays as text, and names of matrices."""

from __future__ import annotations

import base64
import inspect
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from sympy.printing.numpy import NumPyPrinter

from aimtheory.words import Letter

PRELUDE: tuple[str, ...] = (
    "import base64",
    "import zlib",
    "",
    "import numpy as np",
    "",
    "",
    "def array(text, *shape):",
    '    """Floats from their bytes."""',
    "    return np.frombuffer(zlib.decompress(base64.b64decode(text))).reshape(shape)",
    "",
    "",
)
"""The imports and the reader of arrays, with which a module begins: the standard library and numpy alone."""

_WIDTH = 100
_SHORT = 6


def array_text(values: ArrayLike) -> str:
    """An expression for a float64 array, exact: its numbers where they are few, its bytes elsewhere.

    >>> array_text([0.5, 1.0])
    'np.array([0.5, 1.0])'
    """
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.size <= _SHORT and np.isfinite(array).all():
        return f"np.array({array.tolist()!r})" if array.size else f"np.zeros({array.shape!r})"
    text = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode("ascii")
    pieces = [text[n : n + _WIDTH] for n in range(0, len(text), _WIDTH)]
    shape = "".join(f", {size}" for size in array.shape)
    if len(pieces) == 1:
        return f'array("{pieces[0]}"{shape})'
    return "array(\n" + "\n".join(f'    "{piece}"' for piece in pieces) + f"{shape},\n)"


def numpy_text(expression: sp.Expr) -> str:
    """An expression as numpy code.

    >>> x = sp.Symbol("x")
    >>> numpy_text(sp.exp(-x) / 2)
    '(1/2)*np.exp(-x)'
    """
    return str(NumPyPrinter().doprint(expression)).replace("numpy.", "np.").replace("math.erf", "erf")


def tuple_source(name: str, items: Sequence[str]) -> str:
    """A tuple of texts as an assignment, one a line."""
    return f"{name} = (\n" + "".join(f"    {item},\n" for item in items) + ")"


def embedded(*parts: Any) -> list[str]:
    """The source of classes and functions as it stands, for a module without this package."""
    lines: list[str] = []
    for part in parts:
        lines += ["", "", *inspect.getsource(part).rstrip().splitlines()]
    return lines


def matrix_names(letters: Sequence[Letter]) -> dict[Letter, str]:
    """An identifier for every letter: its own name where that is one, M1, M2, ... elsewhere."""
    plain = re.compile(r"[A-Z][A-Za-z]*[0-9]+")
    return {
        letter: str(letter) if plain.fullmatch(str(letter)) else f"M_{n}" for n, letter in enumerate(letters, start=1)
    }


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper."""
    return [f"    {line}" if line else "" for line in lines]


__all__ = ["PRELUDE", "array_text", "embedded", "indented", "matrix_names", "numpy_text", "tuple_source"]
