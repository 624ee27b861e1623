"""The examples in docstrings are run: what a reader copies works."""

import doctest
import importlib
import pkgutil

import pytest

import aimtheory

WALKED = pkgutil.walk_packages(aimtheory.__path__, "aimtheory.")
NAMES = ["aimtheory", *sorted(module.name for module in WALKED if not module.name.endswith("__main__"))]


@pytest.mark.parametrize("name", NAMES)
def test_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert result.failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in NAMES]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) > 100
