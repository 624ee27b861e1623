"""Files of results: what is kept, what is refused, and what other programs see."""

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, read, record, storage
from aimtheory.records.tables import frame


@record("test-run")
@dataclass(frozen=True, eq=False)
class Run(Result):
    frame_dims: ClassVar[tuple[str, ...]] = ("seed", "time")
    times: np.ndarray
    values: dict[str, np.ndarray]
    flags: np.ndarray
    extra: object = None
    note: str = "ω"
    made: int = field(default=3)

    def variables(self):
        return (
            Variable("time", self.times, ("time",), "learning time"),
            Variable("seed", np.arange(2), ("seed",), "seed"),
            *(Variable(name, table, ("seed", "time"), name, "nats") for name, table in self.values.items()),
            Variable("flags", self.flags, ("time",), "whether it is trusted"),
            Variable("rest", np.ones((2, len(self.times), 4)), ("seed", "time", "deep"), "not in the table"),
        )

    def summary(self):
        return {"times": self.times, "note": self.note, "made": self.made, "good": True}


@record("test-other")
@dataclass(frozen=True, eq=False)
class Other(Result):
    value: float

    def variables(self):
        return (Variable("value", self.value, (), "a number"), Variable("name", "text", (), "a text"))


def run():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(2, 3))
    table[0, 1], table[1, 2], table[1, 0] = np.nan, np.inf, -0.0
    large = rng.normal(size=(7, 11, 3))
    extra = {"width": sp.sqrt(2), "large": large, "same": (large, Fraction(1, 3)), "none": np.zeros((0, 2))}
    return Run(
        np.array([0.0, 0.1, 0.3]), {"tr(S1 S2)": table, "p_12": table * 2}, np.array([1, 0, 1], dtype=bool), extra
    )


@pytest.mark.parametrize("suffix", [".nc", ".json"])
def test_everything_comes_back(tmp_path, suffix):
    result = run()
    path = result.save(tmp_path / f"run{suffix}")
    again = read(path)
    assert again == result
    assert again != run().__class__(result.times, result.values, ~result.flags, result.extra)
    assert again.flags.dtype == bool
    assert np.signbit(again.values["tr(S1 S2)"][1, 0])
    assert Run.load(path) == result
    with pytest.raises(InputError, match="holds a Run, not a Other"):
        Other.load(path)


def test_an_empty_result_comes_back(tmp_path):
    empty = Run(np.zeros(0), {}, np.zeros(0, dtype=bool))
    for suffix in (".nc", ".json"):
        assert read(empty.save(tmp_path / f"e{suffix}")) == empty


def test_xarray_reads_the_file(tmp_path):
    import xarray as xr

    result = run()
    with xr.open_dataset(result.save(tmp_path / "run.nc")) as data:
        assert data["p_12"].dims == ("seed", "time")
        assert data["p_12"].attrs == {"long_name": "p_12", "units": "nats"}
        np.testing.assert_array_equal(data["p_12"], result.values["p_12"])
        assert list(data.coords) == ["time", "seed"]
        assert data.attrs["note"] == "ω"
        assert data.attrs["kind"] == "test-run"
    assert result.to_xarray().attrs["good"] == 1


def test_tables(tmp_path):
    import pandas as pd

    result = run()
    table = result.to_dataframe()
    assert list(table.index.names) == ["seed", "time"]
    assert list(table.columns) == ["tr(S1 S2)", "p_12", "flags"]
    assert table.loc[(0, 0.3), "p_12"] == result.values["p_12"][0, 2]
    back = pd.read_csv(result.save(tmp_path / "run.csv"))
    np.testing.assert_array_equal(back["p_12"].to_numpy().reshape(2, 3), result.values["p_12"])
    assert frame(Other(1.5)).to_dict("records") == [{"value": 1.5, "name": "text"}]
    assert (Other(0.1).save(tmp_path / "o.csv")).read_text() == "value,name\n0.1,text\n"
    with pytest.raises(InputError, match="table for other programs"):
        read(tmp_path / "o.csv")


def test_parquet_is_optional(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"aimtheory\[parquet\]"):
        run().save(tmp_path / "run.parquet")
    assert not list(tmp_path.iterdir())


def test_parquet_holds_the_table(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    back = pd.read_parquet(run().save(tmp_path / "run.parquet"))
    pd.testing.assert_frame_equal(back, run().to_dataframe())


def test_existing_files_are_kept(tmp_path):
    path = Other(1.0).save(tmp_path / "o.nc")
    with pytest.raises(InputError, match="exists and is kept"):
        Other(2.0).save(path)
    assert read(path) == Other(1.0)
    assert read(Other(2.0).save(path, overwrite=True)) == Other(2.0)
    with pytest.raises(InputError, match=r"ends in \.txt; the suffix chooses the format: \.nc, \.json, \.csv"):
        Other(1.0).save(tmp_path / "o.txt")
    with pytest.raises(InputError, match="cannot be stored"):
        Other(lambda: 0).save(tmp_path / "f.json")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["o.nc"]


@pytest.mark.parametrize("suffix", [".nc", ".json"])
def test_what_is_no_record_is_refused(tmp_path, suffix, monkeypatch):
    path = run().save(tmp_path / f"run{suffix}")
    data = path.read_bytes()
    for part in (0.2, 0.5, 0.99):
        cut = tmp_path / f"cut{suffix}"
        cut.write_bytes(data[: int(part * len(data))])
        with pytest.raises(InputError, match=r"cut short|is no"):
            read(cut)
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    later = run().save(tmp_path / f"later{suffix}")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"by a later aimtheory .*update aimtheory"):
        read(later)
    with pytest.raises(InputError, match="there is no file"):
        read(tmp_path / "none.nc")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="is no NetCDF file"):
        read(tmp_path / "empty")


def test_foreign_and_damaged_files_are_refused(tmp_path):
    import xarray as xr

    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="not a saved result of aimtheory"):
        read(tmp_path / "a.nc")
    xr.Dataset(attrs={"format": "aimtheory-trajectory-1"}).to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with pytest.raises(InputError, match=r"written by aimtheory 0\.1"):
        read(tmp_path / "b.nc")
    (tmp_path / "a.json").write_text('{"kind": "sgd"}')
    with pytest.raises(InputError, match="no key 'record'"):
        read(tmp_path / "a.json")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputError):
        read(tmp_path / "deep.json")
    document = json.loads(Other(1.0).save(tmp_path / "o.json").read_text())
    for change in (
        {"values": {}},
        {"values": {"value": 1, "more": 2}},
        {"kind": "no-such"},
        {"values": 3},
        {"format": "x"},
    ):
        (tmp_path / "c.json").write_text(json.dumps({"record": {**document["record"], **change}}))
        with pytest.raises(InputError, match=r"c\.json"):
            read(tmp_path / "c.json")
