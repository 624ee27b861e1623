"""The shape of the package, read from its source: which way imports flow, what is light, what is documented."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

import aimtheory

PACKAGE = Path(aimtheory.__file__).parent
ROOT = PACKAGE.parent

ORDER = (
    ("errors",),
    ("glossary",),
    ("frozen",),
    ("files",),
    ("progress",),
    ("checks",),
    ("expression",),
    ("scalars",),
    ("arrays",),
    ("records",),
    ("status",),
    ("words",),
    ("spectra",),
    ("model",),
    ("networks",),
    ("library",),
    ("population",),
    ("hierarchy",),
    ("dynamics",),
    ("bayes",),
    ("simulate",),
    ("results",),
    ("report",),
    ("sweep",),
    ("cli",),
    ("__main__",),
)
"""Rooms from the ground up; a room imports only from those before it and from itself."""

RANK = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
THEORY = [room for room, level in RANK.items() if level < RANK["simulate"]]
DRAWING = ("matplotlib",)
"""Libraries that no theory may name at all."""

STORING = ("xarray", "h5netcdf", "h5py", "dask")
"""Libraries that a theory may load only while it saves or exports a result, inside a function."""

FILES = sorted(PACKAGE.rglob("*.py"))
MODULES = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES}


def offenders(check, paths=FILES):
    """What a check has against each file, with the file's name."""
    return [f"{path.relative_to(PACKAGE)}: {fault}" for path in paths for fault in check(path)]


