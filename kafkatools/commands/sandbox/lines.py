"""What kt sandbox prints: a line, or with --json an object."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.options import Args
    from kafkatools.sandbox.single import SandboxInfo


def show(console: Console, args: Args, line: str, row: dict[str, object]) -> None:
    """The line, or what stands for it."""
    if args.json:
        console.print_json(row)
    else:
        console.print(line)


def row_of(info: SandboxInfo, state: str) -> dict[str, object]:
    return {
        "state": state,
        "bootstrap": info.bootstrap,
        "nodes": info.nodes,
        "pid": info.pid if info.nodes == 1 else None,
        "directory": info.directory,
        "idle_ms": info.idle_ms,
    }
