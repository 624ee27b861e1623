"""Attention models: what is refused and why, what is sampled, and how the parameterizations are written."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.model import Factorization, direct, tied, untied, validate_token_covariance
from aimtheory.model.attention_model import teacher_factorization
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
    assert model.trainable == (True, False)
    kind = "tied" if name == "exact-linear" else name.split("-")[0]
    assert model.indices[0].factorization.kind == kind
    assert model.centred == (kind != "untied")
    assert model.time_factor == (4 if kind == "tied" else 1)
    assert model.weight_decay == 0
    assert name == "exact-linear" or model.loss.student.name == name.split("-")[1]


def test_unknown_model_names_the_nearest():
    with pytest.raises(aim.InputError, match="did you mean 'tied-softmax'"):
        aim.models.load("tied-sofmax")


def test_parameterizations():
    assert str(tied(0).polynomial) == "W1 W1^T"
    assert str(untied(1).polynomial) == "U2 V2^T"
    assert str(direct(0).polynomial) == "S1"
    assert tied(0).is_symmetric
    assert not untied(0).is_symmetric
    assert not direct(0).is_symmetric
    assert direct(1, symmetric=True).is_symmetric
    with pytest.raises(aim.InputError, match=r"unknown parameterization 'free'; choose one of tied, untied, direct"):
        teacher_student(parameterization="free")
    with pytest.raises(aim.InputError, match="is d x r; it must map the embedding space"):
        Factorization("half", "S1", Polynomial.word(Letter("W", "d", "r")))
    with pytest.raises(aim.InputError, match="is zero"):
        Factorization("none", "S1", Polynomial.zero())


@pytest.mark.parametrize(
    ("parameterization", "law", "expected"),
    [
        ("tied", MP, tied(1)),
        ("tied", aim.Atomic([0, 1]), tied(1)),
        ("tied", aim.GOE(variance=1), direct(1, symmetric=True)),
        ("tied", aim.Atomic([-1, 1]), direct(1, symmetric=True)),
        ("tied", aim.Ginibre(variance=1), direct(1)),
        ("untied", aim.GaussianFactors(width=1), untied(1)),
        ("untied", aim.Ginibre(variance=1), direct(1, name="M")),
        ("untied", aim.GOE(variance=1), direct(1, name="M", symmetric=True)),
        ("direct", aim.Ginibre(variance=1), direct(1)),
        ("direct", aim.GOE(variance=1), direct(1, symmetric=True)),
    ],
)
def test_a_teacher_is_factored_as_its_law_allows(parameterization, law, expected):
    assert teacher_factorization(parameterization, 1, law) == expected


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
        with pytest.raises(aim.AssumptionError, match=r"S1 has Tr S = Theta\(d\).*use centred=True"):
            teacher_student(student=law, centred=False)
    with pytest.raises(aim.AssumptionError, match=r"M2 has Tr S"):
        teacher_student(
            parameterization="untied", student=aim.GaussianFactors(width=1), teacher=aim.Wishart(width=1, trace="1/3")
        )
    # A symmetric teacher without trace is fine.
    teacher_student(parameterization="untied", student=aim.GaussianFactors(width=1), teacher=aim.GOE(variance=1))


def test_the_loss_must_fit():
    indices = (aim.AttentionIndex(tied(0), MP, True), aim.AttentionIndex(tied(1), MP, False))
    with pytest.raises(aim.InputError, match="the loss reads 3 indices but the model has 2"):
        aim.AttentionModel(tokens=1, indices=indices, loss=MeanSquaredError("linear", teachers=(1, 2)))
    with pytest.raises(aim.InputError, match="written for 2 tokens but the model has 1"):
        aim.AttentionModel(tokens=1, indices=indices, loss=ExpressionLoss("G[0,1,1]**2", tokens=2, indices=2))
    with pytest.raises(aim.InputError, match="share a name: S1, S1"):
        aim.AttentionModel(tokens=1, indices=(indices[0], indices[0]), loss=MeanSquaredError("linear"))
    with pytest.raises(aim.InputError, match="at least one index"):
        aim.AttentionModel(tokens=1, indices=(), loss=MeanSquaredError("linear"))
    with pytest.raises(aim.InputError, match="unknown loss 'hinge'"):
        teacher_student(loss="hinge")
    with pytest.raises(aim.InputError, match="unknown activation"):
        teacher_student(activation="sofmax")


def test_time_factor():
    assert teacher_student().time_factor == 4
    mixed = aim.AttentionModel(
        tokens=1,
        indices=(aim.AttentionIndex(tied(0), MP, True), aim.AttentionIndex(direct(1), aim.Ginibre(), True)),
        loss=MeanSquaredError("linear"),
    )
    assert mixed.time_factor == 1


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
    groups = model.sample(40, np.random.default_rng(0))
    assert {name: array.shape for group in groups for name, array in group.items()} == shapes
    again = model.sample(40, np.random.default_rng(0))
    for group, other in zip(groups, again, strict=True):
        assert all((group[name] == other[name]).all() for name in group)


def test_sampling_errors():
    for dim in (1, 0, 2.5, True, "10"):
        with pytest.raises(aim.InputError, match="dim"):
            teacher_student().sample(dim, np.random.default_rng(0))
    wrong = teacher_student(parameterization="untied", student=MP, teacher=MP, centred=True)
    with pytest.raises(aim.InputError, match="does not fit the untied parameterization of M1"):
        wrong.sample(10, np.random.default_rng(0))


def test_sampled_laws_have_their_trace():
    # tr W W^T of a Wishart with trace t is t with standard deviation t sqrt(2 / (d r)): 6 of them at d = 200, r = 100.
    (student, teacher) = teacher_student(student=aim.Wishart(width="1/2", trace=3)).sample(
        200, np.random.default_rng(1)
    )
    assert np.sum(student["W1"] ** 2) / 200 == pytest.approx(3, abs=6 * 3 * np.sqrt(2 / 20_000))
    assert np.sum(teacher["W2"] ** 2) / 200 == pytest.approx(1, abs=6 * np.sqrt(2 / 40_000))


def test_repr_tells_the_model():
    text = repr(teacher_student(weight_decay="1/2"))
    for part in ("tokens=2", "S1 = W1 W1^T (trained", "S2 = W2 W2^T (fixed", "weight_decay=1/2", "centred=True"):
        assert part in text


def test_parameter_letters_of_one_name_must_be_one_letter():
    """Two factors called W of different widths could not be told apart in results or samples."""
    first = Factorization("head", "S1", Polynomial.word(Letter("W", "d", "r"), Letter("W", "r", "d", transposed=True)))
    wide = Letter("W", "d", "s")
    second = Factorization("head", "S2", Polynomial.word(wide, wide.T))
    model = aim.AttentionModel(
        tokens=1,
        indices=(aim.AttentionIndex(first, None, True), aim.AttentionIndex(second, None, False)),
        loss=MeanSquaredError("linear"),
    )
    with pytest.raises(aim.InputError, match="'W'"):
        aim.derive(model, 2)


def test_a_parameter_may_not_have_the_name_of_a_product():
    model = aim.AttentionModel(
        tokens=1,
        indices=(
            aim.AttentionIndex(untied(0), None, True),
            aim.AttentionIndex(Factorization("direct", "T", Polynomial.word(Letter("M1"))), None, False),
        ),
        loss=MeanSquaredError("linear"),
    )
    with pytest.raises(aim.InputError, match="M1 names both"):
        aim.derive(model, 2)
