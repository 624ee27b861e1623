"""What is said of the package outside of it: versions, classifiers, citation, what a source archive holds."""

import re
import tomllib
from pathlib import Path

import pytest

import aimtheory

ROOT = Path(aimtheory.__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"

pytestmark = pytest.mark.skipif(not PROJECT.is_file(), reason="the installed package comes without its project")


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads(PROJECT.read_text(encoding="utf-8"))


def test_one_version(project):
    cited = re.search(r"^version: (.*)$", read("CITATION.cff"), re.M)
    assert project["project"]["version"] == aimtheory.__version__ == cited[1]
    assert f"## {aimtheory.__version__}" in read("CHANGELOG.md")


def test_citation_names_both_sources():
    text = read("CITATION.cff")
    assert set(re.findall(r"arXiv:\d{4}\.\d{5}$", text, re.M)) == {"arXiv:2609.03858", "arXiv:2506.01582"}
    keys = set(re.findall(r"^([a-z-]+):", text, re.M))
    assert keys >= {"cff-version", "message", "title", "authors", "version", "license"}


def test_the_project_says_where_it_runs_and_what_it_ships(project):
    listed = project["project"]["classifiers"]
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(listed)
    assert project["project"]["urls"]
    shipped = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {"aimtheory", "derivations", "docs", "notebooks", "tests"} <= set(shipped)
    assert [name for name in shipped if not (ROOT / name).exists()] == []


def test_the_hooks_are_the_checks_of_this_project():
    text = read(".pre-commit-config.yaml")
    assert re.findall(r"repo: (.*)$", text, re.M) == ["local"]  # nothing is fetched
    assert set(re.findall(r"- id: (.*)$", text, re.M)) == {"ruff", "ruff-format", "mypy"}
