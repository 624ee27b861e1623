"""Values as plain trees that JSON holds, and back: nothing is rounded, and nothing that is read is executed."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import FrozenMapping
from aimtheory.records.registry import entry_named, entry_of
from aimtheory.records.sympy_trees import sympy_of_tree, sympy_tree

Sink = Callable[[np.ndarray], "dict[str, Any] | None"]
"""Takes an array and says under which reference it is stored; None: store it in the tree."""

_SMALL = 1 << 63


def encode(value: object, sink: Sink | None = None, where: str = "the value") -> Any:
    """A value as nested lists, mappings with text keys, text, numbers, booleans and null.

    What JSON lacks is a mapping with one key that starts with ``$``. Arrays go to ``sink`` when it takes them. Raises
    ``InputError`` that says where a value sits that has no record, such as a function.

    >>> encode({"width": Fraction(1, 2), "times": (0.0, float("inf"))})
    {'width': {'$fraction': [1, 2]}, 'times': {'$tuple': [0.0, {'$float': 'inf'}]}}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    entry = entry_of(value)
    if entry is not None:
        values = entry.to_record(value)
        held = {name: encode(item, sink, f"{where}.{name}") for name, item in values.items()}
        return {"$record": entry.kind, "values": held}
    if isinstance(value, int):
        return int(value) if abs(value) < _SMALL else {"$integer": hex(value)}
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else {"$float": repr(number)}
    if isinstance(value, np.ndarray):
        stored = None if sink is None else sink(value)
        return _encode_array(value, where) if stored is None else stored
    if isinstance(value, np.generic):
        return encode(value.item(), sink, where)
    if isinstance(value, complex):
        return {"$complex": [encode(value.real), encode(value.imag)]}
    if isinstance(value, Fraction):
        return {"$fraction": [encode(value.numerator), encode(value.denominator)]}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, list):
        return [encode(item, sink, f"{where}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, sink, f"{where}[{n}]") for n, item in enumerate(value)]}
    if isinstance(value, Mapping):
        return _encode_mapping(value, sink, where)
    if isinstance(value, sp.Basic):
        return {"$sympy": sympy_tree(value, where)}
    if isinstance(value, mpmath.mpf):
        sign, mantissa, exponent, bits = value._mpf_
        return {"$mpf": [int(sign), hex(int(mantissa)), int(exponent), int(bits)]}
    raise InputError(
        f"{where} = {value!r} of type {type(value).__name__} cannot be stored; give its class a record "
        "(aimtheory.records.record), or leave it out"
    )


def _encode_mapping(value: Mapping[Any, Any], sink: Sink | None, where: str) -> dict[str, Any]:
    items = [(key, encode(item, sink, f"{where}[{key!r}]")) for key, item in value.items()]
    if isinstance(value, dict) and all(isinstance(key, str) and not key.startswith("$") for key in value):
        return dict(items)
    name = "$mapping" if isinstance(value, dict) else "$frozen"
    return {name: [[encode(key, None, f"a key of {where}"), item] for key, item in items]}


def _encode_array(array: np.ndarray, where: str) -> dict[str, Any]:
    kind = array.dtype.kind
    flat: list[Any] = array.ravel().tolist()
    if kind == "f" and array.dtype.itemsize <= 8:
        data = flat if np.isfinite(array).all() else [x if math.isfinite(x) else repr(x) for x in flat]
    elif kind == "c" and array.dtype.itemsize <= 16:
        parts = array.ravel().view(array.real.dtype)
        data = _encode_array(parts, where)["$array"]["data"]
    elif kind in "iubU":
        data = flat
    else:
        raise InputError(f"{where} is an array of type {array.dtype}, which cannot be stored; convert it to float64")
    return {"$array": {"dtype": array.dtype.str.lstrip("<>|="), "shape": list(array.shape), "data": data}}


def decode(tree: Any, arrays: Mapping[str, np.ndarray] = FrozenMapping()) -> Any:
    """The value of a tree of ``encode``; ``arrays`` holds those that went elsewhere, by name.

    >>> decode(encode((Fraction(1, 3), np.arange(2.0))))
    (Fraction(1, 3), array([0., 1.]))
    """
    if isinstance(tree, list):
        return [decode(item, arrays) for item in tree]
    if not isinstance(tree, Mapping):
        return tree
    tag = next((key for key in tree if str(key).startswith("$")), None)
    if tag is None:
        return {str(key): decode(item, arrays) for key, item in tree.items()}
    held = tree[tag]
    if tag == "$record":
        values = {str(name): decode(item, arrays) for name, item in tree["values"].items()}
        return entry_named(str(held)).from_record(values)
    if tag == "$variable":
        if held not in arrays:
            raise InputError(f"the array {held!r} is missing")
        return np.asarray(arrays[held]).astype(np.dtype(tree["dtype"]), copy=False)
    if tag not in _DECODERS:
        raise InputError(f"a value has the unknown mark {tag!r}")
    return _DECODERS[tag](held, arrays)


def _decode_array(held: Any, _arrays: Any) -> np.ndarray:
    dtype, shape = np.dtype(held["dtype"]), tuple(map(int, held["shape"]))
    if dtype.kind not in "fciubU":
        raise InputError(f"an array has the type {dtype}, which no record holds")
    if dtype.kind == "c":
        parts = np.array([float(x) for x in held["data"]], dtype=np.dtype(f"f{dtype.itemsize // 2}"))
        return parts.view(dtype).reshape(shape)
    data = [float(x) for x in held["data"]] if dtype.kind == "f" else held["data"]
    return np.array(data, dtype=dtype).reshape(shape)


def _decode_mpf(held: Any, _arrays: Any) -> Any:
    sign, mantissa, exponent, bits = held
    return mpmath.mp.make_mpf((int(sign), int(mantissa, 16), int(exponent), int(bits)))


_DECODERS: dict[str, Callable[[Any, Any], Any]] = {
    "$float": lambda held, _: float(held),
    "$integer": lambda held, _: int(held, 16),
    "$complex": lambda held, arrays: complex(decode(held[0], arrays), decode(held[1], arrays)),
    "$fraction": lambda held, arrays: Fraction(decode(held[0], arrays), decode(held[1], arrays)),
    "$bytes": lambda held, _: base64.b64decode(held, validate=True),
    "$tuple": lambda held, arrays: tuple(decode(item, arrays) for item in held),
    "$mapping": lambda held, arrays: {decode(key, arrays): decode(item, arrays) for key, item in held},
    "$frozen": lambda held, arrays: FrozenMapping([(decode(key, arrays), decode(item, arrays)) for key, item in held]),
    "$sympy": lambda held, _: sympy_of_tree(held),
    "$mpf": _decode_mpf,
    "$array": _decode_array,
}


__all__ = ["Sink", "decode", "encode"]
