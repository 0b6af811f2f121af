"""Each module can be imported, by itself or after the others: names that only type checkers import are not used at run
time."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import kafkatools

MODULES = sorted(module.name for module in pkgutil.walk_packages(kafkatools.__path__, "kafkatools."))


@pytest.mark.parametrize("name", MODULES)
def test_module_loads(name: str) -> None:
    importlib.import_module(name)
