"""The notebooks run, at a small size by default, and are committed without outputs."""

import builtins
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def execute(path, size, monkeypatch, timeout):
    monkeypatch.setenv("AIMTHEORY_NOTEBOOK_SIZE", size)
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parent))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=timeout, kernel_name="python3").execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_there_are_notebooks():
    names = {path.stem for path in NOTEBOOKS}
    figures = {"figure1_truncation_softmax", "figure2_parameterizations", "figure3_fast_slow", "figure4_exact_linear"}
    assert names >= figures | {"spectrum_in_time", "bayes_algorithms"}


def faults(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count is not None for cell in code):
        yield "is committed with outputs"
    if 'os.environ.get("AIMTHEORY_NOTEBOOK_SIZE", "full")' not in code[0].source:
        yield "does not read its size"
    # Import, call, plot: whatever computes belongs to the package.
    if any(line.startswith(("def ", "class ")) for cell in code for line in cell.source.splitlines()):
        yield "defines functions or classes"


def test_committed_without_outputs_and_thin():
    assert [f"{path.stem} {fault}" for path in NOTEBOOKS for fault in faults(path)] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_at_small_size(path, monkeypatch, capsys):
    """In this process, cell by cell: a kernel for each costs more than what most of them compute."""
    monkeypatch.setenv("AIMTHEORY_NOTEBOOK_SIZE", "small")
    monkeypatch.setattr(builtins, "display", lambda _: None, raising=False)
    drawn = []
    make = Figure.__init__

    def made(figure, *args, **options):
        drawn.append(figure)
        make(figure, *args, **options)

    monkeypatch.setattr(Figure, "__init__", made)
    names = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            exec(compile(cell.source.replace("%matplotlib inline", ""), path.stem, "exec"), names)
    assert drawn
    for figure in drawn:
        figure.canvas.draw()
    plt.close("all")
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_at_full_size(path, monkeypatch):
    outputs = execute(path, "full", monkeypatch, timeout=7200)
    assert any("image/png" in output.get("data", {}) for output in outputs)
