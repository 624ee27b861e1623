"""The equations of a hierarchy in LaTeX, in the notation of [D] (11)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.words import Word

if TYPE_CHECKING:
    from aimtheory.hierarchy.moments import MomentHierarchy


def trace_latex(word: Word) -> str:
    """The normalized trace of a word."""
    return rf"\operatorname{{tr}}({word.latex})"


def _fraction(value: Fraction) -> str:
    size = abs(value)
    if size.denominator == 1:
        return "" if size == 1 else f"{size} "
    return rf"\tfrac{{{size.numerator}}}{{{size.denominator}}} "


def equation_latex(hierarchy: MomentHierarchy, word: Word) -> tuple[str, str]:
    """Left and right side of the equation of one word, terms grouped by coupling."""
    grouped: dict[Coupling, list[tuple[Fraction, Word]]] = {}
    for (coupling, target), coefficient in hierarchy.drift(word).items():
        grouped.setdefault(coupling, []).append((coefficient, target))
    parts: list[str] = []
    for coupling, terms in grouped.items():
        common = terms[0][0] if all(c == terms[0][0] for c, _ in terms) else Fraction(-1 if terms[0][0] < 0 else 1)
        inside = ""
        for coefficient, target in terms:
            ratio = coefficient / common
            sign = "-" if ratio < 0 else ("+" if inside else "")
            inside += f" {sign} {_fraction(ratio)}{trace_latex(target)}"
        body = rf"\left({inside.strip()}\right)" if len(terms) > 1 else inside.strip()
        sign = "-" if common < 0 else ("+" if parts else "")
        parts.append(f"{sign} {_fraction(common)}{coupling.latex} {body}".strip())
    left = rf"\frac{{d}}{{dt}} {trace_latex(word)}"
    return left, " ".join(parts) or "0"


def hierarchy_latex(hierarchy: MomentHierarchy) -> str:
    """All equations of words that move, as one ``aligned`` block that KaTeX and LaTeX both read."""
    lines = []
    for word, constant in zip(hierarchy.words, hierarchy.constant, strict=True):
        if not constant:
            left, right = equation_latex(hierarchy, word)
            lines.append(f"{left} &= {right}")
    body = " \\\\\n".join(lines)
    return f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}"


__all__ = ["equation_latex", "hierarchy_latex", "trace_latex"]
