"""What surrounds a command: streams that are closed, full or narrow, files of other systems, a plotting backend."""

import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib as mpl
import pytest

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.files import check_output, read_text, write_text
from aimtheory.model import toml
from aimtheory.report import save_figure, trajectory_plot
from aimtheory.report.style import new_figure, plain_text

NAME = "Modèle Ω 模型 🙂"
ROOT = Path(aim.__file__).parents[1]


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.toml"
    text = toml.dumps(aim.models.load("tied-linear")).replace('"tied-linear"', f'"{NAME}"')
    path.write_text(text, encoding="utf-8")
    return path


def shell(command, *arguments, cwd=None, **environment):
    """A line of bash, in which $A is the command; arguments are $1, $2, ..."""
    environment = os.environ | {"A": f"{sys.executable} -m aimtheory", "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(["bash", "-c", command, "bash", *map(str, arguments)], capture_output=True, env=environment,
                          cwd=cwd)  # fmt: skip


def fails(capsys, *arguments):
    assert main(list(map(str, arguments))) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


# Streams.


def stream(raw, encoding="utf-8"):
    return io.TextIOWrapper(raw, encoding=encoding, write_through=True)


class Full(io.RawIOBase):
    def writable(self):
        return True

    def write(self, _):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_name_that_the_terminal_cannot_spell(model_file, encoding, monkeypatch):
    def said(*arguments):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", stream(raw, encoding))
        assert main([*arguments]) == 0
        return raw.getvalue().decode(encoding)

    # The escapes are those of TOML: the text is the same model.
    assert tomllib.loads(said("models", "--show", str(model_file)))["name"] == NAME
    assert "S1 = W1 W1^T (trained)" in said("derive", str(model_file), "--degree", "2")
    assert json.loads(said("derive", str(model_file), "--degree", "2", "--json"))["model"] == NAME


def test_the_plain_c_locale(model_file):
    done = shell("$A models --show $1", model_file, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 0
    assert rb'name = "Mod\u00e8le \u03a9 \u6a21\u578b \U0001f642"' in done.stdout


def test_a_closed_stdout_is_said_before_any_work(tmp_path, monkeypatch):
    done = shell("$A solve tied-softmax --degree 99 --json >&-")
    assert done.returncode == 2
    assert done.stderr == b"aimtheory: error: standard output is closed, so the result has nowhere to go; add -o FILE\n"
    # With a file to go to, the result goes there alone.
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["derive", "exact-linear", "--degree", "2", "--json", "-o", str(tmp_path / "a.json")]) == 0
    sys.stdout.close()
    assert json.loads((tmp_path / "a.json").read_text())["kind"] == "derivation"


def test_remarks_do_not_go_to_stdout_when_stderr_is_closed(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["solve", "exact-linear", "--degree", "3", "--times", "0,0.1", "--json"]) == 0
    sys.stderr.close()
    assert json.loads(capsys.readouterr().out)["kind"] == "trajectory"
    monkeypatch.setattr(sys, "stderr", stream(Full()))
    assert main(["solve", "nope"]) == 2