def room_of(module):
    """The room of a module of the package, None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


class Imports(ast.NodeVisitor):
    """Names of imported modules with their lines, lazy ones included, those for the type checker alone left out."""

    def __init__(self, module, is_package):
        self.found = []
        self.lazy = set()
        self.depth = 0
        self.base = module.split(".") if is_package else module.split(".")[:-1]

    def visit_If(self, node):
        if "TYPE_CHECKING" in ast.unparse(node.test):
            for other in node.orelse:
                self.visit(other)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node):
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def add(self, name, line):
        self.found.append((name, line))
        if self.depth:
            self.lazy.add((name, line))

    def visit_Import(self, node):
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node):
        base = self.base[: len(self.base) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        # "from aimtheory import words" names a room in its list.
        for alias in node.names:
            self.add(f"{module}.{alias.name}", node.lineno)

    def visit_Call(self, node):
        name = ast.unparse(node.func)
        dynamic = name in ("importlib.import_module", "import_module", "__import__")
        if dynamic and node.args and isinstance(node.args[0], ast.Constant):
            self.add(node.args[0].value, node.lineno)
        self.generic_visit(node)


def read_imports(path, source=None):
    visitor = Imports(MODULES.get(path, "aimtheory.words.made_up"), path.name == "__init__.py")
    visitor.visit(ast.parse(source if source is not None else path.read_text(encoding="utf-8")))
    return visitor


def imports_of(path, source=None):
    return read_imports(path, source).found


def upward(path, source=None, module=None):
    """Imports of a file that run against the order of the rooms."""
    room = room_of(module or MODULES[path])
    wrong = []
    for name, line in imports_of(path, source):
        if name.split(".")[0] != "aimtheory":
            continue
        target = room_of(name)
        if target in RANK and target != room and RANK[target] >= RANK[room]:
            wrong.append(f"line {line}: {room} imports {name}")
    return wrong


def test_every_room_has_a_place():
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    rooms = {room for room in rooms if not room.startswith("__")}
    assert rooms <= set(RANK), f"rooms without a place in the order: {rooms - set(RANK)}"


def test_imports_flow_one_way():
    assert offenders(upward, [path for path in FILES if room_of(MODULES[path]) is not None]) == []


def test_the_check_sees_arrows_that_run_back_up():
    """Plain, lazy, relative, listed and dynamic imports are all seen; those for the type checker are not."""
    path = PACKAGE / "words" / "made_up.py"
    for line in (
        "import aimtheory.hierarchy",
        "from aimtheory.model import tied",
        "from aimtheory import dynamics",
        "from ..simulate import sgd",
        "def f():\n    from aimtheory.cli import main",
        "import importlib\nimportlib.import_module('aimtheory.report')",
    ):
        assert len(upward(path, line, "aimtheory.words.made_up")) == 1, line
    allowed = (
        "from aimtheory.errors import InputError\nfrom .word import Word\nfrom aimtheory.words import Letter\n"
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from aimtheory.model import AttentionModel\n"
    )
    assert upward(path, allowed, "aimtheory.words.made_up") == []
    assert len(upward(path, "from aimtheory.scalars import x", "aimtheory.errors")) == 1


def import_circles(sources):
    """Circles of files that import each other at run time, at their head or inside a function; sources by module."""
    graph = nx.DiGraph()
    for module, (path, source) in sources.items():
        visitor = Imports(module, path.name == "__init__.py")
        visitor.visit(ast.parse(source))
        for name, _ in visitor.found:
            # "from aimtheory.words.word import Word" names a file and something in it.
            while name and name not in sources:
                name = name.rpartition(".")[0]
            if name and name != module:
                graph.add_edge(module, name)
    return [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1]


def test_no_files_import_each_other():
    sources = {module: (path, path.read_text(encoding="utf-8")) for path, module in MODULES.items()}
    assert import_circles(sources) == []


def test_the_check_sees_circles():
    """Direct ones and those through a third file, lazy and dynamic ones; not what only the type checker reads."""
    files = {
        "aimtheory.a": "from aimtheory.b import x",
        "aimtheory.b": "def f():\n    from . import c",
        "aimtheory.c": "import importlib\nimportlib.import_module('aimtheory.a')",
        "aimtheory.d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from aimtheory.e import x",
        "aimtheory.e": "from aimtheory import a, d",
    }
    sources = {module: (PACKAGE / f"{module[-1]}.py", text) for module, text in files.items()}
    assert import_circles(sources) == [["aimtheory.a", "aimtheory.b", "aimtheory.c"]]
    assert import_circles(sources | {"aimtheory.c": (PACKAGE / "c.py", "")}) == []


def drawing_and_storing(path):
    imports = read_imports(path)
    yield from (f"names {name}" for name, _ in imports.found if name.split(".")[0] in DRAWING)
    at_once = set(imports.found) - imports.lazy
    yield from (f"loads {name} outside a function" for name, _ in at_once if name.split(".")[0] in STORING)


def test_theory_draws_nothing_and_stores_nothing():
    assert offenders(drawing_and_storing, [path for path in FILES if room_of(MODULES[path]) in THEORY]) == []


def test_the_root_loads_rooms_on_demand():
    """``import aimtheory`` is light: no numerical or drawing library comes with it."""
    heavy = ("numpy", "scipy", "sympy", "mpmath", "networkx", "matplotlib", "xarray")
    code = f"import sys, aimtheory; print([m for m in {heavy!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


def test_theory_loads_no_output_library():
    """Not even through a third library, at run time."""
    rooms = [room for room in THEORY if (PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file()]
    rooms = [room for room in rooms if not (PACKAGE / room).is_dir() or (PACKAGE / room / "__init__.py").is_file()]
    code = "import sys\n" + "\n".join(f"import aimtheory.{room}" for room in rooms)
    code += "\nprint([m for m in ('matplotlib', 'xarray', 'aimtheory.simulate', 'aimtheory.cli') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


def test_every_name_of_the_root_exists():
    for name in aimtheory.__all__:
        assert getattr(aimtheory, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aimtheory.nothing


def unsaid(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    if not ast.get_docstring(tree):
        yield "the module has no docstring"
    assigned = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    if "__all__" not in assigned and path.name != "__main__.py":
        yield "the module has no __all__"


def test_modules_say_what_they_are_and_what_they_offer():
    assert offenders(unsaid) == []


def undocumented(path):
    module = importlib.import_module(MODULES[path])
    yield from (f"{name} is listed twice" for name, times in Counter(module.__all__).items() if times > 1)
    for name in module.__all__:
        if not hasattr(module, name):
            yield f"{name} does not exist"
            continue
        value = getattr(module, name)
        # A dataclass writes a docstring of its own when there is none.
        silent = not inspect.getdoc(value) or (value.__doc__ or "").startswith(f"{name}(")
        if silent and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{name} has no docstring"


def test_public_names_exist_and_are_documented():
    assert offenders(undocumented, [path for path in FILES if path.name != "__main__.py"]) == []


def machine_paths(path):
    text = path.read_text(encoding="utf-8")
    return [found[0] for found in re.finditer(r"""["'(\s]/(home|root|tmp|work|Users|mnt|opt)/\S*""", text)]


