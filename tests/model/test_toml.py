"""Model files: nothing is lost on the way to a file and back, and nothing in a file is ever run."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import aimtheory as aim
from aimtheory.model import tied, toml
from aimtheory.model.activations import activation
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, MeanSquaredError
from aimtheory.model.parameterization import fixed_teacher, parameterized

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
    st.sampled_from(["tanh(x)", "x**3/6 - x", "exp(-x**2/2)*sin(x)"]).map(activation),
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
    return aim.AttentionModel.of(
        parameterized(kind, 1, draw(STUDENTS[kind])),
        fixed_teacher(kind, 2, law),
        loss=draw(losses(tokens)),
        contexts=((1, tokens, covariance),),
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
    assert repr(back.parameters) == repr(model.parameters)
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
    assert model.parameters[0].law == aim.GaussianEntries(width=Fraction(1, 2), trace=1)
    assert model.loss == MeanSquaredError("softmax")
    assert toml.loads(file_with(activation='"softmax"', inverse_temperature='"3/2"')).loss == MeanSquaredError(
        activation("softmax", inverse_temperature="3/2")
    )


RUN = "__import__('os').system('touch /tmp/pwned')"
BAD = {
    "code as activation": (file_with(activation=f'"{RUN}"'), "allowed"),
    "code as loss": (file_with(loss='"expression"', activation=None, expression=f'"{RUN}"'), "allowed"),
    "code as activation expression": (
        file_with(activation='"().__class__.__bases__[0]"'),
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
    "expression without its loss": (file_with(expression='"G[0,0,0]**2"'), "means nothing to loss = 'mse'"),
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
    "no activation": (file_with(activation=None), "the key 'activation' is missing"),
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


def test_a_model_with_symbols_has_no_file_form():
    model = aim.AttentionModel.of(
        tied(1, aim.Wishart(width=sp.Symbol("rho", positive=True))),
        tied(2, aim.Wishart(1), trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
    )
    with pytest.raises(aim.InputError, match="free symbol rho"):
        toml.dumps(model)


def general_model():
    """Everything that a file holds at once: shared letters, weights, traces, a number, means, contexts, sqrt(2)."""
    factor = aim.GaussianEntries(width=sp.sqrt(2), trace="1/3")
    U, V, Q = (aim.Parameter(name, columns="r", law=factor) for name in "UVQ")
    T = aim.Parameter("T", law=aim.GOE(0.7), trained=False, symmetric=True)
    X = aim.Parameter("X", columns="s", law=aim.SquareRoot(aim.Atomic([0, 2], ["1/4", "3/4"])), trained=False)
    a = aim.Parameter("a", "1", "1", aim.Constant(-0.25))
    return aim.AttentionModel(
        parameters=(U, V, Q, T, X, a),
        forms=(
            aim.Form("S1", "U V^T - 1/2 V U^T", mean="1/5"),
            aim.Form("S2", "Q V^T"),
            aim.Form("S3", "T"),
            aim.Form("S4", "0.5 T - T X X^T", detached=True),
        ),
        traces=(aim.Trace("R", "U^T V"), aim.Trace("A", "a a")),
        names=(("N1", "U Q^T"),),
        contexts=(("1/4", 2, [[1, 0.5], [0.5, 1]]), ("3/4", 2)),
        loss=ExpressionLoss("A*tanh(G[0,0,0] - G[0,1,1])*R + (G[1,0,2] - G[1,0,3])**2", 2, 4, traces=("R", "A")),
        weight_decay="1/7",
        clock="3/2",
        name="all at once",
    )


def test_a_model_of_everything_survives_the_round_trip():
    model = general_model()
    text = toml.dumps(model)
    back = toml.loads(text)
    assert back == model
    assert toml.dumps(back) == text
    assert back.parameters[0].law.width == sp.sqrt(2)
    weighted = MeanSquaredError("tanh(x)", "erf", students=(0, 2), teachers=(1,), student_weights=(2, "1/3"))
    other = aim.AttentionModel.of(
        *(tied(k, aim.Wishart(1), trained=k != 2) for k in (1, 2, 3)), contexts=((1, 2),), loss=weighted
    )
    assert toml.loads(toml.dumps(other)) == other


letters_of_a_model = st.lists(
    st.sampled_from(["U V^T", "V U^T", "T", "U U^T T", "V V^T"]), min_size=1, max_size=3, unique=True
)


@CHECK
@given(
    st.lists(letters_of_a_model, min_size=2, max_size=3),
    st.lists(st.tuples(positive, positive), min_size=2, max_size=2),
    st.lists(st.integers(-3, 3).filter(bool), min_size=9, max_size=9),
    st.sampled_from(["linear", "tanh(x)", "hermite3"]),
    st.booleans(),
)
def test_any_polynomials_of_shared_letters_survive_the_round_trip(words, laws, coefficients, name, trained):
    (width, trace), (_, other) = laws
    numbers = iter(coefficients)
    forms = tuple(
        aim.Form(f"S{k}", " + ".join(f"{Fraction(next(numbers), 4)} {word}" for word in each).replace("+ -", "- "))
        for k, each in enumerate(words, start=1)
    )
    parameters = (
        aim.Parameter(
            "U", columns="r", law=aim.GaussianEntries(width, trace), trained=any("U" in w for e in words for w in e)
        ),
        aim.Parameter("V", columns="r", law=aim.GaussianEntries(width, other), trained=False),
        aim.Parameter("T", law=aim.Ginibre(trace), trained=trained and any("T" in w.split() for e in words for w in e)),
    )
    model = aim.AttentionModel(
        parameters=parameters,
        forms=forms,
        contexts=((1, 2),),
        loss=MeanSquaredError(name, students=(0,), teachers=tuple(range(1, len(forms)))),
        weight_decay=width,
    )
    assert toml.loads(toml.dumps(model)) == model


def test_spectra_beside_the_file(tmp_path):
    spectrum = np.linspace(0.5, 2, 8)
    np.save(tmp_path / "s.npy", spectrum)
    (tmp_path / "s.csv").write_text("\n".join(map(repr, spectrum.tolist())), encoding="utf-8")
    for name in ("s.npy", "s.csv"):
        path = tmp_path / "model.toml"
        path.write_text(file_with(student=f'{{law = "empirical", file = "{name}"}}'), encoding="utf-8")
        model = toml.load(path)
        assert model.parameters[0].law == aim.SquareRoot(aim.Empirical(spectrum))
        assert toml.loads(toml.dumps(model)) == model


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("none.npy", None, "there is no spectrum file"),
        ("s.txt", b"1.0", "neither .npy nor .csv"),
        ("nan.csv", b"1.0, nan", "eigenvalue 1 of .* is nan"),
        ("text.csv", b"one, two", "cannot read the spectrum file"),
        ("empty.csv", b"", "one-dimensional"),
        ("matrix.npy", np.ones((2, 2)), "one-dimensional"),
        ("complex.npy", np.ones(2) * 1j, "real numbers"),
        ("objects.npy", np.array([1, "a"], dtype=object), "cannot read the spectrum file"),
        ("cut.npy", b"\x93NUMPY\x01", "cannot read the spectrum file"),
    ],
)
def test_bad_spectrum_files(tmp_path, name, content, match):
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        np.save(tmp_path / name, content, allow_pickle=True)
    text = file_with(student=f'{{law = "empirical", file = "{name}"}}')
    with pytest.raises(aim.InputError, match=match):
        toml.loads(text, folder=tmp_path)


BAD_GENERAL = {
    "forms without parameters": ('[forms]\nS1 = "W"', r"lacks the table \[parameters\]"),
    "unknown key of a parameter": ('[parameters.W]\ncolums = "r"\n[forms]\nS1 = "W W^T"', "did you mean 'columns'"),
    "letter of no parameter": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "V V^T"', "unknown letter 'V'"),
    "polynomial that is code": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "__import__(1)"', "unknown letter"),
    "mean of no form": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W W^T"\n[means]\nS2 = 1', "has no key 'S2'"),
    "contexts twice": ('tokens = 1\n[parameters.W]\n[forms]\nS1 = "W"\n[[contexts]]\ntokens = 2', "keep one of both"),
    "unknown key of a context": ('[parameters.W]\n[forms]\nS1 = "W"\n[[contexts]]\ntoken = 2', "did you mean 'tokens'"),
    "parameter twice": ("[parameters.W]\n[parameters.W]", "is not TOML: Cannot declare"),
    "two widths of a space": (
        '[parameters.W]\ncolumns = "r"\nlaw = "gaussian_entries"\nwidth = 1\n[parameters.V]\ncolumns = "r"\n'
        'law = "gaussian_entries"\nwidth = 2\n[forms]\nS1 = "W W^T"\nS2 = "V V^T"',
        "the text: V gives the space 'r' the width 2, but W gives it 1",
    ),
    "shapes": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W W"', "neighbouring letters must share a space"),
    "form that is not square": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W"', "the text: .* S1 = W is d x r"),
    "inner form": ('[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W^T W"', "S1 = W\\^T W is r x r; it must map"),
    "open trace": (
        '[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W W^T"\n[traces]\nR = "W"',
        "the text: trace R = .* its words must be closed",
    ),
    "trace of a taken name": (
        '[parameters.W]\ncolumns = "r"\n[forms]\nS1 = "W W^T"\n[traces]\np_12 = "W W^T"',
        "a trace cannot be called 'p_12'.* call it R_12",
    ),
    "form of a parameter's name": (
        '[parameters.S1]\ncolumns = "r"\n[forms]\nS1 = "S1 S1^T"',
        "form S1 = S1 S1\\^T has the name of a parameter .* rename one",
    ),
    "law that is a table": (
        '[parameters.W]\nlaw = {law = "ginibre"}\n[forms]\nS1 = "W"',
        r"\[parameters.W\]: law = .* is a table; give the law's name, law = 'ginibre', and its keys beside it",
    ),
    "weights of contexts": (
        '[parameters.W]\ntrained = true\n[parameters.V]\n[forms]\nS1 = "W"\nS2 = "V"\n'
        '[[contexts]]\ntokens = 1\nweight = "1/2"\n[[contexts]]\ntokens = 2\nweight = "1/3"',
        "the text: the weights of the contexts, 1/2, 1/3, sum to 5/6; they must sum to 1",
    ),
    "trained letter that nothing contains": (
        '[parameters.W]\n[parameters.V]\n[parameters.Q]\n[forms]\nS1 = "W"\nS2 = "V"',
        "the text: parameter Q is trained, but no form and no trace contains it.* trained=False",
    ),
    "both forms": ('student = 1\ntokens = 1\n[parameters.W]\n[forms]\nS1 = "W"', "keep one of both"),
}


@pytest.mark.parametrize("case", BAD_GENERAL)
def test_bad_general_files_are_refused(case):
    text, match = BAD_GENERAL[case]
    if "tokens" not in text and "contexts" not in text:
        text = "tokens = 1\n" + text
    with pytest.raises(aim.InputError, match=match):
        toml.loads('activation = "linear"\n' + text)
