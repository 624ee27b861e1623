"""Reading the values of options."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aimtheory.cli.options import read_events, read_integers, read_names, read_range, read_times
from aimtheory.errors import InputError


@given(low=st.integers(0, 50), span=st.integers(1, 50), count=st.integers(2, 40), denominator=st.integers(1, 9))
def test_ranges_have_n_equal_steps_and_both_ends(low, span, count, denominator):
    times = read_times(f"{low}/{denominator}:{low + span}:{count}")
    assert len(times) == count
    assert times[0] == low / denominator
    assert times[-1] == low + span
    assert np.allclose(np.diff(times), (low + span - low / denominator) / (count - 1))


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=8, unique=True))
def test_lists_are_read_exactly(values):
    values = sorted(values)
    assert read_times(",".join(map(repr, values))).tolist() == values


@given(st.text(max_size=12))
def test_no_text_does_anything_but_give_numbers_or_an_input_error(text):
    try:
        found = read_range(text, "--times")
    except InputError:
        return
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:1", "not A:B:N"),
        ("0:1:2:3", "not A:B:N"),
        ("0:1:2.5", "not A:B:N"),
        ("0:1:1", "N = 1"),
        ("0:1:99999999999", "N = 99999999999"),
        ("0,1,1", "must increase"),
        ("1,0", "must increase"),
        ("-1,0", "negative"),
        ("nan,1", "not a number"),
        ("0:inf:3", "not a number"),
        ("1e999", "beyond the largest float"),
        ("", "not a number"),
        ("1/0,2", "divides by zero"),
        ("__import__('os'):1:2", "not a number"),
    ],
)
def test_bad_times_are_named(text, message):
    with pytest.raises(InputError, match=message):
        read_times(text)


def test_names_events_and_integers():
    assert read_names("p_12, tr(S1 S2),loss") == ["p_12", "tr(S1 S2)", "loss"]
    assert read_names("q_10,12,t_1") == ["q_10,12", "t_1"]
    assert read_names(None) is None
    assert read_integers("4,6, 8", "--degrees") == [4, 6, 8]
    assert read_integers("2..5", "--seeds") == [2, 3, 4, 5]
    (first, second) = read_events(["p_12=0.3,tr(S1 S2)=1/2"], terminal=True)
    assert (first.observable, first.level, first.terminal) == ("p_12", 0.3, True)
    assert (second.observable, second.level) == ("tr(S1 S2)", 0.5)
    for bad in ("p_12", "=3", "p_12=x", "p_12=nan"):
        with pytest.raises(InputError):
            read_events([bad], terminal=False)
    for bad in ("4,x", "5..2", "", "1e3"):
        with pytest.raises(InputError):
            read_integers(bad, "--degrees")
    with pytest.raises(InputError, match="empty entry"):
        read_names("p_12,,t_1")
