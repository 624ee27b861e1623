"""Result files: whole or not at all, kept unless forced."""

import os
import stat

import pytest

from aimtheory.errors import InputError
from aimtheory.files import atomic_file, check_output, write_text


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = write_text(tmp_path / "a.txt", "old")

    def fail():
        with atomic_file(target) as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    write_text(target, "ω")
    assert target.read_text(encoding="utf-8") == "ω"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask


def test_what_may_be_written(tmp_path):
    target = tmp_path / "a.nc"
    assert check_output(target) == target
    target.touch()
    assert check_output(target, overwrite=True) == target
    with pytest.raises(InputError, match="exists and is kept"):
        check_output(target)
    with pytest.raises(InputError, match="is a folder"):
        check_output(tmp_path)
    with pytest.raises(InputError, match="does not exist; make it first"):
        check_output(tmp_path / "none" / "a.nc")
