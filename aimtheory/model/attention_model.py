"""The attention-indexed model: what is learned, from what, and how its matrices are made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aimtheory.errors import AssumptionError, InputError
from aimtheory.frozen import Uncached
from aimtheory.model.context import Context
from aimtheory.model.form import Form, Trace
from aimtheory.model.losses import is_loss
from aimtheory.model.parameter import Parameter
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.words import EMBEDDING, SCALARS, Letter, Polynomial, parse_polynomial

if TYPE_CHECKING:
    from aimtheory.model.activations import Activation
    from aimtheory.model.losses import Loss
    from aimtheory.model.parameterization import Attention
    from aimtheory.spectra import MatrixLaw


@dataclass(frozen=True, kw_only=True)
class AttentionModel(Uncached):
    """An attention-indexed model: the one input of theory and simulation alike ([D] section 2).

    ``parameters`` are matrices, trained or fixed, each with one law. ``forms`` are the attention matrices S_k, words in
    the parameters; the loss reads their quadratic forms G_ijk = x_i^T S_k x_j / sqrt(d), centred (C_ij Tr S_k / sqrt(d)
    taken off) when ``centred``. ``traces`` are order parameters R = tr P that the loss reads explicitly. Samples come
    from ``contexts``: L tokens x_1..x_L, Gaussian with E[x_ia x_jb] = C_ij delta_ab, in a mixture of given weights.

    Every trained parameter moves by one rule, under online SGD with weight decay ``weight_decay`` (gamma): d theta/ds =
    - (pull-back of the couplings of forms and traces through their polynomials) - gamma theta in s = n alpha_d/d. Time
    is t = clock x s; ``clock`` is 4 when every trained form is some X X^T (tied attention), else 1, unless given.
    ``names`` gives readable names to products of parameters that start and end in the embedding space.

    Raises ``InputError`` for what does not fit together and ``AssumptionError`` when an assumption of the theory is
    broken, for instance forms with a diverging mean.

    >>> import aimtheory as aim
    >>> W1 = aim.Parameter("W1", columns="r1", law=aim.GaussianEntries(width=1, trace=1))
    >>> W2 = aim.Parameter("W2", columns="r2", law=aim.GaussianEntries(width=1, trace=1), trained=False)
    >>> model = aim.AttentionModel(parameters=(W1, W2), forms=(aim.Form("S1", "W1 W1^T"), aim.Form("S2", "W2 W2^T")),
    ...     contexts=((1, 2, None),), loss=aim.MeanSquaredError("softmax"))
    >>> model.trained_forms, model.centred, model.clock
    ((True, False), True, Fraction(4, 1))
    """

    parameters: tuple[Parameter, ...]
    forms: tuple[Form, ...]
    loss: Loss
    contexts: tuple[Context, ...]
    traces: tuple[Trace, ...] = ()
    weight_decay: Scalar = Fraction(0)
    centred: bool = True
    clock: Scalar = None
    names: tuple[tuple[str, Polynomial], ...] = ()
    name: str = field(default="model", compare=False)

    def __post_init__(self) -> None:
        put = self._put
        put("parameters", _items(self.parameters, Parameter, "parameters"))
        letters = _letters(self.parameters)
        put("forms", tuple(form.resolved(letters) for form in _items(self.forms, Form, "forms")))
        put("traces", tuple(trace.resolved(letters) for trace in _items(self.traces, Trace, "traces")))
        put("contexts", _contexts(self.contexts))
        put("names", tuple((name, _polynomial(value, letters)) for name, value in self.names))
        if not isinstance(self.centred, bool):
            raise InputError(f"centred = {self.centred!r} must be True or False")
        put("weight_decay", to_scalar(self.weight_decay, "weight_decay"))
        if isinstance(self.weight_decay, Fraction | float) and self.weight_decay < 0:
            raise InputError(f"weight_decay = {self.weight_decay} must be at least 0")
        put("clock", self._default_clock() if self.clock is None else to_scalar(self.clock, "clock"))
        if not self.clock > 0:
            raise InputError(f"clock = {self.clock} must be positive: t = n x clock x learning_rate / d")
        self._check_names()
        self._check_loss()
        self._check_letters()
        self._check_means()

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _default_clock(self) -> Fraction:
        squares = {form.is_square for form, trained in zip(self.forms, self.trained_forms, strict=True) if trained}
        return Fraction(4) if squares == {True} else Fraction(1)

    def _check_names(self) -> None:
        if not self.forms:
            raise InputError("a model needs at least one form; give a student, and a teacher for it to learn from")
        for what, names in (
            ("forms", [form.name for form in self.forms]),
            ("traces", [trace.name for trace in self.traces]),
        ):
            if len(set(names)) != len(names):
                raise InputError(f"{what} share a name: {', '.join(names)}; every one needs its own")
        letters = self.letters
        for form in self.forms:
            letter = letters.get(form.name)
            if letter is not None and form.matrix != Polynomial.word(letter):
                raise InputError(
                    f"form {form.name} = {form.matrix} has the name of a parameter that it is not, so that "
                    f"tr({form.name}) would mean two things; rename one"
                )

    def _check_loss(self) -> None:
        if not is_loss(self.loss):
            raise InputError(f"loss = {self.loss!r} is not a loss; use MeanSquaredError('softmax'), for example")
        if self.loss.indices != len(self.forms):
            raise InputError(
                f"the loss reads {self.loss.indices} indices but the model has {len(self.forms)}; they must agree"
            )
        for context in self.contexts:
            if self.loss.tokens is not None and self.loss.tokens != context.tokens:
                raise InputError(
                    f"the loss is written for {self.loss.tokens} tokens but the model has {context.tokens}"
                )
        known = [trace.name for trace in self.traces]
        for name in self.loss.traces:
            if name not in known:
                raise InputError(
                    f"the loss reads the trace {name!r}, which the model does not have; its traces are "
                    f"{', '.join(known) or 'none'}: add Trace({name!r}, ...)"
                )

    def _check_letters(self) -> None:
        polynomials = [form.matrix for form in self.forms] + [trace.matrix for trace in self.traces]
        used = {letter.name for polynomial in polynomials for letter in polynomial.letters}
        for parameter in self.parameters:
            if parameter.trained and parameter.name not in used:
                raise InputError(
                    f"parameter {parameter.name} is trained, but no form and no trace contains it, so that nothing "
                    "moves it: put it into one, or set trained=False"
                )
            if parameter.law is not None:
                parameter.law.check_extensive_rank()
        _ = self.widths

    def _check_means(self) -> None:
        if self.centred:
            return
        for form in self.forms:
            for word, _ in form.matrix:
                if word != word.T and len(word) > 1:
                    continue
                law = self.parameter(word.letters[0].name).law if len(word) == 1 else None
                if len(word) == 1 and (law is None or law.scaled_trace is not None):
                    continue
                raise AssumptionError(
                    f"{form.name} = {form.matrix} has a term, {word}, with Tr S = Theta(d), so the uncentred form "
                    "x_i^T S x_j / sqrt(d) has a mean that diverges like sqrt(d) (Assumption 1.2 of Theorem 1 asks for "
                    "a finite limit): use centred=True"
                )

    @classmethod
    def of(cls, *attention: Attention, **fields: Any) -> Self:
        """The model of these attention matrices (``tied(1, law)``, ``untied(2, law)``, ...) and of further fields.

        Parameters that several of them share are taken once; they must agree.

        >>> import aimtheory as aim
        >>> from aimtheory.model import tied
        >>> law = aim.Wishart(width=1, trace=1)
        >>> model = AttentionModel.of(tied(1, law), tied(2, law, trained=False), contexts=((1, 1),),
        ...     loss=aim.MeanSquaredError("linear"))
        >>> sorted(model.letters)
        ['W1', 'W2']
        """
        for key in ("parameters", "names"):
            made = [item for each in attention for item in getattr(each, key)]
            fields[key] = (*dict.fromkeys(made), *fields.get(key, ()))
        return cls(forms=tuple(each.form for each in attention), **fields)

    @classmethod
    def teacher_student(
        cls,
        *,
        tokens: int,
        activation: str | Activation,
        parameterization: str,
        student: MatrixLaw,
        teacher: MatrixLaw,
        loss: str = "mse",
        teacher_activation: str | Activation | None = None,
        inverse_temperature: float = 1.0,
        token_covariance: object = None,
        weight_decay: object = 0,
        centred: bool | None = None,
        name: str = "teacher-student",
    ) -> AttentionModel:
        """One student S_1 trained on the labels of one fixed teacher S_2.

        ``activation`` acts on both sides unless ``teacher_activation`` is given; a name such as ``"softmax"`` or a
        formula in x such as ``"tanh(x)"``, as text or sympy. ``loss`` is ``"mse"`` (half the sum of squares over all
        outputs) or ``"cross_entropy"`` (softmax). ``student`` and ``teacher`` are laws of the matrices S_1 and S_2. The
        parameterization (tied, untied, direct) is that of the student; the teacher, which does not move, is factored
        the same way when its law allows it. Untied forms keep their mean unless ``centred``.
        """
        from aimtheory.model.activations import activation as named_activation
        from aimtheory.model.losses import CrossEntropy, MeanSquaredError
        from aimtheory.model.parameterization import fixed_teacher, parameterized

        def read(value: str | Activation) -> Activation:
            options = {"inverse_temperature": inverse_temperature} if value in ("softmax", "causal_softmax") else {}
            return named_activation(value, **options)

        for side, law in (("student", student), ("teacher", teacher)):
            if not hasattr(law, "factor_pair"):
                raise InputError(
                    f"{side} = {law!r} is not a law; use Wishart, GaussianFactors, Ginibre, GOE, Atomic, ..."
                )
        losses = {kind.loss_name: kind for kind in (MeanSquaredError, CrossEntropy)}
        if loss not in losses:
            raise InputError(
                f"unknown loss {loss!r}; choose one of {', '.join(losses)}, or pass your own to AttentionModel"
            )
        first = read(activation)
        second = first if teacher_activation is None else read(teacher_activation)
        return cls.of(
            parameterized(parameterization, 1, student),
            fixed_teacher(parameterization, 2, teacher),
            contexts=(Context(tokens, token_covariance),),  # type: ignore[arg-type]
            loss=losses[loss](first, second),
            weight_decay=to_scalar(weight_decay, "weight_decay"),
            centred=parameterization != "untied" if centred is None else centred,
            name=name,
        )

    @cached_property
    def letters(self) -> dict[str, Letter]:
        """Every parameter letter by name, untransposed, in order."""
        return {parameter.name: parameter.letter for parameter in self.parameters}

    def parameter(self, name: str) -> Parameter:
        """The parameter of that name; ``InputError`` lists those that exist."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise InputError(f"no parameter {name!r}; the parameters of this model are {', '.join(self.letters)}")

    @cached_property
    def trained_letters(self) -> tuple[Letter, ...]:
        """The letters that SGD moves."""
        return tuple(parameter.letter for parameter in self.parameters if parameter.trained)

    @property
    def trained_forms(self) -> tuple[bool, ...]:
        """Which S_k move: those that contain a trained letter."""
        moving = {parameter.name for parameter in self.parameters if parameter.trained}
        return tuple(any(letter.name in moving for letter in form.matrix.letters) for form in self.forms)

    @property
    def symmetric(self) -> bool:
        """True when every S_k is its own transpose identically, so that q1 = q2 = q."""
        return all(form.is_symmetric for form in self.forms)

    @cached_property
    def widths(self) -> dict[str, Scalar]:
        """lim dim/d of every space, by the laws of the letters that have it as columns; ``InputError`` where two
        disagree. Spaces that no law gives are absent."""
        found: dict[str, tuple[Scalar, str]] = {EMBEDDING: (Fraction(1), "the embedding space")}
        for parameter in self.parameters:
            width = None if parameter.law is None else parameter.law.column_width
            if width is None or parameter.is_scalar or parameter.columns == EMBEDDING:
                continue
            known, owner = found.setdefault(parameter.columns, (width, parameter.name))
            if known != width:
                raise InputError(
                    f"{parameter.name} gives the space {parameter.columns!r} the width {width}, but {owner} gives it "
                    f"{known}; letters that share a space need one width"
                )
        return {space: width for space, (width, _) in found.items()}

    @property
    def context(self) -> Context:
        """The context, of a model that has only one; ``InputError`` for a mixture."""
        if len(self.contexts) != 1:
            raise InputError(f"the model mixes {len(self.contexts)} contexts; read model.contexts")
        return self.contexts[0]

    @property
    def tokens(self) -> int:
        """L, of a model with one context."""
        return self.context.tokens

    @property
    def covariance_matrix(self) -> np.ndarray:
        """The token covariance C as an L x L array, of a model with one context."""
        return self.context.covariance_matrix

    def sample(self, dim: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Initial parameter matrices at dimension ``dim`` by name, independent, float64; drawn in order."""
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 2:
            raise InputError(f"dim = {dim!r} must be an integer of at least 2")
        sizes = {EMBEDDING: int(dim), SCALARS: 1}
        for parameter in self.parameters:
            columns = parameter.known_law().columns(int(dim))
            if columns is not None and not parameter.is_scalar:
                sizes.setdefault(parameter.columns, columns)
        result: dict[str, np.ndarray] = {}
        for parameter in self.parameters:
            if parameter.rows not in sizes:
                raise InputError(
                    f"parameter {parameter.name} starts in the space {parameter.rows!r}, whose width no law gives; "
                    "declare a parameter with these columns first"
                )
            matrix = parameter.known_law().draw(sizes[parameter.rows], sizes.get(parameter.columns), int(dim), rng)
            sizes.setdefault(parameter.columns, matrix.shape[1])
            result[parameter.name] = matrix
        return result

    def __repr__(self) -> str:
        parameters = ", ".join(f"{p.name} ({'trained' if p.trained else 'fixed'}, {p.law!r})" for p in self.parameters)
        forms = ", ".join(f"{form.name} = {form.matrix}" for form in self.forms)
        traces = "".join(f", {trace.name} = tr({trace.matrix})" for trace in self.traces)
        contexts = ", ".join(
            f"{context.tokens} tokens{'' if context.token_covariance is None else ' correlated'}"
            for context in self.contexts
        )
        return (
            f"AttentionModel({forms}{traces}; {parameters}; {contexts}; loss={self.loss!r}, "
            f"weight_decay={self.weight_decay}, centred={self.centred})"
        )


def _items(values: Any, kind: type, what: str) -> tuple[Any, ...]:
    example = {
        Form: "Form('S1', 'W1 W1^T')",
        Trace: "Trace('R', 'V1^T V1')",
        Parameter: "Parameter('W1', columns='r1', law=GaussianEntries(1, 1))",
    }[kind]
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise InputError(f"{what} = {values!r} must be a sequence of {kind.__name__}s, such as ({example},)")
    items = tuple(values)
    for item in items:
        if not isinstance(item, kind):
            raise InputError(f"{what} hold {kind.__name__}s, got {item!r}; write {example}")
    return items


def _letters(parameters: Sequence[Parameter]) -> tuple[Letter, ...]:
    seen: dict[str, Parameter] = {}
    for parameter in parameters:
        other = seen.setdefault(parameter.name, parameter)
        if other is not parameter:
            raise InputError(
                f"parameter {parameter.name} is given twice, with the laws {other.law!r} and {parameter.law!r}; a "
                "letter has one law, however many forms share it"
            )
    if not seen:
        raise InputError("a model needs at least one parameter")
    return tuple(parameter.letter for parameter in parameters)


def _contexts(values: Any) -> tuple[Context, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(f"contexts = {values!r} {_CONTEXTS}")
    contexts = tuple(map(_context, values))
    if not contexts:
        raise InputError(f"a model needs at least one context: contexts {_CONTEXTS}")
    total = sum((context.weight for context in contexts), Fraction(0))
    if abs(float(total) - 1) > 1e-12:
        shown = ", ".join(str(context.weight) for context in contexts)
        raise InputError(f"the weights of the contexts, {shown}, sum to {total}; they must sum to 1")
    return contexts


_CONTEXTS = "are tuples (weight, tokens) or (weight, tokens, token_covariance): contexts=((1, 2),)"


def _context(value: Any) -> Context:
    if isinstance(value, Context):
        return value
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) not in (2, 3):
        raise InputError(f"contexts = (..., {value!r}, ...) {_CONTEXTS}")
    return Context(value[1], value[2] if len(value) > 2 else None, value[0])


def _polynomial(value: Polynomial | str, letters: tuple[Letter, ...]) -> Polynomial:
    return value if isinstance(value, Polynomial) else parse_polynomial(value, letters)


__all__ = ["AttentionModel"]
