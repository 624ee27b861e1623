"""Unrolling: the scores of a network from forms of its input alone, equal to the forward pass at every d."""

import itertools

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.networks import AttentionNetwork, NetworkLoss, compile_network, teacher_student
from aimtheory.networks.forward import path_product
from aimtheory.networks.unrolling import Unrolling

OPTIONS = [
    {"layers": 2, "heads": 2},
    {"layers": 2, "heads": 1, "parameterization": "tied", "mask": "causal"},
    {"layers": 3, "heads": 1, "residual": False},
    {"layers": 2, "heads": 2, "values": False, "readout": "tokens", "mask": [[1, 0, 1], [0, 1, 0], [1, 1, 1]]},
    {"layers": 2, "heads": 2, "attention": "linear", "readout": "tokens", "parameterization": "direct"},
    {"layers": 1, "heads": 3, "attention": "tanh(x)", "output": "softmax"},
]
C = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 1.0]])


def matrices(compiled, dim, rng, width=0.5):
    sizes = {"d": dim}
    return {
        p.name: rng.normal(size=(dim, sizes.get(p.columns, int(width * dim)))) / np.sqrt(dim)
        for p in compiled.parameters
    }


def evaluate(polynomial, known, dim):
    total = np.zeros((dim, dim))
    for word, coefficient in polynomial:
        product = np.eye(dim)
        for letter in word:
            product = product @ (known[letter.name].T if letter.transposed else known[letter.name])
        total += float(coefficient) * product
    return total


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_unrolled_scores_are_those_of_the_forward_pass(options, centred):
    network, rng = AttentionNetwork(**options), np.random.default_rng(0)
    compiled, dim = network.compile(), 24
    assert len(compiled.forms) == network.count
    assert len({form.matrix for form in compiled.forms}) == network.count
    known, X = matrices(compiled, dim, rng), rng.normal(size=(5, 3, dim))
    forms = []
    for form in compiled.forms:
        N = evaluate(form.matrix, known, dim)
        G = X @ N @ X.transpose(0, 2, 1) / np.sqrt(dim)
        forms.append(G - C * np.trace(N) / np.sqrt(dim) if centred else G)
    unrolled = compiled.unrolled(np.stack(forms, axis=-1))
    direct = network.forward(X, known, covariance=C if centred else None)
    if network.readout == "tokens":
        paths = Unrolling(network).levels[-1]
        unrolled = sum(unrolled[:, n] @ X @ path_product(known, path, dim) for n, path in enumerate(paths))
    assert np.abs(unrolled - direct).max() < 1e-12 * max(1.0, np.abs(direct).max())


def test_counts_are_those_of_the_formula():
    for layers, heads in itertools.product((1, 2, 3), (1, 2, 3)):
        expected = heads * sum((1 + heads) ** (2 * m) for m in range(layers)) + (1 + heads) ** (2 * layers)
        assert AttentionNetwork(layers, heads).count == expected
    assert [AttentionNetwork(*pair).count for pair in ((1, 1), (2, 1), (2, 2), (1, 2))] == [5, 21, 101, 11]


@pytest.mark.parametrize("options", [{**option, "layers": min(option["layers"], 2)} for option in OPTIONS], ids=str)
def test_gradients_against_differences(options):
    rng = np.random.default_rng(1)
    loss = NetworkLoss(AttentionNetwork(**options), AttentionNetwork(**options | {"heads": 1}))
    forms = rng.normal(size=(3, 3, loss.indices))
    B = rng.normal(size=(len(loss.path_words), 9))
    gram = B @ B.T
    traces = [gram[pair] for pair in loss.trace_pairs]
    fixed = loss.at(traces, C)
    gradient, step = fixed.gradient(forms), 1e-5
    for _ in range(8):
        direction = rng.normal(size=forms.shape)
        slope = (fixed.value(forms + step * direction) - fixed.value(forms - step * direction)) / (2 * step)
        assert np.vdot(gradient, direction) == pytest.approx(slope, rel=1e-7, abs=1e-7)
    by_traces = loss.trace_gradient(forms, traces, C)
    for n in range(len(traces)):
        moved = [[*traces[:n], traces[n] + sign, *traces[n + 1 :]] for sign in (1, -1)]
        slope = (loss.at(moved[0], C).value(forms) - loss.at(moved[1], C).value(forms)) / 2
        assert by_traces[n] == pytest.approx(slope, rel=1e-9, abs=1e-9)


def test_the_formula_is_the_value():
    for options in ({"layers": 1, "mask": "causal"}, {"layers": 1, "readout": "tokens", "attention": "linear"}):
        loss = NetworkLoss(AttentionNetwork(**options), AttentionNetwork(**options))
        rng = np.random.default_rng(2)
        forms, covariance = rng.normal(size=(2, 2, loss.indices)), np.array([[1.0, 0.4], [0.4, 1.0]])
        traces = rng.normal(size=len(loss.traces)).tolist()
        fixed = loss.at(traces, covariance)
        known = {aim.model.losses.FORMS[i, j, k]: forms[i, j, k] for i, j, k in np.ndindex(*forms.shape)}
        assert float(fixed.expression(2).xreplace(known)) == pytest.approx(float(fixed.value(forms)), rel=1e-12)


def test_one_layer_is_reduced_to_a_loss_that_has_an_exact_potential():
    network = AttentionNetwork(parameterization="tied", readout="tokens", values=False)
    tied = teacher_student(network, tokens=2, attention_law=aim.Wishart(width=1, trace=1))
    known = aim.models.load("tied-softmax")
    assert tied.loss == known.loss
    run, reference = (aim.solve(model, times=[0.0, 1.0], check=False) for model in (tied, known))
    assert np.abs(run["loss"] - reference["loss"]).max() < 1e-10


def test_errors_name_what_is_wrong():
    for options, message in (
        ({"layers": 0}, "layers = 0"),
        ({"heads": True}, "heads = True"),
        ({"mask": [[1, 0], [0, 0]]}, "token 2"),
        ({"mask": "future"}, "mask = 'future'"),
        ({"parameterization": "low"}, "parameterization = 'low'"),
        ({"residual": 1}, "residual = 1"),
        ({"readout": "tokens", "output": "linear"}, "output = 'linear'"),
        ({"attention": "sofmax"}, "softmax"),
    ):
        with pytest.raises(aim.InputError, match=message):
            AttentionNetwork(**options)
    with pytest.raises(aim.InputError, match="455729 effective matrices"):
        compile_network(AttentionNetwork(layers=4, heads=4))
    with pytest.raises(aim.InputError, match="Q11 is missing"):
        AttentionNetwork().forward(np.zeros((2, 3)), {"K11": np.zeros((3, 3))})
    with pytest.raises(aim.InputError, match="read out"):
        NetworkLoss(AttentionNetwork(), AttentionNetwork(readout="tokens"))


def test_a_model_of_networks_survives_its_file(tmp_path):
    teacher = AttentionNetwork(layers=1, heads=2, readout="tokens", residual=False)
    student = AttentionNetwork(layers=2, mask="causal", readout="tokens")
    model = teacher_student(
        student, teacher, tokens=3, attention_law=aim.GaussianFactors(width=1, left=1, right=1),
        value_law=aim.Ginibre(variance=1), token_covariance=C,
    )  # fmt: skip
    path = tmp_path / "network.toml"
    path.write_text(aim.model.toml.dumps(model), encoding="utf-8")
    assert aim.models.load(path) == model
    with pytest.raises(aim.InputError, match="no key 'layer'"):
        NetworkLoss.from_mapping({"student_network": {"layer": 1}}, None)
