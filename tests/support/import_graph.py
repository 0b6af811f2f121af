"""The imports between the modules of kafkatools, read from their source: those at the top of a file, under
`TYPE_CHECKING` and inside functions alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "kafkatools"
Graph = Mapping[str, frozenset[str]]


def read_imports(package: Path = PACKAGE) -> dict[str, frozenset[str]]:
    """The modules of a package, each with the modules of the package that it imports anywhere."""
    paths = {_module_name(package, path): path for path in package.rglob("*.py")}
    names = frozenset(paths)
    return {name: frozenset(_imported(ast.parse(path.read_bytes()), names)) - {name} for name, path in paths.items()}


def _module_name(package: Path, path: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST, names: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                found = next((name for name in (f"{node.module}.{alias.name}", node.module) if name in names), None)
                if found is not None:
                    yield found


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module, the largest first (Kosaraju's algorithm)."""
    order: list[str] = []
    seen: set[str] = set()
    for name in sorted(graph):
        order += _finished(graph, name, seen)
    importers: dict[str, set[str]] = {name: set() for name in graph}
    for name, imported in graph.items():
        for each in imported:
            importers[each].add(name)
    seen.clear()
    components = [_finished(importers, name, seen) for name in reversed(order)]
    return sorted((sorted(found) for found in components if len(found) > 1), key=len, reverse=True)


def _finished(graph: Mapping[str, frozenset[str] | set[str]], start: str, seen: set[str]) -> list[str]:
    """The modules that a depth-first walk from `start` reaches for the first time, in the order it leaves them."""
    if start in seen:
        return []
    seen.add(start)
    left: list[str] = []
    walk = [(start, iter(sorted(graph[start])))]
    while walk:
        name, rest = walk[-1]
        target = next((each for each in rest if each not in seen), None)
        if target is None:
            left.append(name)
            walk.pop()
        else:
            seen.add(target)
            walk.append((target, iter(sorted(graph[target]))))
    return left
