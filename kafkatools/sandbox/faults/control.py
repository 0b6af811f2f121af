"""Add, list and remove the faults of running nodes: from commands, and as `faults` of EmbeddedBroker and
EmbeddedCluster."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypedDict, Unpack

from kafkatools.core import atomic_file
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import ConfigError
from kafkatools.sandbox.faults.checks import checked
from kafkatools.sandbox.faults.spec import FaultSpec, Row, read_spec, spec_row
from kafkatools.sandbox.run_files import FAULTS_FILE, FAULTS_STATE_FILE
from kafkatools.sandbox.spawn import SandboxError, make_private

APPLY_TIMEOUT_MS = 30_000
_POLL_MS = 2
_ADD_LOCK, _FILE_LOCK = "faults.add.lock", "faults.lock"
"""Lock files: of choosing the id of a new fault (in the directory of the first node), and of a node's faults file. The
first one is taken first, so that two faults that are added at the same time get different ids."""


class FaultOptions(TypedDict, total=False):
    """The options of a fault. `api`: names such as Produce; `client`, `topic`: patterns with * and ?; `senders`:
    clients, nodes or all. `rate`: the share of requests or writes, chosen by a generator with `seed`."""

    api: str | Sequence[str]
    client: str
    topic: str
    senders: str
    rate: float
    seed: int
    delay_ms: int
    error: str
    after: bool
    skew_ms: int


class NodeProcess(NamedTuple):
    """A node: the directory of its run file and its process id; None if it does not run or is paused."""

    directory: str
    pid: int | None


class FaultStatus(NamedTuple):
    """A fault with its id, the ids of its nodes, and how many requests or writes it has hit on them; `hits` is None
    while one of the nodes does not run."""

    id: int
    spec: FaultSpec
    nodes: tuple[int, ...]
    hits: int | None


class Fault:
    """A fault that was added; `with` removes it at the end of the block."""

    def __init__(self, faults: Faults, id: int, spec: FaultSpec) -> None:
        self._faults = faults
        self.id = id
        self.spec = spec

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def hits(self) -> int:
        """The number of requests or writes that it has hit so far; 0 when it has been removed."""
        return sum(status.hits or 0 for status in self._faults.active() if status.id == self.id)

    def remove(self) -> None:
        """End the fault. Does nothing if it has ended. Raises SandboxError."""
        self._faults.remove(self.id)


class Faults:
    """The faults of the nodes of a sandbox. `nodes` returns the present processes by node id. A node that does not run
    has its faults when it runs again."""

    def __init__(self, nodes: Callable[[], Mapping[int, NodeProcess]]) -> None:
        self._nodes = nodes
        self._clock = SystemClock()

    def add(
        self, kind: str, *, node: int | None = None, for_ms: int | None = None, **options: Unpack[FaultOptions]
    ) -> Fault:
        """Add a fault to a node, or to all; return when running nodes have it.

        `kind`: delay (`delay_ms`), drop, cut (`after` the request was executed), error (`error`: Kafka's name),
        slow-disk (`delay_ms` for each write and sync), full-disk, clock-skew (`skew_ms`). `for_ms`: its duration;
        without it the fault stays until it is removed.

        Raises ConfigError for a fault that makes no sense, SandboxError for an unknown node or one that does not apply
        it.
        """
        fields = dict(options)
        api = fields.pop("api", ())
        if for_ms is not None and for_ms <= 0:
            raise ConfigError("The duration of a fault must be above 0")
        fields["apis"] = (api,) if isinstance(api, str) else tuple(api)  # type: ignore[arg-type]
        fields["until_ms"] = None if for_ms is None else self._clock.wall_ms() + for_ms
        spec = checked(FaultSpec(kind, **fields))  # type: ignore[arg-type]
        nodes = self._nodes()
        if node is not None and node not in nodes:
            raise SandboxError(f"There is no node {node}: the nodes are {', '.join(map(str, nodes))}")
        chosen = nodes if node is None else {node: nodes[node]}
        with _locked(nodes[min(nodes)].directory, _ADD_LOCK):
            number = 1 + max(_last_id(one.directory) for one in nodes.values())
            for one in chosen.values():
                self._change(one, lambda rows: [*rows, {"id": number, **spec_row(spec)}])
        return Fault(self, number, spec)

    def active(self) -> list[FaultStatus]:
        """The faults that have not ended, by id."""
        found: dict[int, tuple[FaultSpec, list[int]]] = {}
        hits: dict[int, int | None] = {}
        for node, one in self._nodes().items():
            rows = self._present(one.directory)
            counts = self._hits(one) if rows else {}
            for row in rows:
                number = int(row["id"])
                found.setdefault(number, (read_spec(row), []))[1].append(node)
                total, count = hits.get(number, 0), None if counts is None else counts.get(str(number), 0)
                hits[number] = None if total is None or count is None else total + count
        return [
            FaultStatus(number, spec, tuple(nodes), hits[number]) for number, (spec, nodes) in sorted(found.items())
        ]

    def remove(self, id: int) -> bool:
        """Remove a fault from all nodes; return whether one had it. Raises SandboxError."""
        return self._remove(lambda row: row["id"] == id)

    def clear(self) -> bool:
        """Remove all faults; return whether there was one. Raises SandboxError."""
        return self._remove(lambda row: True)

    def _remove(self, is_removed: Callable[[Row], bool]) -> bool:
        had_one = False
        for one in self._nodes().values():
            rows = _rows(one.directory)
            if any(map(is_removed, rows)):
                had_one = True
                self._change(one, lambda rows: [row for row in rows if not is_removed(row)])
        return had_one

    def _present(self, directory: str) -> list[Row]:
        now_ms = self._clock.wall_ms()
        return [row for row in _rows(directory) if row["until_ms"] is None or row["until_ms"] > now_ms]

    def _hits(self, one: NodeProcess) -> Mapping[str, int] | None:
        """The hits of a node's faults by id, None if it does not run."""
        if one.pid is None:
            return None
        self._change(one, lambda rows: rows)
        hits: Mapping[str, int] = (_read(os.path.join(one.directory, FAULTS_STATE_FILE)) or {}).get("hits", {})
        return hits

    def _change(self, one: NodeProcess, change: Callable[[list[Row]], list[Row]]) -> None:
        """Write the faults file of a node with new content and a new stamp, and wait until a running node has read it.
        Raises SandboxError."""
        with _locked(one.directory):
            stamp = uuid.uuid4().hex
            rows = change(self._present(one.directory))
            last_id = max([_last_id(one.directory), *(row["id"] for row in rows)])
            content = {"stamp": stamp, "faults": rows, "last_id": last_id}
            atomic_file.replace(os.path.join(one.directory, FAULTS_FILE), json.dumps(content).encode(), 0o600)
            if one.pid is None:
                return
            try:
                os.kill(one.pid, signal.SIGUSR1)
            except ProcessLookupError:
                return
            deadline_ms = self._clock.now_ms() + APPLY_TIMEOUT_MS
            while (_read(os.path.join(one.directory, FAULTS_STATE_FILE)) or {}).get("stamp") != stamp:
                if self._clock.now_ms() > deadline_ms:
                    raise SandboxError(f"The node (pid {one.pid}) has not applied its faults within 30 s")
                if not _is_alive(one.pid):
                    return
                self._clock.sleep_ms(_POLL_MS)


def _rows(directory: str) -> list[Row]:
    return list((_read(os.path.join(directory, FAULTS_FILE)) or {}).get("faults", ()))


def _last_id(directory: str) -> int:
    """Return the highest id that a fault of a node has or had; 0 without one."""
    content = _read(os.path.join(directory, FAULTS_FILE)) or {}
    return int(max([content.get("last_id", 0), *(row["id"] for row in content.get("faults", ()))]))


def _read(path: str) -> Row | None:
    try:
        with open(path, "rb") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X", b"T", b"t")
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked(directory: str, name: str = _FILE_LOCK) -> Iterator[None]:
    make_private(directory)
    lock = os.open(os.path.join(directory, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
