"""The examples of the documents, run as they stand: a newcomer copies them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import aimtheory as aim

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", pytest.param("README.md", marks=pytest.mark.slow)])
def test_examples_run(name, tmp_path):
    """In a process of their own: they define laws, closures and records that no other test should meet."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    run = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def test_the_model_of_the_readme_is_the_built_in_one(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "model.toml").write_text(text, encoding="utf-8")
    assert aim.models.load(tmp_path / "model.toml") == aim.models.load("tied-softmax-values")


def test_named_files_exist():
    """Files that the manual, the theory map and the glossary name by their path."""
    missing = []
    for document in ("README.md", "CONTRIBUTING.md", "docs/design.md", "docs/theory-map.md", "docs/glossary.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:[a-z_]+/)+[A-Za-z0-9_.\-]*)`", text):
            # "derivations/01" stands for the file that begins so.
            if not any(list(base.glob(f"{path.rstrip('/')}*")) for base in (ROOT, ROOT / "aimtheory")):
                missing.append(f"{document}: {path}")
    assert missing == []
