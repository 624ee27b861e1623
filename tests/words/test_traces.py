"""Canonical traces by three routes: words, packed codes, and exact traces of random matrices over a finite field."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aimtheory.errors import InputError
from aimtheory.words import Alphabet, Letter, Word, canonical_trace, parse_word, trace_name
from aimtheory.words.packed import canonical_codes, canonical_words, letters_at, replace_letter, transpose_codes

CHECK = settings(derandomize=True, deadline=None, max_examples=150)

S1, S2, S3 = (Letter(f"S{k}", symmetric=True) for k in (1, 2, 3))
M, A, B = Letter("M"), Letter("A", symmetric=True), Letter("B", symmetric=True)
W, X, V, D = Letter("W", "d", "r"), Letter("X", "d", "r"), Letter("V", "r", "s"), Letter("D")
ALPHABETS = {
    "tied two": Alphabet.of([S1, S2]),
    "tied three": Alphabet.of([S1, S2, S3]),
    "untied": Alphabet.of([M, A, B]),
    "rectangular": Alphabet.of([W, X, V, D]),
}

PRIME = 1_048_573  # products of two residues and sums of a few of them stay below 2^63
SIZES = {"d": 5, "r": 4, "s": 6}
_RNG = np.random.default_rng(20)


def _residues(letter):
    matrix = _RNG.integers(0, PRIME, size=(SIZES[letter.rows], SIZES[letter.columns]))
    return (matrix + matrix.T) % PRIME if letter.symmetric else matrix


BASES = sorted({a for alphabet in ALPHABETS.values() for a in alphabet.letters if not a.transposed})
MATRICES = {letter: _residues(letter) for letter in BASES}


def finite_field_trace(word):
    """Tr of a product of random matrices modulo a prime: exact; different traces agree with odds of 1e-6."""
    product = np.eye(SIZES[word.rows], dtype=np.int64)
    for letter in word:
        matrix = MATRICES[letter.T].T if letter.transposed else MATRICES[letter]
        product = product @ matrix % PRIME
    return int(np.trace(product)) % PRIME


def _way(letters, start, end):
    """A shortest path of letters from one space to another, to close an open word."""
    paths = {start: ()}
    while end not in paths:
        for space, path in list(paths.items()):
            for letter in letters:
                if letter.rows == space:
                    paths.setdefault(letter.columns, (*path, letter))
    return paths[end]


@st.composite
def closed_words(draw, alphabet, longest=7):
    length = draw(st.integers(1, longest))
    letters = [draw(st.sampled_from(alphabet.letters))]
    while len(letters) < length:
        letters.append(draw(st.sampled_from([a for a in alphabet.letters if a.rows == letters[-1].columns])))
    return Word((*letters, *_way(alphabet.letters, letters[-1].columns, letters[0].rows)))


any_alphabet = st.sampled_from(sorted(ALPHABETS))


@CHECK
@given(st.data(), any_alphabet)
def test_canonical_trace_is_invariant_and_idempotent(data, name):
    word = data.draw(closed_words(ALPHABETS[name]))
    canonical = canonical_trace(word)
    for step in range(len(word)):
        assert canonical_trace(word.rotate(step)) == canonical
        assert canonical_trace(word.T.rotate(step)) == canonical
    assert canonical_trace(canonical) == canonical
    assert sorted(map(str, canonical)) in (sorted(map(str, word)), sorted(map(str, word.T)))


@CHECK
@given(st.data(), any_alphabet)
def test_canonical_traces_separate_exactly_the_traces_that_differ(data, name):
    first = data.draw(closed_words(ALPHABETS[name], 6))
    letters = data.draw(st.permutations(first.letters))
    # A rearrangement of the same letters is the hard case; it need not be a path.
    try:
        second = Word(tuple(letters))
    except InputError:
        second = data.draw(closed_words(ALPHABETS[name], 6))
    if not second.is_closed:
        return
    same = finite_field_trace(first) == finite_field_trace(second)
    assert (canonical_trace(first) == canonical_trace(second)) == same


@CHECK
@given(st.data(), any_alphabet)
def test_packed_codes_agree_with_words(data, name):
    alphabet = ALPHABETS[name]
    length = data.draw(st.integers(1, 6))
    drawn = data.draw(st.lists(closed_words(alphabet, length).filter(lambda w: len(w) == length), min_size=1))
    codes = np.array([alphabet.pack(word) for word in drawn], dtype=np.int64)
    assert [alphabet.unpack(code, length) for code in codes] == drawn
    assert [alphabet.unpack(c, length) for c in transpose_codes(alphabet, codes, length)] == [w.T for w in drawn]
    canonical = canonical_codes(alphabet, codes, length)
    assert [alphabet.unpack(code, length) for code in canonical] == [canonical_trace(word) for word in drawn]


@CHECK
@given(st.data(), st.sampled_from(["tied two", "tied three", "untied"]))
def test_replacing_a_letter_of_packed_words(data, name):
    alphabet = ALPHABETS[name]
    word = data.draw(closed_words(alphabet, 6))
    new = data.draw(closed_words(alphabet, 3))
    position = data.draw(st.integers(0, len(word) - 1))
    expected = Word((*word.letters[:position], *new.letters, *word.letters[position + 1 :]))
    codes = np.array([alphabet.pack(word)], dtype=np.int64)
    replaced = replace_letter(codes, len(word), position, alphabet.bits, alphabet.pack(new), len(new))
    assert alphabet.unpack(int(replaced[0]), len(expected)) == expected
    found = letters_at(codes, len(word), position, alphabet.bits)
    assert alphabet.letters[int(found[0])] == word.letters[position]


def brute_force_classes(alphabet, length):
    """Closed words of a length up to rotation and transposition, by merging orbits: no canonical form is used."""
    seen, classes = set(), 0
    for letters in itertools.product(alphabet.letters, repeat=length):
        if any(a.columns != b.rows for a, b in itertools.pairwise((*letters, letters[0]))) or letters in seen:
            continue
        classes += 1
        mirrored = tuple(letter.T for letter in reversed(letters))
        for form in (letters, mirrored):
            seen.update(form[k:] + form[:k] for k in range(length))
    return classes


@pytest.mark.parametrize(("name", "longest"), [("tied two", 9), ("tied three", 7), ("untied", 6), ("rectangular", 6)])
def test_enumeration_against_brute_force(name, longest):
    alphabet = ALPHABETS[name]
    for length in range(1, longest + 1):
        codes = canonical_words(alphabet, length)
        assert len(codes) == brute_force_classes(alphabet, length)
        assert (np.diff(codes) > 0).all()
        assert all(canonical_trace(w) == w for w in (alphabet.unpack(int(c), length) for c in codes))


def test_number_of_words_over_two_letters():
    # Cumulated binary bracelets (OEIS A000029): the sizes of the tied hierarchy at degree M.
    expected = {2: 5, 4: 15, 6: 36, 8: 84, 10: 208, 12: 558}
    alphabet = ALPHABETS["tied two"]
    sizes = [len(canonical_words(alphabet, length)) for length in range(1, 13)]
    assert {M: sum(sizes[:M]) for M in expected} == expected


def burnside_bracelets(length, colours):
    """The number of bracelets of symmetric letters by Burnside's lemma, independent of any enumeration."""
    rotations = sum(colours ** np.gcd(k, length) for k in range(length))
    if length % 2:
        reflections = length * colours ** ((length + 1) // 2)
    else:
        reflections = length // 2 * (colours ** (length // 2) + colours ** (length // 2 + 1))
    return int(rotations + reflections) // (2 * length)


@pytest.mark.parametrize(("name", "colours", "length"), [("tied two", 2, 19), ("tied three", 3, 11)])
def test_long_words_by_burnside(name, colours, length):
    # Length 19 over two letters crosses the chunk of the enumeration (2^18 codes).
    assert len(canonical_words(ALPHABETS[name], length)) == burnside_bracelets(length, colours)


def test_limits_of_packing():
    alphabet = ALPHABETS["tied two"]
    assert alphabet.max_length == 62
    with pytest.raises(InputError, match=r"length 63 over 2 letters need 63 bits"):
        canonical_words(alphabet, 63)
    with pytest.raises(InputError, match="letter M"):
        alphabet.pack(Word.of(M))
    with pytest.raises(InputError, match="at least one letter"):
        Alphabet.of([])


def test_an_alphabet_refuses_two_letters_of_one_name():
    with pytest.raises(InputError, match="'A'"):
        Alphabet.of([A, Letter("A")])


@pytest.mark.parametrize("text", ["tr(M A M^T B)", "M A M^T B", "M*A*M'*B", "  tr( M A   M' B )  "])
def test_parsing(text):
    assert parse_word(text, [M, A, B]) == Word.of(M, A, M.T, B)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "empty"),
        ("tr()", "empty"),
        ("tr(M C)", "unknown letter 'C'.*A, B, M, M\\^T"),
        ("tr(M A", "unknown letter"),
        ("M^2", "unknown letter"),
        ("__import__('os')", "unknown letter"),
        ("A^T^T", "unknown letter"),
    ],
)
def test_parse_errors(text, match):
    with pytest.raises(InputError, match=match):
        parse_word(text, [M, A, B])


