"""The examples in docstrings are run: what a reader copies works."""

import doctest
import importlib
import pkgutil

import aimtheory

WALKED = pkgutil.walk_packages(aimtheory.__path__, "aimtheory.")
NAMES = ["aimtheory", *sorted(module.name for module in WALKED if not module.name.endswith("__main__"))]


def test_examples():
    """What failed is in the captured output."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed = {name: doctest.testmod(importlib.import_module(name), optionflags=flags).failed for name in NAMES}
    assert {name: count for name, count in failed.items() if count} == {}


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in NAMES]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) > 100