def test_no_path_of_one_machine():
    assert offenders(machine_paths) == []


def test_packages_are_packages():
    """Every folder with modules has an ``__init__.py``, so that an installed copy has them all."""
    for path in FILES:
        assert (path.parent / "__init__.py").is_file(), f"{path.parent} is no package"
    walked = {m.name for m in pkgutil.walk_packages([str(PACKAGE)], "aimtheory.")}
    assert walked >= {name for name in MODULES.values() if name != "aimtheory" and not name.endswith("__main__")}


FAMILIES = {
    "aimtheory.spectra.initial_law": ("MatrixLaw", "InitialLaw"),
    "aimtheory.spectra.law": ("SpectralLaw",),
    "aimtheory.spectra.rectangular_law": ("RectangularLaw",),
    "aimtheory.spectra.joint_law": ("JointLaw",),
    "aimtheory.model.activations": ("Activation",),
    "aimtheory.model.losses": ("Loss",),
    "aimtheory.bayes.channel": ("Channel",),
    "aimtheory.bayes.joint_channel": ("JointChannel",),
    "aimtheory.bayes.prior": ("Prior",),
}
"""Laws, activations, losses, channels and priors answer for themselves: the abstract classes, by their module."""

CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "__eq__")

READERS = (
    "_check",  # model: the part of a loss's constructor that its subclasses write
    *(
        "is_matrix_law",
        "is_parameter_law",
        "is_rectangular_law",
        "is_spectral_law",
        "is_joint_law",
    ),  # spectra, for other rooms
    "plain",  # spectra: a law inside the parameters of another, as plain data
    "activation",  # model: a name, a formula or an activation
    "is_loss",  # model, for other rooms
    "make_channel",  # bayes: a name or a channel
    "make_any_channel",
    "make_rectangular_prior",
    "as_joint_channel",
    "make_prior",  # bayes: a width, a law or a prior
    "check_joint_prior",
)
"""Functions that build such a value from what a user gives, and so ask what they were given."""


def descendants(cls):
    return {cls, *(found for child in cls.__subclasses__() for found in descendants(child))}


def homes_of_behaviour():
    """The room of every class of laws, activations, losses, channels and priors of the package."""
    for path, module in MODULES.items():
        if path.name != "__main__.py":
            importlib.import_module(module)
    bases = [getattr(importlib.import_module(module), name) for module, names in FAMILIES.items() for name in names]
    found = {cls for base in bases for cls in descendants(base) if cls.__module__ in MODULES.values()}
    rooms = {base: room_of(base.__module__) for base in bases}
    return {cls: next(rooms[base] for base in bases if issubclass(cls, base)) for cls in found}


