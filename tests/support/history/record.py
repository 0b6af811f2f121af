"""Histories: each operation of a client as JSON lines, one when it is invoked and one when its outcome is known.

An operation without a second line has the outcome `unknown`: it may have taken effect or may still do so. A line is
written with one system call, so that a SIGKILL right afterwards cannot take it back. This module must not import
kafkatools: the clients of other libraries use it.
"""

from __future__ import annotations

import json
import os
import pathlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

OK = "ok"
FAIL = "fail"
UNKNOWN = "unknown"
FOREVER = 1 << 62


class Recorder:
    """Writes the history of one process; several threads may share it."""

    def __init__(self, path: str, process: str, run: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._process = process
        self._run = run
        self._lock = threading.Lock()
        self._next_id = 0

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _new_id(self) -> int:
        with self._lock:
            self._next_id += 1
            return self._next_id

    def invoke(self, kind: str, **arguments: Any) -> int:
        """Record that an operation begins; returns its number."""
        number = self._new_id()
        head = {"process": self._process, "run": self._run, "id": number, "event": "invoke", "kind": kind}
        self._write({**head, "time_ns": time.monotonic_ns(), **arguments})
        return number

    def complete(self, number: int, outcome: str, **results: Any) -> None:
        """Record the outcome of an operation."""
        head = {"process": self._process, "run": self._run, "id": number, "event": outcome}
        self._write({**head, "time_ns": time.monotonic_ns(), **results})

    def note(self, kind: str, begun_ns: int, outcome: str = OK, **values: Any) -> None:
        """Record an operation that changes nothing, or cannot be interrupted, with one line once it is over."""
        head = {"process": self._process, "run": self._run, "id": self._new_id(), "event": outcome, "kind": kind}
        self._write({**head, "begun_ns": begun_ns, "time_ns": time.monotonic_ns(), **values})


@dataclass(frozen=True)
class Operation:
    """One operation: `values` holds its arguments, `result` what the completion added."""

    process: str
    kind: str
    values: dict[str, Any]
    outcome: str = OK
    begun_ns: int = 0
    ended_ns: int = FOREVER
    run: int = 0
    id: int = 0
    result: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        end = "never" if self.ended_ns == FOREVER else f"{self.ended_ns / 1e9:.3f}"
        shown = ", ".join(f"{name}={_short(value)}" for name, value in {**self.values, **self.result}.items())
        return f"[{self.process}.{self.run} {self.begun_ns / 1e9:.3f}-{end} {self.kind} {shown}: {self.outcome}]"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 200 else f"{text[:90]} ... {text[-90:]}"


_HEAD = ("process", "run", "id", "event", "kind", "time_ns", "begun_ns")


def parse(lines: Iterable[str]) -> list[Operation]:
    """The operations of one file of history, in the order in which they began. A line that a kill cut off is none."""
    begun: dict[tuple[str, int, int], Operation] = {}
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        key = (line["process"], line["run"], line["id"])
        rest = {name: value for name, value in line.items() if name not in _HEAD}
        if line["event"] == "invoke":
            begun[key] = Operation(key[0], line["kind"], rest, UNKNOWN, line["time_ns"], FOREVER, key[1], key[2])
            continue
        former = begun.get(key)
        if former is None:
            begun[key] = Operation(
                key[0], line["kind"], rest, line["event"], line["begun_ns"], line["time_ns"], key[1], key[2]
            )
        else:
            begun[key] = Operation(
                *key[:1], former.kind, former.values, line["event"], former.begun_ns, line["time_ns"], *key[1:], rest
            )
    return sorted(begun.values(), key=lambda operation: operation.begun_ns)


def read_histories(directory: pathlib.Path) -> list[Operation]:
    """All operations of all processes, in the order in which they began."""
    found: list[Operation] = []
    for path in sorted(directory.glob("*.jsonl")):
        found += parse(path.read_text(errors="replace").splitlines())
    return sorted(found, key=lambda operation: operation.begun_ns)
