"""What a user has at hand becomes the numbers it holds, or is refused: nothing is dropped, unmasked or made up."""

from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pandas
import pytest
import sympy as sp
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import aimtheory as aim
from aimtheory.arrays import real_array
from aimtheory.simulate.parameters import check_parameters
from aimtheory.spectra import denoise_matrix

SAME = {
    "list": [1, 2.5],
    "tuple": (1, 2.5),
    "float32": np.array([1, 2.5], dtype=np.float32),
    "long double": np.array([1, 2.5], dtype=np.longdouble),
    "big endian": np.array([1, 2.5], dtype=">f8"),
    "strided": np.array([1, 9, 2.5, 9])[::2],
    "nothing masked": np.ma.array([1, 2.5], mask=False),
    "complex, real": np.array([1 + 0j, 2.5 - 0j]),
    "series": pandas.Series([1, 2.5], index=["b", "a"]),
    "nullable series": pandas.Series([1, 2.5], dtype="Float64"),
    "index": pandas.Index([1, 2.5]),
    "xarray": xr.DataArray([1, 2.5]),
    "fractions": [Fraction(1), Fraction(5, 2)],
    "decimals": np.array([Decimal(1), Decimal("2.5")]),
    "sympy": [sp.Integer(1), sp.Rational(5, 2)],
    "mpmath": [mp.mpf(1), mp.mpf("2.5")],
    "objects": np.array([1, 2.5], dtype=object),
}


@pytest.mark.parametrize("kind", SAME)
def test_the_same_numbers_whatever_holds_them(kind):
    found = real_array(SAME[kind], "x")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.5]
    assert aim.Empirical(SAME[kind]) == aim.Empirical([1.0, 2.5])


REFUSED = {
    "masked": (np.ma.array([1.0, 2.0, 99.0], mask=[0, 0, 1]), r"1 of the 3 entries of eigenvalues are masked"),
    "all masked": (np.ma.array([1.0], mask=True), "masked"),
    "masked integers": (np.ma.array([1, 2], mask=[1, 0]), "masked"),
    "masked in a list": ([1.0, np.ma.masked], r"entries of eigenvalues\[1\] are masked"),
    "complex": ([1.0, 1 + 1e-9j], r"eigenvalues\[1\] is .*not real; pass values.real"),
    "missing": (pandas.Series([1, None], dtype="Int64"), r"eigenvalues\[1\] is missing"),
    "missing float": (pandas.Series([1.0, None]), "missing"),
    "number": (np.float64(1), r"1-d array of real numbers; got shape \(\)"),
    "matrix": ([[1.0, 0.0], [0.0, 2.0]], r"got shape \(2, 2\)"),
    "ragged": ([[1.0], [1.0, 2.0]], "not an array of real numbers"),
    "text": (["1", "2"], "dtype <U1"),
    "text among objects": (np.array([1.0, "2"], dtype=object), r"eigenvalues\[1\] is '2', not a real number"),
    "nothing among objects": ([1.0, None], r"eigenvalues\[1\] is None"),
    "symbol": ([sp.Symbol("x")], "not a real number"),
    "imaginary object": (np.array([1, 2j], dtype=object), "not real"),
    "dates": (np.array(["2020-01-01"], dtype="M8[D]"), "datetime64"),
    "set": ({1.0, 2.0}, "is a set"),
    "generator": ((x for x in (1.0, 2.0)), "is a generator"),
    "overflow": (
        np.array([np.longdouble("1e4000")]) if np.finfo(np.longdouble).max > 1e308 else [np.inf],
        "not finite",
    ),
    "large integer": ([10**400], "not a real number"),
    "nan": ([1.0, np.nan], r"eigenvalues\[1\] = nan is not finite"),
    "infinite": ([np.inf], "not finite"),
    "empty": ([], "empty"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_spectrum_is_refused_by_entry(kind):
    values, message = REFUSED[kind]
    with pytest.raises(aim.InputError, match=message):
        aim.Empirical(values)


@given(
    hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-9, 9).filter(bool)),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_a_mask_is_never_ignored(values, hidden):
    mask = np.array(hidden[: len(values)])
    masked = np.ma.array(values, mask=mask)
    if mask.any():
        with pytest.raises(aim.InputError, match="masked"):
            aim.Empirical(masked)
    else:
        assert aim.Empirical(masked).moments(1)[0] == pytest.approx(values.mean(), abs=1e-14)
    if not mask.all():  # the way out that the message names
        assert aim.Empirical(masked.compressed()).moments(2)[1] == pytest.approx((values[~mask] ** 2).mean(), abs=1e-13)


def test_the_other_doors_look_at_the_mask_too():
    hidden = np.ma.array(np.eye(2), mask=[[0, 0], [0, 1]])
    law = aim.Wishart(width=1, trace=1)
    model = aim.models.load("direct-hermite2")
    for call in (
        lambda: aim.Empirical.from_matrix(hidden),
        lambda: aim.MatrixFamily({"A": hidden}),
        lambda: denoise_matrix(law, 1.0, hidden),
        lambda: aim.bayes.SignChannel(2, hidden),
        lambda: aim.bayes.LinearChannel(2, hidden),
        lambda: aim.bayes.mmse_curve("softmax", 2, 0.5, np.ma.array([0.1, 0.2], mask=[0, 1])),
        lambda: aim.bayes.phase_diagram("softmax", 2, np.ma.array([0.5, 1], mask=[0, 1]), [0.1]),
        lambda: check_parameters(model, {"S1": hidden, "S2": np.eye(2)}, 2),
        lambda: aim.AttentionModel.teacher_student(
            tokens=2, activation="linear", parameterization="tied", student=law, teacher=law, token_covariance=hidden
        ),
    ):
        with pytest.raises(aim.InputError, match="masked"):
            call()
