"""Crossings of a level within a step: all of them, touching points, ends, directions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aimtheory as aim
from aimtheory.dynamics.roots import roots_in_step
from aimtheory.errors import InputError


def find(gap, left, right, tolerance=1e-10):
    return roots_in_step(gap, left, right, gap(left), gap(right), tolerance=tolerance)


@given(st.lists(st.floats(0.02, 0.98), min_size=0, max_size=4), st.sampled_from([-1.0, 1.0]))
def test_polynomials_have_the_roots_they_were_made_of(roots, sign):
    roots = sorted(roots)
    if any(b - a < 0.05 for a, b in itertools.pairwise(roots)):
        return
    found = find(lambda t: sign * math.prod(t - r for r in roots), 0.0, 1.0)
    assert [t for t, _ in found] == pytest.approx(roots, abs=1e-9)
    slopes = [math.prod(r - s for s in roots if s != r) for r in roots]
    assert [direction for _, direction in found] == [int(np.sign(sign * slope)) for slope in slopes]


def test_touching_is_found_within_the_tolerance_only():
    found = find(lambda t: (t - 0.4) ** 2, 0.0, 1.0)
    assert len(found) == 1
    assert found[0] == (pytest.approx(0.4, abs=1e-5), 0)
    assert find(lambda t: (t - 0.4) ** 2 + 1e-6, 0.0, 1.0) == []
    assert len(find(lambda t: (t - 0.4) ** 2 - 1e-6, 0.0, 1.0)) == 2


def test_roots_at_ends_belong_to_the_step_that_they_end():
    assert find(lambda t: t - 1, 0.0, 1.0) == [(1.0, 1)]
    assert find(lambda t: 1 - t, 1.0, 2.0) == []
    assert find(lambda t: 1 - t, 0.0, 1.0) == [(1.0, -1)]


def test_a_flat_crossing_is_one_crossing():
    found = find(lambda t: (t - 0.3) ** 3, 0.0, 1.0)
    assert len(found) == 1
    assert found[0] == (pytest.approx(0.3, abs=1e-4), 1)


def test_a_level_that_is_stayed_at_is_not_crossed():
    assert find(lambda t: 1e-12 * math.sin(9 * t), 0.0, 1.0) == []


def test_events_of_a_run_against_a_fine_grid():
    """q_11 falls and rises again: both crossings by direction, against a fine grid of the dense output."""
    model = aim.models.load("tied-linear")
    options = {"closure": "exact", "times": [0, 4], "observables": ["q_11"], "check": False}
    fine = np.linspace(0, 4, 801)
    values = aim.solve(model, **options | {"times": fine})["q_11"]
    level = 1.6
    down, up = np.flatnonzero(np.diff(np.sign(values - level)))
    for direction, wanted in ((0, [down, up]), (-1, [down]), (1, [up])):
        run = aim.solve(model, **options, events=[aim.Event("q_11", level, direction=direction)])
        ((name, times),) = run.events.items()
        assert name == f"q_11 = 1.6{('', ' rising', ' falling')[direction]}"
        assert times == pytest.approx(fine[wanted], abs=4 / 800)
    run = aim.solve(model, **options, events=[aim.Event("q_11", level, terminal=True, direction=1)])
    assert run.times[-1] == pytest.approx(fine[up], abs=4 / 800)
    with pytest.raises(InputError, match="direction"):
        aim.Event("q_11", level, direction=2)
