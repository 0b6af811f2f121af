"""How large a folder, a file, a function and the use of `Any` may be."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

import pytest
from support.import_graph import PACKAGE

MODULES_IN_FOLDER = 30
LINES_OF_FILE = 600
LINES_OF_FUNCTION = 50
ANYS = 500
TABLES = {"core/errors.py"}
"""One class for each error code of Kafka: a table, which has no upper bound."""
KERNELS = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("core/*/_*.py") if path.name != "__init__.py"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in modules() if path.name != "__init__.py")
    too_many = {folder: count for folder, count in counts.items() if count > MODULES_IN_FOLDER}
    assert too_many.keys() <= {"commands"}, too_many


def test_no_file_is_too_long() -> None:
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in modules()}
    too_long = {name: length for name, length in lengths.items() if length > LINES_OF_FILE}
    assert too_long.keys() <= TABLES | KERNELS, too_long


@pytest.mark.parametrize("folder", sorted({path.parent for path in modules()}), ids=lambda path: path.name)
def test_no_function_is_too_long(folder: Path) -> None:
    too_long = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in folder.glob("*.py")
        if name_of(path) not in KERNELS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno >= LINES_OF_FUNCTION
    ]
    assert too_long == []


def test_any_stands_only_where_a_value_really_is_anything() -> None:
    words = (
        token.string
        for path in modules()
        if "Any" in path.read_text()
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME
    )
    assert sum(word == "Any" for word in words) < ANYS
