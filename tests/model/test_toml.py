"""Model files: nothing is lost on the way to a file and back, and nothing in a file is ever run."""

from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import aimtheory as aim
from aimtheory.model import tied, toml
from aimtheory.model.activations import activation
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, MeanSquaredError

CHECK = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.mark.parametrize("name", aim.models.names())
def test_built_in_models_survive_the_round_trip(name, tmp_path):
    model = aim.models.load(name)
    path = tmp_path / "model.toml"
    path.write_text(toml.dumps(model), encoding="utf-8")
    back = aim.models.load(path)
    assert back == model
    assert back.name == model.name
    assert toml.dumps(back) == toml.dumps(model)


positive = st.one_of(
    st.fractions(min_value=Fraction(1, 20), max_value=5, max_denominator=40),
    st.floats(min_value=0.05, max_value=5, allow_nan=False),
    st.integers(1, 5),
)
wisharts = st.builds(aim.Wishart, width=positive, trace=positive)
atomics = st.lists(positive, min_size=1, max_size=4).map(aim.Atomic)
spectra = st.lists(st.floats(0.1, 3), min_size=1, max_size=5).map(aim.Empirical)
semicircles = st.builds(aim.GOE, variance=positive)
ginibres = st.builds(aim.Ginibre, variance=positive)
factors = st.builds(aim.GaussianFactors, width=positive, left=positive, right=positive)
STUDENTS = {
    "tied": st.one_of(wisharts, atomics, spectra),
    "untied": factors,
    "direct": st.one_of(ginibres, semicircles),
}
TEACHERS = {
    "tied": st.one_of(wisharts, atomics, spectra, semicircles, ginibres),
    "untied": st.one_of(factors, ginibres, semicircles),
    "direct": st.one_of(ginibres, semicircles, wisharts),
}
functions = st.one_of(
    st.sampled_from(["linear", "hermite1", "hermite2", "hermite5"]).map(activation),
    st.builds(lambda c: activation("polynomial", coefficients=c), st.lists(positive, min_size=1, max_size=4)),
    st.builds(lambda g: activation("erf", gain=g), positive),
    st.builds(lambda b: activation("softmax", inverse_temperature=b), positive),
    st.sampled_from(["tanh(x)", "x**3/6 - x", "exp(-x**2/2)*sin(x)"]).map(
        lambda text: activation("expression", expression=text)
    ),
)
softmaxes = st.builds(lambda b: activation("softmax", inverse_temperature=b), positive)


@st.composite
def losses(draw, tokens):
    kind = draw(st.sampled_from(["mse", "mse", "cross_entropy", "expression"]))
    if kind == "mse":
        return MeanSquaredError(draw(functions), draw(st.one_of(st.none(), functions)))
    if kind == "cross_entropy":
        return CrossEntropy(draw(softmaxes), draw(st.one_of(st.none(), softmaxes)))
    last = tokens - 1
    text = draw(
        st.sampled_from(["(G[0, 0, 0] - G[0, 0, 1])**2/3", f"log(1 + exp(-G[{last},0,0]*tanh(G[0,{last},1])))"])
    )
    return ExpressionLoss(text, tokens, 2)


@st.composite
def models(draw):
    tokens = draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["tied", "untied", "direct"]))
    overlap = draw(st.one_of(st.none(), st.floats(-0.3, 0.9)))
    covariance = None
    if overlap is not None and tokens > 1:
        covariance = [[1.0 if i == j else overlap for j in range(tokens)] for i in range(tokens)]
    law = draw(TEACHERS[kind])
    return aim.AttentionModel(
        tokens=tokens,
        indices=(
            aim.AttentionIndex(toml.factorization(kind, 0), draw(STUDENTS[kind]), True),
            aim.AttentionIndex(toml.teacher_factorization(kind, 1, law), law, False),
        ),
        loss=draw(losses(tokens)),
        token_covariance=covariance,
        weight_decay=draw(st.one_of(st.just(0), positive)),
        centred=kind != "untied" or draw(st.booleans()),
        name=draw(st.text(max_size=12)),
    )


