"""Frozen values: equality with arrays inside, hashes, copies and pickles."""

import copy
import pickle
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from aimtheory.frozen import ByValue, FrozenMapping, hash_value, same_value

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.fractions(), st.binary(max_size=3)
)
VALUES = st.recursive(
    SCALARS | arrays(np.float64, array_shapes(max_dims=2, max_side=3)),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(FrozenMapping)
    ),
    max_leaves=6,
)


@dataclass(frozen=True, eq=False)
class Held(ByValue):
    values: object
    note: str = field(default="", compare=False)

    @cached_property
    def cache(self):
        return lambda: self.values  # no function of a function survives pickle


def holds_array(value):
    if isinstance(value, FrozenMapping):
        value = tuple(value.values())
    return isinstance(value, np.ndarray) or (isinstance(value, tuple) and any(map(holds_array, value)))


@given(VALUES)
def test_every_value_equals_its_copies(value):
    held = Held(value)
    held.cache
    for other in (copy.deepcopy(held), copy.copy(held), pickle.loads(pickle.dumps(held))):
        assert held == other
        assert "cache" not in vars(other)
    if holds_array(value):
        with pytest.raises(TypeError, match=r"Held\.values.* is an array"):
            hash(held)
    else:
        assert {held: 1}[copy.deepcopy(held)] == 1


@given(VALUES, VALUES)
def test_equality_is_symmetric_and_agrees_with_hashes(first, second):
    assert same_value(first, second) == same_value(second, first)
    if same_value(first, second):
        try:
            keys = hash_value(first), hash_value(second)
        except TypeError:
            return
        assert keys[0] == keys[1]


def test_differences_are_seen():
    table = np.arange(6.0).reshape(2, 3)
    changed = table.copy()
    changed[1, 2] += 1e-16 + 1e-12
    base = Held(FrozenMapping(a=(table,), b="x"))
    assert base != Held(FrozenMapping(a=(changed,), b="x"))
    assert base != Held(FrozenMapping(a=(table.reshape(3, 2),), b="x"))
    assert base != Held(FrozenMapping(a=(table,), c="x"))
    assert base != Held(FrozenMapping(a=[table], b="x"))
    assert base != "another type"
    assert base == Held(FrozenMapping(b="x", a=(table,)), note="not compared")
    assert Held(1) == Held(1.0)
    assert Held(float("nan")) == Held(float("nan"))
    assert not same_value(table, table.tolist())


def test_a_mapping_cannot_be_changed():
    given_items = {"a": 1}
    frozen = FrozenMapping(given_items)
    given_items["a"] = 2
    assert frozen["a"] == 1
    assert list(FrozenMapping([("b", 1), ("a", 2)])) == ["b", "a"]
    with pytest.raises(TypeError):
        frozen["a"] = 3
    with pytest.raises(AttributeError, match="cannot be changed"):
        frozen._items = {}
    with pytest.raises(TypeError, match=r"a mapping\['x'\] is an array"):
        hash(FrozenMapping(x=np.zeros(2)))
