"""Every name that a result or an equation shows is explained where a user looks."""

import json
from pathlib import Path

import pytest

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.cli.names import of_model
from aimtheory.glossary import GLOSSARY, explain

DOCUMENT = Path(aim.__file__).parents[1] / "docs" / "glossary.md"


@pytest.mark.parametrize("name", aim.models.names())
def test_every_name_of_a_built_in_model_is_explained(name):
    sections = of_model(name)
    assert sections["Order parameters"]
    assert [item for entries in sections.values() for item, meaning in entries.items() if not meaning] == []


def test_names_of_results_are_found_and_others_are_not():
    for name in (
        "t_1",
        "q_12",
        "q1_12",
        "q2_21",
        "p_12",
        "m_1",
        "loss",
        "A1",
        "B1",
        "M1",
        "S2",
        "W1",
        "g_12",
        "beta_1",
    ):
        assert explain(name), name
    assert explain("p_10,12") == explain("p_12")
    assert explain("t_12") == explain("t_1")
    assert explain("x_1") is None


def test_the_command_prints_all_or_one_model(capsys):
    assert main(["names"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for entries in GLOSSARY.values():
        for name, meaning in entries.items():
            assert f"{name} {' '.join(meaning.split())}" in text
    assert main(["names", "untied-linear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"]["Matrices in words"]["A1"].startswith("U1 U1^T: ")


def test_help_explains_the_names_that_come_first(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("t_1 ", "q_12 ", "p_12 ", "A1, B1, M1"))
    assert main(["solve", "--help"]) == 0
    assert "p_12 = q_12 - t_1 t_2" in " ".join(capsys.readouterr().out.split())


def test_the_document_is_the_glossary():
    """docs/glossary.md holds every entry; write it anew from ``aimtheory.glossary`` when this fails."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for section, entries in GLOSSARY.items():
        assert f"## {section}\n" in text
        for name, meaning in entries.items():
            assert f"- `{name}`: {meaning}\n" in text


def test_the_meanings_are_what_is_computed():
    run = aim.solve(aim.models.load("tied-softmax"), degree=3, times=[0, 0.2], check=False,
                    observables=["t_1", "t_2", "q_12", "p_12", "tr(S1)", "tr(S1 S2)"])  # fmt: skip
    assert run["t_1"] == pytest.approx(run["tr(S1)"], rel=1e-13)
    assert run["q_12"] == pytest.approx(run["tr(S1 S2)"], rel=1e-13)
    assert run["p_12"] == pytest.approx(run["q_12"] - run["t_1"] * run["t_2"], rel=1e-12)