@CHECK
@given(models())
def test_any_model_survives_the_round_trip(model):
    text = toml.dumps(model)
    back = toml.loads(text)
    assert back == model
    assert back.name == model.name
    assert type(back.weight_decay) is type(model.weight_decay)
    for mine, theirs in zip(back.indices, model.indices, strict=True):
        assert repr(mine.law) == repr(theirs.law)
        assert mine.factorization == theirs.factorization
    assert repr(back.loss) == repr(model.loss)
    assert toml.dumps(back) == text


GOOD = {
    "tokens": "2",
    "parameterization": '"tied"',
    "activation": '"softmax"',
    "student": '{law = "wishart", width = "1/2", trace = 1}',
    "teacher": '{law = "wishart", width = 1, trace = 1}',
}


def file_with(**changes):
    entries = {key: value for key, value in (GOOD | changes).items() if value is not None}
    return "\n".join(f"{key} = {value}" for key, value in entries.items())


def test_the_good_file_is_read():
    model = toml.loads(file_with())
    assert model.indices[0].law == aim.Wishart(width=Fraction(1, 2), trace=1)
    assert model.loss == MeanSquaredError("softmax")
    assert toml.loads(file_with(activation='"softmax"', inverse_temperature='"3/2"')).loss == MeanSquaredError(
        activation("softmax", inverse_temperature="3/2")
    )


