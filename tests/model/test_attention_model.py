"""Attention models: what is refused and why, what is sampled, and how the parameterizations are written."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.model import direct, tied, untied, validate_token_covariance, written
from aimtheory.model.losses import ExpressionLoss, MeanSquaredError
from aimtheory.words import Letter, Polynomial

MP = aim.Wishart(width=1, trace=1)


def teacher_student(**changes):
    options = {"tokens": 2, "activation": "softmax", "parameterization": "tied", "student": MP, "teacher": MP}
    return aim.AttentionModel.teacher_student(**(options | changes))


@pytest.mark.parametrize("name", aim.models.names())
def test_built_in_models_load(name):
    model = aim.models.load(name)
    assert model.name == name
    assert model.trained_forms == (True, False)
    kind = "tied" if name == "exact-linear" else name.split("-")[0]
    assert model.forms[0].parameterization == kind
    assert model.centred == (kind != "untied")
    assert model.clock == (4 if kind == "tied" else 1)
    assert model.weight_decay == 0
    assert name == "exact-linear" or model.loss.student.name == name.split("-")[1]


def test_unknown_model_names_the_nearest():
    with pytest.raises(aim.InputError, match="did you mean 'tied-softmax'"):
        aim.models.load("tied-sofmax")


def build_head(attention):
    return attention.form.resolved([parameter.letter for parameter in attention.parameters])


def test_parameterizations():
    heads = {
        name: build_head(attention)
        for name, attention in {
            "tied": tied(1),
            "untied": untied(2),
            "direct": direct(1),
            "other": direct(2, symmetric=True),
        }.items()
    }
    assert [str(form.matrix) for form in heads.values()] == ["W1 W1^T", "U2 V2^T", "S1", "S2"]
    assert [form.is_symmetric for form in heads.values()] == [True, False, False, True]
    assert [form.parameterization for form in heads.values()] == ["tied", "untied", "direct", "direct"]
    with pytest.raises(aim.InputError, match=r"unknown parameterization 'free'; choose one of tied, untied, direct"):
        teacher_student(parameterization="free")
    with pytest.raises(aim.InputError, match="is d x r; it must map the embedding space"):
        build_head(written("S1", Polynomial.word(Letter("W", "d", "r"))))
    with pytest.raises(aim.InputError, match="is zero"):
        aim.Form("S1", Polynomial.zero()).resolved([])


@pytest.mark.parametrize(
    ("parameterization", "law", "expected"),
    [
        ("tied", MP, tied(2)),
        ("tied", aim.Atomic([0, 1]), tied(2)),
        ("tied", aim.GOE(variance=1), direct(2, symmetric=True)),
        ("tied", aim.Atomic([-1, 1]), direct(2, symmetric=True)),
        ("tied", aim.Ginibre(variance=1), direct(2)),
        ("untied", aim.GaussianFactors(width=1), untied(2)),
        ("untied", aim.Ginibre(variance=1), direct(2, name="M")),
        ("untied", aim.GOE(variance=1), direct(2, name="M", symmetric=True)),
        ("direct", aim.Ginibre(variance=1), direct(2)),
        ("direct", aim.GOE(variance=1), direct(2, symmetric=True)),
    ],
)
def test_a_teacher_is_factored_as_its_law_allows(parameterization, law, expected):
    student = {"tied": MP, "untied": aim.GaussianFactors(width=1), "direct": aim.Ginibre()}[parameterization]
    model = teacher_student(parameterization=parameterization, student=student, teacher=law)
    assert model.forms[1] == build_head(expected)
    assert not any(parameter.trained for parameter in model.parameters if parameter.name.endswith("2"))


@pytest.mark.parametrize("tokens", [0, -1, 1.0, True, "2", None])
def test_tokens(tokens):
    with pytest.raises(aim.InputError, match="tokens"):
        teacher_student(tokens=tokens)


@pytest.mark.parametrize("decay", [-1, "-1/2", float("nan"), float("inf"), True, "fast", None])
def test_weight_decay_must_be_a_number_of_at_least_zero(decay):
    with pytest.raises(aim.InputError, match="weight_decay"):
        teacher_student(weight_decay=decay)


def test_weight_decay_keeps_exactness():
    assert teacher_student(weight_decay="1/3").weight_decay == Fraction(1, 3)
    assert isinstance(teacher_student(weight_decay=0.5).weight_decay, float)
    gamma = sp.Symbol("gamma", positive=True)
    assert teacher_student(weight_decay=gamma).weight_decay == gamma


@pytest.mark.parametrize(
    ("covariance", "match"),
    [
        ([[1.0]], r"shape \(1, 1\); with tokens = 2"),
        ([[1, 0.5], [0.4, 1]], r"not symmetric: entry \[0, 1\] = 0.5 but \[1, 0\] = 0.4"),
        ([[1, 2], [2, 1]], "not positive semidefinite: its smallest eigenvalue is -1"),
        ([[1, np.nan], [np.nan, 1]], r"token_covariance\[0, 1\] = nan is not finite"),
        ([[1, np.inf], [np.inf, 1]], "not finite"),
        ([["a", 0], [0, 1]], "not an array of real numbers|is not real"),
        ([[1, 0], [0]], "not an array of real numbers|is not real"),
        ("identity", "not an array of real numbers|is not real"),
        (1.0, "shape"),
        ([[1, 1j], [-1j, 1]], "not an array of real numbers|is not real"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_token_covariance_errors(covariance, match):
    with pytest.raises(aim.InputError, match=match):
        teacher_student(token_covariance=covariance)


def test_token_covariance():
    assert teacher_student(token_covariance=np.eye(2)) == teacher_student()
    model = teacher_student(token_covariance=[[1, 0.25], [0.25, 1]])
    assert (model.covariance_matrix == [[1, 0.25], [0.25, 1]]).all()
    assert model != teacher_student()
    # A repeated token: semidefinite, and allowed.
    assert validate_token_covariance(np.ones((3, 3)), 3).shape == (3, 3)


def test_uncentred_tied_forms_break_an_assumption():
    for law in (MP, aim.Atomic([0, 1])):
        with pytest.raises(aim.AssumptionError, match=r"S1 = .* with Tr S = Theta\(d\).*use centred=True"):
            teacher_student(student=law, centred=False)
    with pytest.raises(aim.AssumptionError, match=r"M2 = .* with Tr S"):
        teacher_student(
            parameterization="untied", student=aim.GaussianFactors(width=1), teacher=aim.Wishart(width=1, trace="1/3")
        )
    # A symmetric teacher without trace is fine.
    teacher_student(parameterization="untied", student=aim.GaussianFactors(width=1), teacher=aim.GOE(variance=1))


def of(*heads, loss=None, **options):
    return aim.AttentionModel.of(*heads, contexts=((1, 1),), loss=loss or MeanSquaredError("linear"), **options)


def test_the_loss_must_fit():
    heads = (tied(1, MP), tied(2, MP, trained=False))
    with pytest.raises(aim.InputError, match="the loss reads 3 indices but the model has 2"):
        of(*heads, loss=MeanSquaredError("linear", teachers=(1, 2)))
    with pytest.raises(aim.InputError, match="written for 2 tokens but the model has 1"):
        of(*heads, loss=ExpressionLoss("G[0,1,1]**2", tokens=2, indices=2))
    with pytest.raises(aim.InputError, match="share a name: S1, S1"):
        of(heads[0], heads[0])
    with pytest.raises(aim.InputError, match="at least one parameter"):
        of()
    with pytest.raises(aim.InputError, match="at least one form"):
        aim.AttentionModel(
            parameters=heads[0].parameters, forms=(), contexts=((1, 1),), loss=MeanSquaredError("linear")
        )
    with pytest.raises(aim.InputError, match="unknown loss 'hinge'"):
        teacher_student(loss="hinge")
    with pytest.raises(aim.InputError, match="unknown activation"):
        teacher_student(activation="sofmax")
    with pytest.raises(aim.InputError, match=r"reads the trace 'R_11', which the model does not have"):
        of(*heads, loss=aim.ValueLoss("linear"))


def test_clock():
    assert teacher_student().clock == 4
    assert of(tied(1, MP), direct(2, aim.Ginibre())).clock == 1
    assert of(tied(1, MP), tied(2, MP, trained=False), clock=2).clock == 2
    with pytest.raises(aim.InputError, match="clock = 0 must be positive"):
        of(tied(1, MP), tied(2, MP, trained=False), clock=0)


BAD_PARAMETERS = {
    "two laws": (
        lambda: of(tied(1, MP), tied(2, MP, trained=False), parameters=(aim.Parameter("W1", columns="r1"),)),
        "parameter W1 is given twice, with the laws",
    ),
    "shapes": (lambda: of(written("S1", Polynomial.word(W, W.T)), form("S2", "W W")), "neighbouring letters"),
    "form that is not square": (lambda: of(written("S1", Polynomial.word(W, W.T)), form("S2", "W")), "is d x r"),
    "unknown letter": (lambda: of(written("S1", Polynomial.word(W, W.T)), form("S2", "Q")), "unknown letter 'Q'"),
    "open trace": (
        lambda: of(tied(1, MP), tied(2, MP, trained=False), traces=(aim.Trace("R", "W1"),)),
        "has no trace; its words must be closed",
    ),
    "trained letter that nothing contains": (
        lambda: of(tied(1, MP), tied(2, MP, trained=False), parameters=(aim.Parameter("V", law=aim.Ginibre()),)),
        "parameter V is trained, but no form and no trace contains it",
    ),
    "weights of contexts": (
        lambda: aim.AttentionModel.of(
            tied(1, MP), tied(2, MP), contexts=(("1/2", 1), ("1/3", 2)), loss=MeanSquaredError("linear")
        ),
        "1/2, 1/3, sum to 5/6; they must sum to 1",
    ),
    "no context": (
        lambda: aim.AttentionModel.of(tied(1, MP), tied(2, MP), contexts=(), loss=MeanSquaredError("linear")),
        "at least one context",
    ),
    "two widths of a space": (
        lambda: of(
            written("S1", Polynomial.word(W, X.T), {"W": aim.GaussianEntries(1, 1), "X": aim.GaussianEntries(2, 1)}),
            tied(2, MP, trained=False),
        ),
        "gives the space 'r' the width 2, but W gives it 1",
    ),
    "context without a weight": (
        lambda: aim.AttentionModel.of(tied(1, MP), tied(2, MP), contexts=(1, 1), loss=MeanSquaredError("linear")),
        r"contexts = \(\.\.\., 1, \.\.\.\) are tuples \(weight, tokens\)",
    ),
    "context with too much": (
        lambda: aim.AttentionModel.of(tied(1, MP), contexts=((1, 1, None, 3),), loss=MeanSquaredError("linear")),
        "are tuples",
    ),
    "contexts that are none": (
        lambda: aim.AttentionModel.of(tied(1, MP), contexts=1, loss=MeanSquaredError("linear")),
        "contexts = 1 are tuples",
    ),
    "form of a parameter's name": (
        lambda: of(form("S", "S S^T"), tied(2, MP, trained=False), parameters=(aim.Parameter("S", columns="r"),)),
        r"form S = S S\^T has the name of a parameter that it is not.* rename one",
    ),
    "trace of a taken name": (lambda: aim.Trace("loss", "W1^T W1"), "a trace cannot be called 'loss'"),
    "forms that are no sequence": (
        lambda: aim.AttentionModel(
            parameters=(aim.Parameter("W"),),
            forms=aim.Form("S", "W"),
            loss=MeanSquaredError("linear"),
            contexts=((1, 1),),
        ),
        r"forms = Form\(.* must be a sequence of Forms",
    ),
    "loss by name": (
        lambda: aim.AttentionModel.of(tied(1, MP), tied(2, MP), contexts=((1, 1),), loss="mse"),
        "loss = 'mse' is not a loss; use MeanSquaredError",
    ),
    "square law of a rectangle": (lambda: aim.Parameter("W", columns="r", law=aim.Ginibre()), "of a square matrix"),
    "law of a product": (lambda: aim.Parameter("S", law=aim.GaussianFactors(1)), "is the law of a product"),
    "no law": (lambda: aim.Parameter("S", law=3), "is not a law"),
    "symmetric Ginibre": (lambda: aim.Parameter("S", law=aim.Ginibre(), symmetric=True), "is not self-adjoint"),
    "vector": (lambda: aim.Parameter("u", columns="1"), "a vector has rank one"),
    "wide square": (lambda: aim.Parameter("S", law=aim.GaussianEntries(width=2)), "its law has width 2"),
}
W, X = Letter("W", "d", "r"), Letter("X", "d", "r")


def form(name, text):
    return replace(tied(9), form=aim.Form(name, text), parameters=())


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_what_does_not_fit_together_is_refused(case):
    build, match = BAD_PARAMETERS[case]
    with pytest.raises(aim.InputError, match=match):
        build()


def test_a_shared_letter_has_one_law_and_one_sample():
    law = aim.GaussianEntries(width=1, trace=1)
    U, V, Q = (aim.Parameter(name, columns="r", law=law) for name in ("U", "V", "Q"))
    forms = (aim.Form("S1", "U V^T"), aim.Form("S2", "Q V^T"), aim.Form("T", "T"))
    teacher = aim.Parameter("T", law=aim.Ginibre(), trained=False)
    loss = MeanSquaredError("linear", students=(0, 1), teachers=(2,))
    model = aim.AttentionModel(parameters=(U, V, Q, teacher), forms=forms, contexts=((1, 1),), loss=loss)
    assert list(model.sample(6, np.random.default_rng(0))) == ["U", "V", "Q", "T"]
    h = aim.derive(model, 2)
    assert "tr(T)" in h.names


@pytest.mark.parametrize(
    ("parameterization", "student", "teacher", "shapes"),
    [
        ("tied", aim.Wishart(width="1/2"), aim.Wishart(width=2), {"W1": (40, 20), "W2": (40, 80)}),
        ("untied", aim.GaussianFactors(width="1/4"), aim.Ginibre(), {"U1": (40, 10), "V1": (40, 10), "M2": (40, 40)}),
        ("direct", aim.Ginibre(), aim.GOE(), {"S1": (40, 40), "S2": (40, 40)}),
    ],
)
def test_sampling(parameterization, student, teacher, shapes):
    model = teacher_student(activation="linear", parameterization=parameterization, student=student, teacher=teacher)
    sample = model.sample(40, np.random.default_rng(0))
    assert {name: array.shape for name, array in sample.items()} == shapes
    again = model.sample(40, np.random.default_rng(0))
    assert all((sample[name] == again[name]).all() for name in sample)


def test_sampling_errors():
    for dim in (1, 0, 2.5, True, "10"):
        with pytest.raises(aim.InputError, match="dim"):
            teacher_student().sample(dim, np.random.default_rng(0))
    with pytest.raises(aim.InputError, match="does not fit untied attention"):
        teacher_student(parameterization="untied", student=MP, teacher=MP, centred=True)
    lawless = of(tied(1), tied(2, trained=False))
    with pytest.raises(aim.InputError, match="no law is given for the parameter W1"):
        lawless.sample(10, np.random.default_rng(0))


def test_sampled_laws_have_their_trace():
    # tr W W^T of a Wishart with trace t is t with standard deviation t sqrt(2 / (d r)): 6 of them at d = 200, r = 100.
    model = teacher_student(student=aim.Wishart(width="1/2", trace=3))
    matrices = model.sample(200, np.random.default_rng(1))
    assert np.sum(matrices["W1"] ** 2) / 200 == pytest.approx(3, abs=6 * 3 * np.sqrt(2 / 20_000))
    assert np.sum(matrices["W2"] ** 2) / 200 == pytest.approx(1, abs=6 * np.sqrt(2 / 40_000))


def test_repr_tells_the_model():
    text = repr(teacher_student(weight_decay="1/2"))
    for part in ("2 tokens", "S1 = W1 W1^T", "W1 (trained", "W2 (fixed", "weight_decay=1/2", "centred=True"):
        assert part in text


def test_parameter_letters_of_one_name_must_be_one_letter():
    """Two factors called W of different shapes could not be told apart in results or samples."""
    wide = Letter("W", "d", "s")
    with pytest.raises(aim.InputError, match="parameter W is given twice"):
        of(written("S1", Polynomial.word(W, W.T)), written("S2", Polynomial.word(wide, wide.T), trained=False))


def test_a_parameter_may_not_have_the_name_of_a_product():
    with pytest.raises(aim.InputError, match=r"form M1 = .* has the name of a parameter"):
        of(untied(1), written("T", Polynomial.word(Letter("M1")), trained=False))
    with pytest.raises(aim.InputError, match="different letters are called 'A1'"):
        aim.derive(of(untied(1), written("T", Polynomial.word(Letter("A1")), trained=False)), 2)
    renamed = replace(untied(1), form=aim.Form("N", "U1 V1^T"), names=(("M1", "U1 V1^T"),))
    with pytest.raises(aim.InputError, match="M1 names both"):
        aim.derive(of(renamed, written("T", Polynomial.word(Letter("M1")), trained=False)), 2)


def test_scalars_and_traces():
    """A trainable number beside the matrices: R = a enters the loss, and da/ds = -dPhi/dR."""
    model = of(
        tied(1, MP),
        tied(2, MP, trained=False),
        parameters=(aim.Parameter("a", "1", "1", aim.Constant("1/2")),),
        traces=(aim.Trace("A", "a"),),
        loss=ExpressionLoss("(A*G[0,0,0] - G[0,0,1])**2/2", tokens=1, indices=2, traces=("A",)),
    )
    h = aim.derive(model, 2)
    assert str(h.equations[h.words[h.index("tr(a)")]]) == "-dPhi_A/4"
    run = aim.solve(model, degree=7, times=[0, 0.2], observables=["A", "tr(a a)", "loss"], check=False)
    # E (a G_1 - G_2)^2/2 = a^2 q_11 - 2 a q_12 + q_22 with Cov G = 2 q, so dPhi/da = 2 a q_11 - 2 q_12 = 1 at first.
    assert run["A"][0] == 0.5
    slope = aim.solve(model, degree=7, times=[0, 1e-5], observables=["A"], check=False)["A"]
    assert (slope[1] - slope[0]) / 1e-5 == pytest.approx(-(2 * 0.5 * 2 - 2 * 1) / 4, abs=1e-4)
    assert run["tr(a a)"] == pytest.approx(run["A"] ** 2, rel=1e-12)