@CHECK
@given(st.data(), any_alphabet)
def test_names_can_be_read_back(data, name):
    alphabet = ALPHABETS[name]
    word = data.draw(closed_words(alphabet))
    assert alphabet.parse(trace_name(word)) == word


def test_typed_errors():
    with pytest.raises(InputError, match=r"W has columns 'r' but W has rows 'd'"):
        Word.of(W, W)
    with pytest.raises(InputError, match="has no trace"):
        canonical_trace(Word.of(W))
    with pytest.raises(InputError, match="empty word"):
        canonical_trace(Word(()))
    with pytest.raises(InputError, match="closed word"):
        Word.of(W).rotate(1)
    with pytest.raises(InputError, match="cannot multiply"):
        Word.of(W) * Word.of(D)
    with pytest.raises(InputError, match="at least one letter"):
        Word.of()
    with pytest.raises(InputError, match="rows == columns"):
        Letter("Q", "d", "r", symmetric=True)
    with pytest.raises(InputError, match="symmetric"):
        Letter("Q", symmetric=True, transposed=True)
    for name in ("", "1a", "a b", "a-b", "x\n"):
        with pytest.raises(InputError, match="letter name"):
            Letter(name)


def test_transposition_of_letters():
    assert W.T.T == W
    assert A.T is A
    assert (W.T.rows, W.T.columns) == ("r", "d")
    identity = Word((), "r")
    assert identity == identity.T
    assert str(Word((), "r")) == "1"
