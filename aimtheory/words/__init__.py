"""Words: typed letters, products, polynomials, canonical traces and the cyclic derivative.

Everything aimtheory derives is a trace of a typed word. This room knows nothing of attention: it is the algebra alone.
"""

from aimtheory.words.alphabet import Alphabet as Alphabet
from aimtheory.words.cyclic_derivative import cotangent_pullback as cotangent_pullback
from aimtheory.words.cyclic_derivative import cyclic_derivative as cyclic_derivative
from aimtheory.words.cyclic_derivative import leibniz as leibniz
from aimtheory.words.index_names import read_pair as read_pair
from aimtheory.words.index_names import spelled_indices as spelled_indices
from aimtheory.words.letters import EMBEDDING as EMBEDDING
from aimtheory.words.letters import SCALARS as SCALARS
from aimtheory.words.letters import Letter as Letter
from aimtheory.words.polynomial import Polynomial as Polynomial
from aimtheory.words.polynomial_text import parse_polynomial as parse_polynomial
from aimtheory.words.representation import Representation as Representation
from aimtheory.words.trace import canonical_trace as canonical_trace
from aimtheory.words.trace import trace_name as trace_name
from aimtheory.words.word import Word as Word
from aimtheory.words.word import parse_word as parse_word

__all__ = [
    "EMBEDDING",
    "SCALARS",
    "Alphabet",
    "Letter",
    "Polynomial",
    "Representation",
    "Word",
    "canonical_trace",
    "cotangent_pullback",
    "cyclic_derivative",
    "leibniz",
    "parse_polynomial",
    "parse_word",
    "read_pair",
    "spelled_indices",
    "trace_name",
]
