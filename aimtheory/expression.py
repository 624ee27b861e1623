"""Read a formula from text without ever evaluating text: a whitelist over Python's syntax tree.

The language has numbers, ``+ - * / **``, parentheses, the functions of :data:`FUNCTIONS`, the constants ``pi`` and
``E``, named symbols and subscripts with integer literals such as ``G[0, 1, 0]``. The syntax tree is walked by hand
into a sympy expression; nothing is compiled, imported, looked up or called by name. Length, depth, exponents and
sizes of numbers are bounded, so that ``9**9**9`` is refused instead of computed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from aimtheory.errors import InputError

MAXIMAL_LENGTH = 20_000
MAXIMAL_DEPTH = 64
MAXIMAL_EXPONENT = 64
MAXIMAL_NUMBER = 1e30


def _logistic(argument: sp.Expr) -> sp.Expr:
    # The tanh form does not overflow when it is evaluated in floating point.
    return (1 + sp.tanh(argument / 2)) / 2


def _softplus(argument: sp.Expr) -> sp.Expr:
    return sp.log(1 + sp.exp(argument))


FUNCTIONS: Mapping[str, tuple[Callable[..., sp.Expr], int]] = {
    "exp": (sp.exp, 1),
    "log": (sp.log, 1),
    "sqrt": (sp.sqrt, 1),
    "tanh": (sp.tanh, 1),
    "sinh": (sp.sinh, 1),
    "cosh": (sp.cosh, 1),
    "sin": (sp.sin, 1),
    "cos": (sp.cos, 1),
    "atan": (sp.atan, 1),
    "asinh": (sp.asinh, 1),
    "erf": (sp.erf, 1),
    "erfc": (sp.erfc, 1),
    "logistic": (_logistic, 1),
    "sigmoid": (_logistic, 1),
    "softplus": (_softplus, 1),
    "abs": (sp.Abs, 1),
    "Abs": (sp.Abs, 1),
    "sign": (sp.sign, 1),
    "Heaviside": (sp.Heaviside, 1),
    "relu": (lambda argument: sp.Max(0, argument), 1),
    "Max": (sp.Max, 2),
    "Min": (sp.Min, 2),
}
"""Name -> (sympy constructor, number of arguments). The non-smooth ones parse so that the theory can say why not."""

CONSTANTS: Mapping[str, sp.Expr] = {"pi": sp.pi, "E": sp.E}


def parse_expression(
    text: str,
    symbols: Sequence[str] = (),
    indexed: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, object] | None = None,
) -> sp.Expr:
    """The sympy expression that ``text`` writes, or an ``InputError`` with the position and the allowed vocabulary.

    ``symbols`` become ``Symbol(name, real=True)``; ``indexed`` maps a name to its shape, and ``name[i, j, k]``
    becomes ``IndexedBase(name)[i, j, k]`` with integer literals checked against the shape; ``constants`` maps names
    to numbers.

    >>> parse_expression("tanh(x)**2 / 2", symbols=("x",))
    tanh(x)**2/2
    >>> parse_expression("(G[0, 0, 0] - G[0, 0, 1])**2 / 2", indexed={"G": (1, 1, 2)})
    (G[0, 0, 0] - G[0, 0, 1])**2/2
    """
    if not isinstance(text, str):
        raise InputError(f"expression = {text!r} is not text")
    if len(text) > MAXIMAL_LENGTH:
        raise InputError(f"the expression has {len(text)} characters; at most {MAXIMAL_LENGTH} are read")
    if any(not character.isprintable() and character not in "\n\t " for character in text):
        raise InputError("the expression has control characters; write plain text")
    parser = _Parser(text, tuple(symbols), dict(indexed or {}), dict(constants or {}))
    flat = " ".join(text.split())
    parser.text = flat
    if not flat:
        raise InputError(f"the expression is empty; {parser.vocabulary()}")
    try:
        tree = ast.parse(flat, mode="eval")
    except SyntaxError as error:
        parser.fail((error.offset or 1) - 1, "this is not a formula")
    except (RecursionError, MemoryError, ValueError):
        raise InputError(f"the expression is nested too deeply; at most {MAXIMAL_DEPTH} levels are read") from None
    return parser.read(tree.body, 0)


class _Parser:
    def __init__(
        self,
        text: str,
        symbols: tuple[str, ...],
        indexed: dict[str, Sequence[int]],
        constants: dict[str, object],
    ) -> None:
        self.text = text
        self.symbols = symbols
        self.indexed = indexed
        self.constants = constants

    def vocabulary(self) -> str:
        names = [*self.symbols, *self.constants, *CONSTANTS]
        names += [f"{name}[{', '.join('ijklmn'[: len(shape)])}]" for name, shape in self.indexed.items()]
        return f"allowed: numbers, + - * / **, {', '.join(names)} and the functions {', '.join(FUNCTIONS)}"

    def fail(self, position: int, why: str) -> None:
        position = max(0, min(position, len(self.text)))
        start, stop = max(0, position - 30), position + 30
        shown = f"{self.text[start:position]}>>>{self.text[position:stop]}"
        raise InputError(f"at character {position + 1} of the expression, {shown!r}: {why}; {self.vocabulary()}")

    def refuse(self, node: ast.AST, why: str) -> InputError:
        column = len(self.text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        try:
            self.fail(column, why)
        except InputError as error:
            return error
        raise AssertionError("unreachable")

    def read(self, node: ast.AST, depth: int) -> sp.Expr:
        if depth > MAXIMAL_DEPTH:
            raise self.refuse(node, f"nested deeper than {MAXIMAL_DEPTH} levels")
        result = self._read(node, depth)
        return self._bounded(node, result)

    def _read(self, node: ast.AST, depth: int) -> sp.Expr:
        if isinstance(node, ast.Constant):
            return self._number(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            operand = self.read(node.operand, depth + 1)
            return -operand if isinstance(node.op, ast.USub) else operand
        if isinstance(node, ast.BinOp):
            return self._operation(node, depth)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        raise self.refuse(node, f"{type(node).__name__} is not part of the language")

    def _number(self, node: ast.Constant) -> sp.Expr:
        value = node.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(node, f"{value!r} is not a real number")
        if not abs(value) <= MAXIMAL_NUMBER:
            raise self.refuse(node, f"the number is larger than {MAXIMAL_NUMBER:g}")
        return sp.Integer(value) if isinstance(value, int) else sp.Float(value)

    def _name(self, node: ast.Name) -> sp.Expr:
        if node.id in self.symbols:
            return sp.Symbol(node.id, real=True)
        if node.id in self.constants:
            return sp.sympify(self.constants[node.id], strict=True)
        if node.id in CONSTANTS:
            return CONSTANTS[node.id]
        if node.id in self.indexed:
            raise self.refuse(node, f"{node.id} needs its indices, as in {node.id}[0, 0, 0]")
        if node.id in FUNCTIONS:
            raise self.refuse(node, f"{node.id} is a function and needs its argument")
        raise self.refuse(node, f"unknown name {node.id!r}")

    def _operation(self, node: ast.BinOp, depth: int) -> sp.Expr:
        # A long sum is a left-leaning chain; walking it in a loop keeps depth for true nesting.
        if isinstance(node.op, (ast.Add, ast.Sub)):
            terms: list[sp.Expr] = []
            current: ast.AST = node
            while isinstance(current, ast.BinOp) and isinstance(current.op, (ast.Add, ast.Sub)):
                right = self.read(current.right, depth + 1)
                terms.append(-right if isinstance(current.op, ast.Sub) else right)
                current = current.left
            terms.append(self.read(current, depth + 1))
            return sp.Add(*reversed(terms))
        left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            if right.is_zero:
                raise self.refuse(node.right, "division by zero")
            return left / right
        if isinstance(node.op, ast.Pow):
            if not (right.is_Rational or right.is_Float) or abs(right) > MAXIMAL_EXPONENT:
                raise self.refuse(node.right, f"an exponent is a number of size at most {MAXIMAL_EXPONENT}")
            if left.is_zero and right <= 0:
                raise self.refuse(node, "zero to a power that is not positive")
            if left.is_number and abs(float(abs(left))) not in (0.0, 1.0):
                bits = abs(math.log10(abs(float(abs(left))))) * abs(float(right))
                if bits > math.log10(MAXIMAL_NUMBER):
                    raise self.refuse(node, f"the power leaves the range 1/{MAXIMAL_NUMBER:g}..{MAXIMAL_NUMBER:g}")
            return left**right
        raise self.refuse(node, f"the operator {type(node.op).__name__} is not part of the language")

    def _call(self, node: ast.Call, depth: int) -> sp.Expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
            raise self.refuse(node, "only the listed functions can be called")
        constructor, arity = FUNCTIONS[node.func.id]
        if node.keywords or len(node.args) != arity:
            raise self.refuse(node, f"{node.func.id} takes {arity} argument{'s' if arity > 1 else ''}")
        arguments = [self.read(argument, depth + 1) for argument in node.args]
        exponential = node.func.id in ("exp", "sinh", "cosh", "softplus")
        if exponential and arguments[0].is_number and abs(float(arguments[0])) > math.log(MAXIMAL_NUMBER):
            raise self.refuse(node, f"the constant is larger than {MAXIMAL_NUMBER:g}")
        return constructor(*arguments)

    def _subscript(self, node: ast.Subscript) -> sp.Expr:
        if not isinstance(node.value, ast.Name) or node.value.id not in self.indexed:
            raise self.refuse(node, "only the listed indexed names take subscripts")
        name, shape = node.value.id, self.indexed[node.value.id]
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) != len(shape):
            raise self.refuse(node, f"{name} takes {len(shape)} indices, got {len(parts)}")
        indices = []
        for part, size in zip(parts, shape, strict=True):
            if not isinstance(part, ast.Constant) or isinstance(part.value, bool) or not isinstance(part.value, int):
                raise self.refuse(part, "an index is an integer literal")
            if not 0 <= part.value < size:
                raise self.refuse(part, f"index {part.value} is outside 0..{size - 1}")
            indices.append(part.value)
        return sp.IndexedBase(name)[tuple(indices)]

    def _bounded(self, node: ast.AST, result: sp.Expr) -> sp.Expr:
        if result.has(sp.nan, sp.oo, -sp.oo, sp.zoo, sp.I):
            raise self.refuse(node, "this is not a finite real number")
        if result.is_Pow and result.exp.is_number and abs(result.exp) > MAXIMAL_EXPONENT:
            raise self.refuse(node, f"an exponent is larger than {MAXIMAL_EXPONENT}")
        if result.is_number and not result.free_symbols:
            value = complex(result)
            if value.imag != 0.0 or not abs(value.real) <= MAXIMAL_NUMBER:
                raise self.refuse(node, f"this constant is not a real number of size at most {MAXIMAL_NUMBER:g}")
        return result


__all__ = ["CONSTANTS", "FUNCTIONS", "parse_expression"]
