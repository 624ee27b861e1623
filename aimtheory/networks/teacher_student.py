"""A student network trained on the outputs of a teacher network, as one attention-indexed model."""

from __future__ import annotations

from aimtheory.errors import InputError
from aimtheory.model import AttentionModel, Context, MeanSquaredError, Trace, ValueLoss
from aimtheory.model.activations import Softmax
from aimtheory.model.losses import Loss
from aimtheory.networks.architecture import FORM_LIMIT
from aimtheory.networks.attention_network import AttentionNetwork
from aimtheory.networks.compilation import compile_network
from aimtheory.networks.network_loss import NetworkLoss
from aimtheory.networks.parameters import path_letters
from aimtheory.networks.unrolling import Path
from aimtheory.scalars import to_scalar
from aimtheory.spectra import InitialLaw, MatrixLaw
from aimtheory.words import Polynomial


def network_loss(student: AttentionNetwork, teacher: AttentionNetwork, *, identity_tokens: bool = True) -> Loss:
    """The loss between two networks, in the simplest form that is exact.

    One layer that reads out tokens needs no unrolling: its scores are plain forms, the residual stream of both sides
    cancels, and the loss is a ``ValueLoss``, or a ``MeanSquaredError`` of added heads without values at C = 1
    (``identity_tokens``). These have exact potentials. Everything else is a ``NetworkLoss``.
    """
    return _comparison(student, teacher, identity_tokens)[0]


Words = tuple[tuple[Path, str], ...]
"""Products of value matrices, each a path and the tag of its network."""


def _comparison(
    student: AttentionNetwork, teacher: AttentionNetwork, identity_tokens: bool
) -> tuple[Loss, Words, tuple[tuple[int, int], ...]]:
    """The loss, the words whose overlaps it reads, and the pairs of them in the order of its traces."""
    plain = all(
        network.layers == 1 and network.readout == "tokens" and _plain_mask(network) for network in (student, teacher)
    )
    unlike = student.residual != teacher.residual or student.values != teacher.values
    if not plain or unlike or not (student.values or identity_tokens):
        unrolled = NetworkLoss(student, teacher)
        tagged = tuple((path, "t" if side else "") for side, path in unrolled.path_words)
        return unrolled, tagged, unrolled.trace_pairs
    kind = ValueLoss if student.values else MeanSquaredError
    activations = [
        network.attention if network.mask is None else Softmax(network.attention.inverse_temperature, mask="causal")  # type: ignore[attr-defined]
        for network in (student, teacher)
    ]
    loss = kind(
        activations[0],
        activations[1],
        students=range(student.heads),
        teachers=range(student.heads, student.heads + teacher.heads),
    )
    words: Words = tuple(
        (((0, head),), tag) for network, tag in ((student, ""), (teacher, "t")) for head in range(network.heads)
    )
    return loss, words, tuple((a, b) for a in range(len(words)) for b in range(a, len(words)))


def _plain_mask(network: AttentionNetwork) -> bool:
    """Whether an activation of the model does what attention and mask do."""
    return network.mask is None or (network.mask == "causal" and network.attention.name == "softmax")


def teacher_student(
    student: AttentionNetwork,
    teacher: AttentionNetwork | None = None,
    *,
    tokens: int,
    attention_law: MatrixLaw | None = None,
    value_law: InitialLaw | None = None,
    teacher_attention_law: MatrixLaw | None = None,
    teacher_value_law: InitialLaw | None = None,
    token_covariance: object = None,
    weight_decay: object = 0,
    centred: bool | None = None,
    name: str = "network",
    limit: int = FORM_LIMIT,
) -> AttentionModel:
    """A student network trained on the outputs of a fixed teacher network, as one attention-indexed model.

    The teacher is built as the student, and its laws are those of the student, unless given. ``centred`` is True by
    default when an attention matrix of either is tied, whose trace grows with d. Parameters of the teacher carry the
    tag ``t``: Kt11, Vt11, ... Raises ``InputError`` for outputs that cannot be compared and for too many forms.

    >>> import aimtheory as aim
    >>> network = AttentionNetwork(layers=1, heads=2, parameterization="tied", readout="tokens")
    >>> model = teacher_student(network, tokens=2, attention_law=aim.Wishart(width=1, trace=1),
    ...     value_law=aim.Ginibre(variance=1))
    >>> len(model.forms), len(model.traces)
    (4, 10)
    """
    teacher = student if teacher is None else teacher
    for network, what in ((student, "the student"), (teacher, "the teacher")):
        if not isinstance(network, AttentionNetwork):
            raise InputError(f"{what} is {network!r}; give an AttentionNetwork")
    if student.count + teacher.count > limit:
        raise InputError(
            f"student and teacher have {student.count} and {teacher.count} effective matrices, together more than "
            f"{limit}; take fewer layers or heads, values=False, or residual=False"
        )
    context = Context(tokens, token_covariance)  # type: ignore[arg-type]
    loss, words, pairs = _comparison(student, teacher, context.token_covariance is None)
    first = compile_network(student, attention_law, value_law, limit=limit)
    second = compile_network(
        teacher,
        attention_law if teacher_attention_law is None else teacher_attention_law,
        (value_law if teacher.values else None) if teacher_value_law is None else teacher_value_law,
        trained=False,
        tag="t",
        first=student.count + 1,
        limit=limit,
    )
    tied = "tied" in (student.parameterization, teacher.parameterization)
    return AttentionModel(
        parameters=(*first.parameters, *second.parameters),
        forms=(*first.forms, *second.forms),
        traces=_traces(loss, words, pairs),
        contexts=(context,),
        loss=loss,
        weight_decay=to_scalar(weight_decay, "weight_decay"),
        centred=tied if centred is None else centred,
        name=name,
    )


def _traces(loss: Loss, words: Words, pairs: tuple[tuple[int, int], ...]) -> tuple[Trace, ...]:
    """The order parameters that the loss reads, by its names; none for a loss without values."""
    if not loss.traces:
        return ()
    made = []
    for trace, (a, b) in zip(loss.traces, pairs, strict=True):
        left, right = path_letters(*words[a]), path_letters(*words[b])
        made.append(Trace(trace, Polynomial.word(*left, *(letter.T for letter in reversed(right)))))
    return tuple(made)


__all__ = ["network_loss", "teacher_student"]
