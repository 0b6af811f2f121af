"""Each module can be imported, by itself or after the others: names that only type checkers import are not used at run
time."""

from __future__ import annotations

import importlib
import pathlib
import pkgutil
from collections import Counter

import pytest

import kafkatools

MODULES = sorted(module.name for module in pkgutil.walk_packages(kafkatools.__path__, "kafkatools."))
TESTS = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize("name", MODULES)
def test_module_loads(name: str) -> None:
    importlib.import_module(name)


def test_names_of_test_files_are_unique() -> None:
    """pytest imports test files by their names alone, so two of one name cannot be collected together."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
