"""The command as a process: light start, clean stdout, Ctrl-C, progress on a terminal only."""

import json
import os
import signal
import subprocess
import sys

import pytest

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.cli.session import Session

HEAVY = ("numpy", "scipy", "sympy", "matplotlib", "networkx", "h5py", "tqdm")


def test_starting_loads_no_numerics():
    code = (
        "import sys; from aimtheory.cli.entry import build_parser; build_parser(); "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_as_a_module_stdout_is_one_json_object():
    done = subprocess.run(
        [sys.executable, "-m", "aimtheory", "solve", "tied-softmax", "--degree", "4", "--closure", "zero",
         "--times", "0:3:4", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["status"] == "untrusted"
    assert done.stderr.startswith("aimtheory: untrusted")


def test_an_error_in_a_process_has_code_2_and_no_traceback():
    command = [sys.executable, "-m", "aimtheory", "solve", "tied-softmax", "--times", "nan,1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_is_no_error():
    # true is gone long before the command has something to say.
    command = f"{sys.executable} -m aimtheory models --show tied-softmax | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def interrupting(monkeypatch, after):
    """Ctrl-C from inside the computation, at the first report of progress past a fraction."""

    def progress(self, label):
        def update(done, total):
            if done > after * total:
                self._interrupt(signal.SIGINT, None)

        return update

    monkeypatch.setattr(Session, "progress", progress)


def test_interrupted_solve_saves_what_is_done(monkeypatch, capsys, tmp_path):
    interrupting(monkeypatch, 0.4)
    path = tmp_path / "run.nc"
    assert main(["solve", "tied-softmax", "--degree", "7", "--times", "0:8:41", "--json", "-o", str(path)]) == 130
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["status"] == "interrupted"
    assert "interrupted" in captured.err
    loaded = aim.Trajectory.load(path)
    assert loaded.status.code == "interrupted"
    assert 0 < len(loaded) < 41
    whole = aim.solve(loaded.model, degree=7, times=loaded.times, check=False)
    assert loaded["p_12"] == pytest.approx(whole["p_12"], abs=1e-7)


def test_interrupted_simulation_saves_what_is_done(monkeypatch, capsys, tmp_path):
    interrupting(monkeypatch, 0.5)
    path = tmp_path / "sgd.json"
    arguments = [
        "simulate",
        "sgd",
        "tied-softmax",
        "--dim",
        "200",
        "--batch",
        "64",
        "--learning-rate",
        "0.05",
        "--times",
        "0:0.4:11",
    ]
    assert main([*arguments, "--observables", "t_1", "--json", "-o", str(path)]) == 130
    record = json.loads(capsys.readouterr().out)
    assert record["status"] == "interrupted"
    assert json.loads(path.read_text())["values"] == record["values"]
    values = record["values"]["t_1"]
    assert values[0] is not None
    assert values[-1] is None


def test_interrupted_study_stops_at_once_with_nothing_to_save(monkeypatch, capsys, tmp_path):
    interrupting(monkeypatch, 0.0)
    assert main(["truncation", "exact-linear", "-o", str(tmp_path / "s.json")]) == 130
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "interrupted" in captured.err
    assert not list(tmp_path.iterdir())


CHILD = """
import sys
from aimtheory.cli.session import Session
from aimtheory.cli import main
original = Session.progress
def progress(self, label):
    inner = original(self, label)
    def update(done, total):
        print("running", file=sys.stderr, flush=True)
        inner(done, total)
    return update
Session.progress = progress
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_in_a_process_saves_and_ends_with_130(tmp_path):
    path = tmp_path / "run.nc"
    arguments = [
        "solve",
        "tied-softmax",
        "--degree",
        "9",
        "--times",
        "0:100000:100001",
        "--observables",
        "p_12",
        "-o",
        str(path),
    ]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stderr is not None
        for _ in range(20):
            assert child.stderr.readline() == "running\n"
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130
    assert "Traceback" not in errors
    assert aim.Trajectory.load(path).status.code == "interrupted"


def test_the_handler_of_the_caller_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    assert main(["models"]) == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    import argparse

    import aimtheory.cli.session as module

    session = Session(argparse.Namespace())
    update = session.progress("work")
    update(1.0, 2.0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    with session:
        update = session.progress("work")
        update(1.0, 2.0)
        update(2.0, 2.0)
    drawn = capsys.readouterr().err
    assert "work" in drawn
    assert "%|" in drawn


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_text_files_have_the_usual_permissions(tmp_path):
    path = tmp_path / "models.txt"
    old = os.umask(0o022)
    try:
        assert main(["models", "-o", str(path)]) == 0
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644
