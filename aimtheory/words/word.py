"""Words: products of letters, that is paths through the spaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aimtheory.errors import InputError
from aimtheory.words.letters import Letter


@dataclass(frozen=True)
class Word:
    """A product X_1 X_2 ... X_w of letters; the empty word is the identity of ``space``.

    Multiplication concatenates, ``.T`` reverses and transposes. A word is closed when it maps a space to itself, so
    that its trace exists. Raises ``InputError`` when two neighbours do not fit.

    >>> W, S = Letter("W", "d", "r"), Letter("S", symmetric=True)
    >>> word = Word.of(W, W.T, S)
    >>> str(word), str(word.T), word.is_closed, len(word)
    ('W W^T S', 'S W W^T', True, 3)
    """

    letters: tuple[Letter, ...]
    space: str = "d"

    def __post_init__(self) -> None:
        for left, right in zip(self.letters, self.letters[1:], strict=False):
            if left.columns != right.rows:
                raise InputError(
                    f"word {self._text()}: {left} has columns {left.columns!r} but {right} has rows {right.rows!r}; "
                    "neighbouring letters must share a space"
                )
        if self.letters:
            object.__setattr__(self, "space", self.letters[0].rows)

    @classmethod
    def of(cls, *letters: Letter) -> Word:
        """The word with these letters, at least one."""
        if not letters:
            raise InputError("Word.of needs at least one letter; write Word((), space) for an identity")
        return cls(tuple(letters))

    @property
    def rows(self) -> str:
        """Space of the rows of the product."""
        return self.space

    @property
    def columns(self) -> str:
        """Space of the columns of the product."""
        return self.letters[-1].columns if self.letters else self.space

    @property
    def is_closed(self) -> bool:
        """True when rows and columns are the same space, so that the trace exists."""
        return self.rows == self.columns

    @property
    def T(self) -> Word:
        """The transposed product: letters reversed and transposed."""
        return Word(tuple(letter.T for letter in reversed(self.letters)), self.columns)

    def rotate(self, steps: int) -> Word:
        """The closed word read from ``steps`` letters later; same trace (up to the dimension of the starting space)."""
        if not self.is_closed:
            raise InputError(f"word {self} maps {self.columns!r} to {self.rows!r}; only a closed word can be rotated")
        if not self.letters:
            return self
        steps %= len(self.letters)
        return Word(self.letters[steps:] + self.letters[:steps])

    def __mul__(self, other: Word) -> Word:
        if not isinstance(other, Word):
            return NotImplemented
        if self.columns != other.rows:
            raise InputError(f"cannot multiply {self} (columns {self.columns!r}) by {other} (rows {other.rows!r})")
        return Word(self.letters + other.letters, self.space)

    def __len__(self) -> int:
        return len(self.letters)

    def __iter__(self) -> Iterator[Letter]:
        return iter(self.letters)

    def _text(self) -> str:
        return " ".join(map(str, self.letters)) or "1"

    def __str__(self) -> str:
        return self._text()

    @property
    def latex(self) -> str:
        """LaTeX of the product."""
        return " ".join(letter.latex for letter in self.letters) or "1"


def parse_word(text: str, letters: Iterable[Letter]) -> Word:
    """Read ``"S1 S2"``, ``"M1 M2^T"`` or ``"tr(S1 S2)"`` over the given letters; text is only split, never evaluated.

    >>> S1, S2 = Letter("S1", symmetric=True), Letter("S2", symmetric=True)
    >>> str(parse_word("tr(S1 S2 S2)", [S1, S2]))
    'S1 S2 S2'

    Raises ``InputError`` for an unknown letter, naming those that exist.
    """
    table: dict[str, Letter] = {}
    for letter in letters:
        for form in (letter, letter.T):
            table[str(form)] = form
            table[str(form).replace("^T", "'")] = form
    body = text.strip()
    if body.startswith("tr(") and body.endswith(")"):
        body = body[3:-1]
    names = body.replace("*", " ").split()
    if not names:
        raise InputError(f"word {text!r} is empty; write a product such as 'tr(S1 S2)'")
    unknown = [name for name in names if name not in table]
    if unknown:
        known = ", ".join(sorted({str(letter) for letter in table.values()}))
        raise InputError(f"unknown letter {unknown[0]!r} in word {text!r}; the letters of this model are {known}")
    return Word(tuple(table[name] for name in names))


__all__ = ["Word", "parse_word"]