RUN = "__import__('os').system('touch /tmp/pwned')"
BAD = {
    "code as activation": (file_with(activation=f'"{RUN}"'), "unknown activation"),
    "code as loss": (file_with(loss='"expression"', activation=None, expression=f'"{RUN}"'), "allowed"),
    "code as activation expression": (
        file_with(activation='"expression"', activation_expression='"().__class__.__bases__[0]"'),
        "allowed",
    ),
    "lambda": (file_with(loss='"expression"', activation=None, expression='"(lambda: 0)()"'), "allowed"),
    "unknown function": (file_with(loss='"expression"', activation=None, expression='"eval(G[0,0,0])"'), "allowed"),
    "attribute": (file_with(loss='"expression"', activation=None, expression='"G.func"'), "allowed"),
    "foreign index": (file_with(loss='"expression"', activation=None, expression='"G[0,0,5]"'), "G"),
    "tower of powers": (file_with(loss='"expression"', activation=None, expression='"9**9**9**9"'), "size at most"),
    "huge exponent": (file_with(loss='"expression"', activation=None, expression='"G[0,0,0]**1000000"'), "exponent"),
    "huge number": (file_with(loss='"expression"', activation=None, expression='"1e400*G[0,0,0]"'), "larger than"),
    "kink": (file_with(loss='"expression"', activation=None, expression='"abs(G[0,0,0])"'), "differentiable"),
    "expression that is no text": (file_with(loss='"expression"', activation=None, expression="3"), "expression"),
    "expression without its loss": (file_with(expression='"G[0,0,0]**2"'), "goes with loss = 'expression'"),
    "unknown key": (file_with(tokenz="3"), "unknown key 'tokenz'"),
    "unknown loss": (file_with(loss='"hinge"'), "unknown loss 'hinge'"),
    "unknown parameterization": (file_with(parameterization='"free"'), "unknown parameterization 'free'"),
    "parameterization that is no text": (file_with(parameterization="[1]"), "unknown parameterization"),
    "loss that is no text": (file_with(loss="[1]"), "unknown loss"),
    "unknown law": (file_with(student='{law = "cauchy"}'), "unknown law 'cauchy'"),
    "law that is no text": (file_with(student="{law = [1]}"), "unknown law"),
    "unknown key of a law": (file_with(student='{law = "wishart", rank = 3}'), "law 'wishart' has no key 'rank'"),
    "law without its width": (file_with(student='{law = "wishart"}'), "could not be built"),
    "law that is no table": (file_with(student='"wishart"'), "must be a table"),
    "private field": (
        file_with(student='{law = "empirical", eigenvalues = [1.0], _values = [2.0]}'),
        "no key '_values'",
    ),
    "true tokens": (file_with(tokens="true"), "tokens = True"),
    "fractional tokens": (file_with(tokens="2.0"), "tokens = 2.0"),
    "no tokens": (file_with(tokens=None), "lacks the key 'tokens'"),
    "no student": (file_with(student=None), "lacks the key 'student'"),
    "no activation": (file_with(activation=None), "lacks the key 'activation'"),
    "nan width": (file_with(student='{law = "wishart", width = nan}'), "width"),
    "infinite trace": (file_with(student='{law = "wishart", width = 1, trace = inf}'), "trace"),
    "true width": (file_with(student='{law = "wishart", width = true}'), "width"),
    "zero width": (file_with(student='{law = "wishart", width = 0}'), "width"),
    "width by zero": (file_with(student='{law = "wishart", width = "1/0"}'), "width"),
    "width that is code": (file_with(student=f'{{law = "wishart", width = "{RUN}"}}'), "width"),
    "atoms that are no list": (file_with(student='{law = "atomic", locations = 3}'), "could not be built"),
    "eigenvalues that are text": (
        file_with(student='{law = "empirical", eigenvalues = ["a"]}'),
        "eigenvalues is an array of dtype <U1",
    ),
    "nested eigenvalues": (
        file_with(student='{law = "empirical", eigenvalues = [[1.0], [2.0, 3.0]]}'),
        "eigenvalues is not an array of real numbers",
    ),
    "nan decay": (file_with(weight_decay="nan"), "weight_decay"),
    "negative decay": (file_with(weight_decay="-1"), "weight_decay"),
    "decay that is a list": (file_with(weight_decay="[1]"), "weight_decay"),
    "decay that is a date": (file_with(weight_decay="2020-01-01"), "weight_decay"),
    "centred that is a number": (file_with(centred="1"), "centred = 1"),
    "uncentred tied forms": (file_with(centred="false"), "use centred=True"),
    "name that is a number": (file_with(name="3"), "name = 3"),
    "covariance of the wrong shape": (file_with(token_covariance="[[1.0]]"), "token_covariance"),
    "covariance of nan": (file_with(token_covariance="[[1.0, nan], [nan, 1.0]]"), "not finite"),
    "ragged covariance": (file_with(token_covariance="[[1.0], [0.0, 1.0]]"), "token_covariance"),
    "covariance of tables": (file_with(token_covariance="[{a = 1}, {a = 2}]"), "token_covariance"),
    "parameter of another activation": (file_with(gain="2"), "no parameter 'gain'"),
    "activation beside an expression": (file_with(loss='"expression"', expression='"G[0,0,0]**2"'), "means nothing"),
    "stray teacher parameter": (file_with(teacher_gain="2"), "teacher_gain"),
    "negative inverse temperature": (file_with(inverse_temperature="-1"), "inverse_temperature"),
    "coefficients that are no list": (file_with(activation='"polynomial"', coefficients="3"), "coefficients"),
    "cross entropy of another activation": (file_with(loss='"cross_entropy"', activation='"linear"'), "softmax"),
    "not TOML": ("tokens = ", "is not TOML"),
    "nested too deeply": ("a = " + "[" * 5000 + "]" * 5000, "is not TOML"),
    "huge degree": (file_with(activation='"hermite999"'), "from 0 to 64"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_an_input_error(case):
    text, match = BAD[case]
    with pytest.raises(aim.InputError, match=match):
        toml.loads(text)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(aim.InputError, match="there is no file"):
        toml.load(tmp_path / "none.toml")
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(aim.InputError, match="is not text"):
        toml.load(binary)
    named = tmp_path / "bad.toml"
    named.write_text(file_with(tokens="0"))
    with pytest.raises(aim.InputError, match=r"bad\.toml: tokens = 0"):
        aim.models.load(named)


def test_models_that_a_file_does_not_hold():
    model = aim.models.load("tied-linear")
    both = aim.AttentionModel(
        tokens=1, loss=model.loss,
        indices=tuple(aim.AttentionIndex(i.factorization, i.law, True) for i in model.indices),
    )  # fmt: skip
    with pytest.raises(aim.InputError, match="one trained student and one fixed teacher"):
        toml.dumps(both)
    weighted = aim.AttentionModel(
        tokens=1, indices=model.indices, loss=MeanSquaredError("linear", student_weights=(2,))
    )
    with pytest.raises(aim.InputError, match="weights has no file form"):
        toml.dumps(weighted)
    symbolic = aim.AttentionModel(
        tokens=1, loss=model.loss,
        indices=(aim.AttentionIndex(tied(0), aim.Wishart(width=sp.Symbol("rho", positive=True)), True),
                 model.indices[1]),
    )  # fmt: skip
    with pytest.raises(aim.InputError, match="rho"):
        toml.loads(toml.dumps(symbolic))
