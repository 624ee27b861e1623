"""What a derivation is: a title and numbered steps, each a sentence and the formula it arrives at.

Every numbered script here has ``derive() -> Derivation``: it derives its result symbolically from the step before,
asserts that the library agrees, and returns the steps. ``python derivations/03_hierarchy_from_sgd.py`` prints them as
LaTeX, ``-o FILE`` writes them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One step: ``text`` in words (LaTeX allowed), ``formula`` in LaTeX without delimiters; no formula when it is
    empty."""

    text: str
    formula: str = ""


@dataclass(frozen=True)
class Derivation:
    """A derivation that has been carried out.

    >>> print(Derivation("One", (Step("Add.", "1 + 1 = 2"),)).formulas())
    ['1 + 1 = 2']
    """

    title: str
    steps: tuple[Step, ...]

    def formulas(self) -> list[str]:
        """The formulas in order, in the subset of LaTeX that KaTeX reads."""
        return [step.formula for step in self.steps if step.formula]

    def latex(self) -> str:
        """A standalone LaTeX article."""
        lines = [
            r"\documentclass{article}",
            r"\usepackage[utf8]{inputenc}",
            r"\usepackage{amsmath,amssymb}",
            rf"\title{{{self.title}}}",
            r"\date{}",
            r"\begin{document}",
            r"\maketitle",
        ]
        for number, step in enumerate(self.steps, start=1):
            lines.append(rf"\paragraph{{{number}.}} {step.text}")
            if step.formula:
                lines += [r"\[", step.formula, r"\]"]
        return "\n".join([*lines, r"\end{document}", ""])


def check(condition: bool, claim: str) -> None:
    """Raise ``AssertionError`` with the claim when a step does not hold; unlike ``assert`` it is never optimized
    away."""
    if not condition:
        raise AssertionError(f"the derivation fails: {claim}")


def main(derive: Callable[[], Derivation], arguments: Sequence[str] | None = None) -> None:
    """Carry out a derivation and print it as LaTeX, or write it with ``-o FILE``."""
    parser = argparse.ArgumentParser(description="Carry out this derivation and give it as a LaTeX article.")
    parser.add_argument("-o", "--output", type=Path, help="write to this file instead of printing")
    options = parser.parse_args(arguments)
    text = derive().latex()
    if options.output is None:
        print(text, end="")
    else:
        options.output.write_text(text, encoding="utf-8")


__all__ = ["Derivation", "Step", "check", "main"]