class ClassQuestions(ast.NodeVisitor):
    """Where a source asks a value for its class: line, function, and the names of the classes it may mean."""

    def __init__(self):
        self.functions = ["the module"]
        self.found = []
        self.imported = {}
        self.foreign = set()

    def visit_Import(self, node):
        names = [alias.asname or alias.name for alias in node.names if not alias.name.startswith("aimtheory")]
        self.foreign |= {name.split(".")[0] for name in names}

    def visit_ImportFrom(self, node):
        self.imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}

    def visit_FunctionDef(self, node):
        self.functions.append(node.name)
        self.generic_visit(node)
        self.functions.pop()

    def ask(self, node, *classes):
        leaves = [part for cls in classes for part in ast.walk(cls)]
        names = {part.id for part in leaves if isinstance(part, ast.Name)}
        # Not those of other libraries, such as ast.Constant.
        attributes = [part for part in leaves if isinstance(part, ast.Attribute)]
        names |= {part.attr for part in attributes if ast.unparse(part).split(".")[0] not in self.foreign}
        # A class that is compared by its name.
        names |= {part.value for part in leaves if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        self.found.append((node.lineno, self.functions[-1], names))

    def visit_Call(self, node):
        if ast.unparse(node.func) in ("isinstance", "issubclass") and len(node.args) == 2:
            self.ask(node, node.args[1])
        self.generic_visit(node)

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        if any(re.search(r"\btype\(|__class__|__(qual)?name__", ast.unparse(side)) for side in sides):
            self.ask(node, *sides)
        self.generic_visit(node)

    def visit_MatchClass(self, node):
        self.ask(node.cls, node.cls)
        self.generic_visit(node)


def class_questions(source, module, homes):
    """Questions for a class of law, activation, loss, channel or prior outside the constructors of its own room."""
    visitor = ClassQuestions()
    visitor.visit(ast.parse(source))
    by_name = {cls.__name__: cls for cls in homes}
    for line, function, names in visitor.found:
        for name in sorted(names):
            source_module, original = visitor.imported.get(name, (None, name))
            cls = by_name.get(original)
            # Other libraries and rooms have classes of the same name.
            if cls is None or (source_module or "").split(".")[0] not in ("", "aimtheory"):
                continue
            if source_module is not None and getattr(importlib.import_module(source_module), original, None) is not cls:
                continue
            if (
                source_module is None
                and name not in visitor.imported
                and cls.__module__ != module
                and module in sys.modules
            ):
                continue
            if not (room_of(module) == homes[cls] and function in (*CONSTRUCTORS, *READERS)):
                yield f"line {line}: {function} asks for {name}"


def test_laws_losses_channels_and_activations_are_not_asked_for_their_class():
    homes = homes_of_behaviour()
    asking = {}
    for path in FILES:
        found = list(class_questions(path.read_text(encoding="utf-8"), MODULES[path], homes))
        if found:
            asking[str(path.relative_to(PACKAGE))] = found
    assert asking == {}


def test_the_check_sees_questions_of_class():
    """By isinstance, issubclass, type, class name or match, inside unions and tuples; constructors may ask."""
    homes = homes_of_behaviour()
    head = "from aimtheory.spectra import GOE, Wishart\nfrom aimtheory import spectra\nfrom sympy import Piecewise\n"
    for line in (
        "isinstance(x, GOE)",
        "isinstance(x, int | GOE)",
        "issubclass(type(x), (Wishart, int))",
        "type(x) is GOE",
        "x.__class__ == GOE",
        "type(x).__name__ == 'GOE'",
        "isinstance(x, spectra.Wishart)",
        "[y for y in x if isinstance(y, Wishart)]",
        "match x:\n    case GOE():\n        pass",
        "def __init__(self, x):\n    isinstance(x, GOE)",
    ):
        assert len(list(class_questions(head + line, "aimtheory.bayes.made_up", homes))) == 1, line
    inside = head + "def __post_init__(self):\n    isinstance(self.law, GOE)"
    assert list(class_questions(inside, "aimtheory.spectra.made_up", homes)) == []
    other = "import ast\nfrom aimtheory.words import Polynomial\nisinstance(x, Polynomial)\nisinstance(x, ast.Constant)"
    assert list(class_questions(other, "aimtheory.words.made_up", homes)) == []