@pytest.mark.parametrize("arguments", ["models", "models --json", "--help", "--version"])
def test_a_full_stdout_is_an_error_and_no_traceback(arguments, monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", stream(Full()))
        assert main(arguments.split()) == 2
    message = capsys.readouterr().err
    assert message.startswith("aimtheory: error: cannot write to standard output: No space left on device")
    assert message.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_stdout_of_a_process_is_said_once():
    done = shell("$A --help >/dev/full")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


def test_main_leaves_the_streams_of_its_caller_usable(capfd):
    assert main(["solve", "nope"]) == 2
    print("still here", flush=True)
    assert capfd.readouterr().out == "still here\n"


# Files in.


def test_model_files_of_other_systems(model_file):
    text = model_file.read_text(encoding="utf-8")
    expected = toml.loads(text)
    assert expected.name == NAME
    windows = text.replace("\n", "\r\n")
    for data in (
        text.encode("utf-8-sig"),  # the byte order mark of Windows editors
        windows.encode(),
        windows.encode("utf-8-sig"),
        windows.encode("utf-16"),  # what PowerShell writes into a file
        b"\xfe\xff" + text.encode("utf-16-be"),
        text.encode("utf-32"),
    ):
        model_file.write_bytes(data)
        assert aim.models.load(model_file) == expected


def test_results_with_a_byte_order_mark(tmp_path, capsys):
    study = tmp_path / "study.json"
    assert main(["truncation", "exact-linear", "--degrees", "4,6", "-o", str(study)]) == 0
    study.write_bytes(study.read_text().replace("\n", "\r\n").encode("utf-8-sig"))
    assert main(["plot", str(study)]) == 0


def test_files_that_cannot_be_read(capsys, tmp_path, monkeypatch):
    folder, latin = tmp_path / "run.nc", tmp_path / "latin.toml"
    folder.mkdir()
    latin.write_bytes('name = "Modèle"'.encode("latin-1"))
    for command in ("derive", "solve", "plot"):
        assert f"{folder} is a folder; give the name of a file" in fails(capsys, command, folder)
    assert f"{latin} is not text in UTF-8: invalid continuation byte at byte 11" in fails(capsys, "derive", latin)
    assert "there is no file" in fails(capsys, "plot", tmp_path / "absent.nc")
    long = "a" * 5000
    assert "no model 'aaa" in (message := fails(capsys, "derive", long))
    assert len(message) < 600
    assert "File name too long" in fails(capsys, "plot", f"{long}.nc")

    def refused(self, *_, **__):
        raise PermissionError(13, "Permission denied", str(self))

    run, model = tmp_path / "a.nc", tmp_path / "a.toml"
    run.touch()
    model.touch()
    monkeypatch.setattr(Path, "open", refused)
    assert f"cannot read {run}: Permission denied" in fails(capsys, "plot", run)
    assert f"cannot read {model}: Permission denied" in fails(capsys, "derive", model)


# Files out.


def test_a_folder_that_takes_no_files_is_said_before_any_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK and Path(path) == tmp_path))
    command = ("solve", "tied-softmax", "--degree", "99")
    assert f"{tmp_path} cannot be written to" in fails(capsys, *command, "-o", tmp_path / "run.nc")
    assert not list(tmp_path.iterdir())


def test_long_file_names(tmp_path, capsys):
    longest = tmp_path / f"{'é' * 120}{'a' * 10}.json"  # 255 bytes, as many as file systems allow
    assert main(["models", "--json", "-o", str(longest)]) == 0
    assert longest.is_file()
    assert list(tmp_path.iterdir()) == [longest]
    capsys.readouterr()
    assert "File name too long" in fails(capsys, "models", "-o", tmp_path / f"{'a' * 300}.json")
    beyond = tmp_path / "file"
    beyond.touch()
    assert "Not a directory" in fails(capsys, "models", "-o", beyond / "x.json")
    with pytest.raises(aim.InputError, match="is a folder"):
        check_output(tmp_path, overwrite=True)


def test_text_survives_the_trip(tmp_path):
    path = write_text(tmp_path / "a.txt", f"{NAME}\nend")
    assert read_text(path) == f"{NAME}\nend"


# Figures.


@pytest.fixture(scope="module")
def run_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.nc"
    text = toml.dumps(aim.models.load("exact-linear")).replace('"exact-linear"', '"costs $5_{ \\\\frac or 6"')
    aim.solve(toml.loads(text), degree=3, times=[0, 0.05], check=False).save(path)
    return path


def test_the_backend_of_a_notebook_does_not_matter(run_file, tmp_path):
    done = shell("$A plot $1 -o $2", run_file, tmp_path / "run.png", MPLBACKEND="of another installation")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_latex_is_not_needed_where_the_user_asks_for_it(run_file, tmp_path, monkeypatch):
    run = aim.Trajectory.load(run_file)
    monkeypatch.setenv("PATH", "")
    with mpl.rc_context({"text.usetex": True}):
        figure = trajectory_plot(run)
        for suffix in (".png", ".pdf", ".svg"):
            save_figure(figure, tmp_path / f"a{suffix}")
        figure.savefig(tmp_path / "b.png", bbox_inches="tight")
    assert (tmp_path / "b.png").stat().st_size > 1000


def test_names_are_no_mathtext():
    for name in ("$x", "$a$ and $b$", r"\frac{", "_private", "a\nb", "x" * 500, "100 %", "^_^", "#1"):
        figure, (axes,) = new_figure(4, 3)
        axes.plot([0, 1], label=plain_text(name))
        legend = figure.legend()
        figure.suptitle(plain_text(name), fontsize=6)
        figure.draw_without_rendering()
        shown = legend.get_texts()[0].get_text().replace(r"\$", "$").strip()
        assert shown == " ".join(name.split()) or (len(shown) == 90 and name.startswith(shown[:-3]))
