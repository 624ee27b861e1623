"""What a user asks of a hierarchy: restriction, graph, missing words, names, reports, helpful errors."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy import word_drift
from aimtheory.hierarchy.graph import moment_graph, write_graphml
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.hierarchy.observables import default_observables, observable
from aimtheory.model import tied
from aimtheory.model.losses import MeanSquaredError
from aimtheory.words import trace_name

TIED = aim.models.load("tied-softmax")
UNTIED = aim.models.load("untied-linear")
DIRECT = aim.models.load("direct-linear")

SECOND_MOMENTS = {
    "tied-softmax": ["tr(S1 S1)", "tr(S1 S2)", "tr(S2 S2)"],
    "untied-linear": [f"tr({w})" for w in ("M1 M1^T", "M1 M2^T", "M2 M2^T", "M1 M1", "M1 M2", "M2 M2")],
    "direct-linear": [f"tr({w})" for w in ("S1 S1^T", "S1 S2^T", "S2 S2^T", "S1 S1", "S1 S2", "S2 S2")],
}


@pytest.mark.parametrize(
    ("name", "degree", "observable", "own"),
    [
        ("tied-softmax", 5, "p_12", ["tr(S1 S2)", "tr(S1)", "tr(S2)"]),
        ("tied-softmax", 4, "tr(S2 S2 S2)", ["tr(S2 S2 S2)"]),
        ("untied-linear", 3, "loss", []),
        ("untied-linear", 3, "t_1", ["tr(M1)"]),
        ("direct-linear", 3, "tr(S1 S1 S2^T)", ["tr(S1 S1 S2^T)"]),
        ("direct-linear", 2, "loss", []),
    ],
)
def test_restriction_keeps_exactly_what_the_observables_reach(name, degree, observable, own):
    model = aim.models.load(name)
    full = aim.derive(model, degree)
    # Reachability in the word algebra, one word at a time: neither the packed route nor the graph.
    reached, frontier = set(), {full.words[full.index(word)] for word in [*own, *SECOND_MOMENTS[name]]}
    while frontier:
        reached |= frontier
        frontier = {t for w in frontier for _, t in word_drift(w, full.views) if len(t) <= degree} - reached
    part = aim.derive(model, degree, observables=[observable])
    assert set(part.words) == reached
    in_graph = set().union(
        *({trace_name(w)} | nx.descendants(full.graph, trace_name(w)) for w in reached if w in set(full.words))
    )
    assert {n for n in in_graph if not full.graph.nodes[n]["missing"]} == set(part.names)
    for word in part.words:
        assert dict(part.drift(word)) == dict(full.drift(word))
    # The restricted operators are the rows and columns of the full ones.
    kept = [full.index(word) for word in part.words]
    for few, many in zip(part.operators, full.operators, strict=True):
        assert (few.matrix.toarray() == many.matrix.toarray()[np.ix_(kept, kept)]).all()


def test_restriction_drops_teacher_words():
    part = aim.derive(TIED, 6, observables=["p_12"])
    assert [name for name, fixed in zip(part.names, part.constant, strict=True) if fixed] == ["tr(S2)", "tr(S2 S2)"]
    with pytest.raises(aim.InputError, match=r"tr\(S2 S2 S2\) is not a state .* restricted to p_12"):
        part.index("tr(S2 S2 S2)")


@pytest.mark.parametrize("model", [TIED, UNTIED, DIRECT], ids=["tied", "untied", "direct"])
def test_graph_holds_the_equations(model):
    h = aim.derive(model, 3)
    graph = h.graph
    assert isinstance(graph, nx.DiGraph)
    assert set(graph) == set(h.names) | {trace_name(word) for word in h.missing}
    for word, equation in h.equations.items():
        name = trace_name(word)
        assert graph.nodes[name]["degree"] == len(word)
        assert graph.nodes[name]["missing"] is False
        assert graph.nodes[name]["constant"] == (equation == 0)
        total = sum(
            data["coefficient"] * sp.Symbol(target, real=True) for _, target, data in graph.out_edges(name, True)
        )
        assert sp.expand(equation - total) == 0
    for word in h.missing:
        node = graph.nodes[trace_name(word)]
        assert node["missing"]
        assert node["degree"] > 3
        assert graph.out_degree(trace_name(word)) == 0
        assert graph.in_degree(trace_name(word)) > 0
        assert "initial" not in node


def test_graph_initial_values():
    # S1 and S2 are free Marchenko-Pastur matrices of unit trace (c = 1): Catalan moments, and mixed ones by freeness.
    nodes = aim.derive(TIED, 4).graph.nodes
    assert [nodes[f"tr({' '.join(['S1'] * n)})"]["initial"] for n in (1, 2, 3, 4)] == [1, 2, 5, 14]
    assert nodes["tr(S1 S2)"]["initial"] == 1
    assert nodes["tr(S1 S1 S2)"]["initial"] == 2
    # tr(S1 S2 S1 S2) = m2 t^2 + t^2 m2 - t^4 with m2 = 2, t = 1.
    assert nodes["tr(S1 S2 S1 S2)"]["initial"] == 3
    lawless = aim.AttentionModel.of(
        tied(1),
        tied(2, trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
    )
    assert "initial" not in aim.derive(lawless, 2).graph.nodes["tr(S1)"]
    symbolic = sp.Symbol("rho", positive=True)
    model = aim.AttentionModel.teacher_student(
        tokens=2, activation="softmax", parameterization="tied",
        student=aim.Wishart(width=symbolic, trace=1), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    assert sp.simplify(aim.derive(model, 2).graph.nodes["tr(S1 S1)"]["initial"] - (1 + 1 / symbolic)) == 0


@pytest.mark.parametrize("model", [TIED, UNTIED], ids=["tied", "untied"])
def test_graphml_round_trip(tmp_path, model):
    graph = aim.derive(model, 3).graph
    path = tmp_path / "graph.graphml"
    write_graphml(graph, path)
    back = nx.read_graphml(path)
    assert set(back.nodes) == set(graph.nodes)
    assert set(back.edges) == set(graph.edges)
    for node, data in back.nodes(data=True):
        original = graph.nodes[node]
        assert data["degree"] == float(original["degree"])
        assert data["constant"] is original["constant"]
        assert data["missing"] is original["missing"]
        assert ("initial" in data) == ("initial" in original)
        if "initial" in data:
            assert data["initial"] == pytest.approx(float(original["initial"]))
    for source, target, data in back.edges(data=True):
        assert data["coefficient"] == str(graph.edges[source, target]["coefficient"])


def test_graph_of_given_initial_moments():
    h = aim.derive(TIED, 2)
    family = aim.MatrixFamily({"S1": np.diag([1.0, 2.0]), "S2": np.eye(2)})
    graph = moment_graph(h, family)
    assert graph.nodes["tr(S1)"]["initial"] == pytest.approx(1.5)
    assert graph.nodes["tr(S1 S1)"]["initial"] == pytest.approx(2.5)


def test_report():
    text = aim.derive(TIED, 4).report()
    # Binary bracelets of length 1..4 are 2, 3, 4, 6, one of each for the teacher alone; of the 8 of length 5 all but
    # that one are called.
    assert text.splitlines() == [
        "moment hierarchy of degree 4: 15 words, 4 constant",
        "  degree 1: 2 words, 1 constant",
        "  degree 2: 3 words, 1 constant",
        "  degree 3: 4 words, 1 constant",
        "  degree 4: 6 words, 1 constant",
        "  missing: 7 words of degree 5, to be supplied by a closure",
    ]
    assert "closed: no word is missing" in aim.derive(DIRECT, 2).report()


def test_index_reads_any_form_of_a_word():
    h = aim.derive(UNTIED, 3)
    for position, word in enumerate(h.words):
        assert h.index(word) == position
        assert h.index(word.T) == position
        assert h.index(word.rotate(1)) == position
        assert h.index(trace_name(word)) == position
    assert h.index("tr(U1 V1^T)") == h.index("tr(M1)")
    assert h.index("V1^T U1") == h.index("M1")
    assert h.index("tr(U1^T U1)") == h.index("tr(A1)")
    # tr(U^T M V) = tr(U^T U V^T V), which read from the first V^T on is tr(M M^T) and not tr(A B).
    assert h.index("tr(U1^T M1 V1)") == h.index("tr(U1^T U1 V1^T V1)") == h.index("tr(M1 M1^T)")


@pytest.mark.parametrize(
    ("word", "match"),
    [
        ("tr(S1 S2 S1 S2)", "not a state of this hierarchy of degree 3; raise the degree"),
        ("tr(S3)", "unknown letter 'S3'.*S1, S2"),
        ("tr(W1)", "W1 is not a product of S1, S2"),
        ("tr()", "empty"),
        (3, "word = 3 is neither a Word nor text"),
    ],
)
def test_index_errors(word, match):
    with pytest.raises(aim.InputError, match=match):
        aim.derive(TIED, 3).index(word)


@pytest.mark.parametrize("degree", [1, 0, -3, 2.5, True, "4", None, float("nan")])
def test_degree_must_be_an_integer_of_at_least_two(degree):
    with pytest.raises(aim.InputError, match=r"degree = .* must be an integer of at least 2"):
        aim.derive(TIED, degree)


def test_degree_that_cannot_be_packed():
    with pytest.raises(aim.InputError, match="lower the degree"):
        aim.derive(TIED, 10**6)


@pytest.mark.parametrize(
    ("observables", "match"),
    [
        ([], "observables is empty"),
        ("p_12", "put it in a list"),
        (["overlap"], "unknown observable 'overlap'"),
        (["p_13"], "does not fit a model with 2 indices"),
        (["t_12"], "t_k with one index"),
        (["q_1"], "q_kl, p_kl with two"),
        (["q_01"], "does not fit"),
        (["tr(S1 S1 S1 S1)"], "degree 4, above the truncation degree 3"),
        (["tr(X)"], "unknown letter 'X'"),
    ],
)
def test_observable_errors(observables, match):
    with pytest.raises(aim.InputError, match=match):
        aim.derive(TIED, 3, observables=observables)


@pytest.mark.parametrize("name", ["tied-softmax", "untied-linear", "direct-linear"])
def test_named_observables_on_matrices(name):
    """t, q, q1, q2 and p by their definitions on matrices S_k that are formed by hand."""
    model = aim.models.load(name)
    seen = aim.derive(model, 2).views
    rng = np.random.default_rng(3)
    values = {}
    for letter in seen.alphabet.letters:
        if not letter.transposed:
            matrix = rng.standard_normal((4, 4))
            values[letter] = matrix + matrix.T if letter.symmetric else matrix
            values[letter.T] = values[letter].T
    first, second = (values[next(iter(P.terms)).letters[0]] for P in seen.matrices)

    def moments(words):
        return np.array([np.trace(np.linalg.multi_dot([np.eye(4), *(values[a] for a in w)])) / 4 for w in words])

    t1, t2, q1, q2 = np.trace(first) / 4, np.trace(second) / 4, np.sum(first * second) / 4, np.sum(first * second.T) / 4
    expected = {"t_1": t1, "t_2": t2, "q_12": q1, "q1_12": q1, "q2_12": q2, "p_12": q1 - t1 * t2, "p_21": q1 - t1 * t2}
    expected["p_1,2"] = expected["p_12"]
    for key, value in expected.items():
        read = observable(key, model, seen).evaluate(SimpleNamespace(moments=moments))
        assert read == pytest.approx(value, rel=1e-12), key


def test_default_observables_can_be_read():
    for model in (TIED, UNTIED, DIRECT, many_teachers()):
        seen = aim.derive(model, 2, observables=["loss"]).views
        shown = default_observables(model, seen)
        assert shown[-1].name == "loss"
        assert [observable(one.name, model, seen) for one in shown] == list(shown)


def many_teachers():
    """Eleven indices, so that two digits in a name are one index."""
    law = aim.Wishart(width=1)
    return aim.AttentionModel.of(
        *(tied(k, law, trained=k == 1) for k in range(1, 12)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=(0,), teachers=tuple(range(1, 11))),
    )


def test_more_than_nine_indices():
    model = many_teachers()
    h = aim.derive(model, 2, observables=["p_1,11", "tr(S10)"])
    assert "tr(S1 S11)" in h.names or "tr(S11 S1)" in h.names
    assert len({c.name for c in h.views.couplings}) == len(h.views.couplings) == 11
    drift = {(c.k, c.l): v for (c, _), v in h.drift("tr(S1)").items()}
    assert drift == {(0, k): -2 for k in range(11)}


def test_words_are_in_state_order():
    h = aim.derive(TIED, 4)
    assert [len(word) for word in h.words] == h.lengths.tolist()
    assert h.names[:5] == ("tr(S1)", "tr(S2)", "tr(S1 S1)", "tr(S1 S2)", "tr(S2 S2)")
    assert [str(symbol) for symbol in map(moment_symbol, h.words)] == list(h.names)
    assert repr(h) == "MomentHierarchy(degree=4, 15 words, couplings g_11, g_12)"


def test_latex_is_the_equation():
    text = aim.derive(TIED, 2).latex()
    assert text.startswith(r"\begin{aligned}")
    assert text.endswith(r"\end{aligned}")
    assert (
        r"\frac{d}{dt} \operatorname{tr}(S_{1}) &= - 2 [\nabla\Phi]_{11} \operatorname{tr}(S_{1} S_{1}) "
        r"- 2 [\nabla\Phi]_{12} \operatorname{tr}(S_{1} S_{2})"
    ) in text
    # d tr(S1 S2)/dt = -2 g_11 tr(S1 S1 S2) - 2 g_12 tr(S1 S2 S2); teacher words have no line.
    assert text.count(r"\frac{d}{dt}") == 3
