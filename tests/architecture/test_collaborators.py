"""Objects get their collaborators at construction: nobody else sets an attribute of theirs to a function later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.import_graph import PACKAGE


def methods_of(cls: ast.ClassDef) -> set[str]:
    """The names of a class's methods; properties are data."""
    return {
        method.name
        for method in cls.body
        if isinstance(method, ast.FunctionDef)
        and not any("property" in ast.unparse(decorator) for decorator in method.decorator_list)
    }


def is_function(value: ast.expr, methods: set[str]) -> bool:
    """Whether an expression is a lambda, a partial or a bound method of the class that it is in."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in ("partial", "functools.partial")
    return isinstance(value, ast.Lambda) or (
        isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self" and value.attr in methods
    )


def functions_set_elsewhere(tree: ast.AST) -> Iterator[ast.Assign]:
    """The assignments of a function to an attribute of another object than `self`."""
    nodes = list(ast.walk(tree))
    classes = [(node, methods_of(node)) for node in nodes if isinstance(node, ast.ClassDef)]
    for node in nodes:
        if isinstance(node, ast.Assign):
            around = [methods for cls, methods in classes if cls.lineno <= node.lineno <= (cls.end_lineno or 0)]
            owners = [ast.unparse(target.value) for target in node.targets if isinstance(target, ast.Attribute)]
            if any(owner != "self" for owner in owners) and is_function(node.value, set().union(*around)):
                yield node


def lines(tree: ast.AST) -> set[int]:
    return {node.lineno for node in functions_set_elsewhere(tree)}


def test_no_object_gets_a_function_after_its_construction() -> None:
    found = {path.relative_to(PACKAGE).as_posix(): lines(ast.parse(path.read_text())) for path in modules()}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_functions_set_elsewhere_are_found() -> None:
    program = """
class Owner:
    def __init__(self, part):
        self.call = lambda: 1
        self.part = part
        self.part.call = self.run
        part.when_closed = lambda: 2
        part.count = self.size
        part.again = partial(self.run, 1)
        self.call = self.run
        size = part.size = 3

    @property
    def size(self): ...
    def run(self): ...
"""
    assert lines(ast.parse(program)) == {6, 7, 9}
