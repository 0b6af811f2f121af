"""What may import what. Every kind of import counts: at the top of a module, under TYPE_CHECKING, inside functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.import_graph import PACKAGE, circles, read_imports

NODE_MODULES = (
    "kafkatools.core.broker.node",
    "kafkatools.core.broker.node_setup",
    "kafkatools.core.broker.sole_member",
    "kafkatools.core.broker.cluster_member",
)
ROOM_OF_NODES = ("kafkatools.sandbox", "kafkatools.commands")


@pytest.fixture(scope="module")
def graph() -> dict[str, frozenset[str]]:
    return read_imports()


def test_no_modules_import_each_other_in_circles(graph: dict[str, frozenset[str]]) -> None:
    found = circles(graph)
    assert found == [], "\n".join(" ".join(circle) for circle in found)


def test_only_sandbox_and_commands_name_the_node(graph: dict[str, frozenset[str]]) -> None:
    naming = [
        name
        for name, imported in graph.items()
        if imported.intersection(NODE_MODULES) and not name.startswith((*ROOM_OF_NODES, *NODE_MODULES))
    ]
    assert naming == []


def test_imports_of_every_kind_are_found(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "typed.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pack import lazy\n"
    )
    (package / "lazy.py").write_text("def load():\n    import pack.top\n")
    (package / "top.py").write_text("from pack.typed import name\n")
    (package / "leaf.py").write_text("import pack.top\n")
    assert circles(read_imports(package)) == [["pack.lazy", "pack.top", "pack.typed"]]


def test_every_module_is_read(graph: dict[str, frozenset[str]]) -> None:
    assert len(graph) == len(list(PACKAGE.rglob("*.py")))
