"""A member of a quorum with real sockets and a real disk, and nothing else of a node, on a thread of its own."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from support.listeners import open_listener
from support.waiting import PATIENCE_S

from kafkatools.core.broker.metadata.metadata_log import MetadataLog
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft import Raft
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.snapshot import Snapshot
from kafkatools.core.broker.server.apis import CONTROLLER_APIS
from kafkatools.core.broker.server.dispatch import Dispatcher
from kafkatools.core.broker.server.peers import Peers
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import ClusterAuthorizationFailed
from kafkatools.core.log.files import RealFileSystem

Result = TypeVar("Result")
QUORUM_APIS = {key: CONTROLLER_APIS[key] for key in (1, 18, 52, 53, 54, 55, 59)}


class RaftNode:
    """Node `node_id`, voter or observer. `records` is what was committed, `work` runs something on its thread."""

    def __init__(
        self, node_id: int, voters: Mapping[int, tuple[str, int]], directory: pathlib.Path, settings: RaftSettings
    ) -> None:
        self.clock = SystemClock()
        self.quotas = SimpleNamespace(is_active=False)
        self.image = SimpleNamespace(features={})
        self.metadata_offset = 0
        self.denies = False
        self.records: list[Any] = []
        self.snapshots: list[Snapshot] = []
        self.leaders: list[tuple[int | None, int]] = []
        self.failures: list[Exception] = []
        self._requests: list[Callable[[], None]] = []
        self._is_stopping = False
        address = voters.get(node_id, ("127.0.0.1", 0))
        self.listener = open_listener(Dispatcher(self, QUORUM_APIS), address)  # type: ignore[arg-type]
        self.peers = Peers(self.listener, self.clock, voters.get, client_id="raft", request_timeout_ms=2000)
        files = RealFileSystem()
        self.metadata_log = MetadataLog(files, str(directory))
        self.metadata_log.open(self.clock.now_ms(), self.clock.wall_ms(), is_clean=True)
        self.directory = pathlib.Path(self.metadata_log.directory)
        store = ElectionStore(files, self.metadata_log.directory, voters)
        log = RaftLog(self.metadata_log, self.clock.wall_ms)
        self.raft = self.quorum = Raft(node_id, voters, log, store, self.peers, settings, Random(), self)
        self.raft.start(self.clock.now_ms())
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping:
            now_ms = self.clock.now_ms()
            wanted = [now_ms + 500, self.raft.next_deadline_ms]
            if self.peers.next_deadline_ms is not None:
                wanted.append(self.peers.next_deadline_ms)
            self.listener.poll(max(0, min(wanted) - now_ms), now_ms)
            while self._requests:
                self._requests.pop(0)()
            now_ms = self.clock.now_ms()
            self.peers.tick(now_ms)
            self.raft.tick(now_ms)

    def fetches_many(self, request: Request) -> bool:
        """A fetch of the metadata log has one partition."""
        return False

    def work(self, run: Callable[[], Result]) -> Result:
        """Run something on the node's thread and give what it gives."""
        results: list[Result] = []
        is_done = threading.Event()

        def request() -> None:
            try:
                results.append(run())
            finally:
                is_done.set()

        self._requests.append(request)
        self.listener.wakeup()
        assert is_done.wait(PATIENCE_S)
        return results[0]

    def close(self) -> None:
        """Stop, and close everything."""
        self._is_stopping = True
        self.listener.wakeup()
        self._thread.join()
        self.peers.close()
        self.listener.close()
        self.metadata_log.close()

    # -- as handlers see a node ------------------------------------------------------------------------------------
    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """Everybody may, unless nobody may."""
        if self.denies:
            raise ClusterAuthorizationFailed

    def no_controller_reason(self) -> str:
        """What to say while nobody leads."""
        return "nobody leads it"

    def note_failure(self, error: Exception) -> None:
        """A handler failed."""
        self.failures.append(error)

    # -- what the quorum tells -------------------------------------------------------------------------------------
    def on_commit(self, first: int, end: int) -> None:
        for batch in self.raft.log.committed(first, end):
            self.records += batch.records

    def on_leader_change(self, leader_id: int | None, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))

    def on_snapshot_loaded(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)
        self.records = list(snapshot.records)

    def on_fault(self, error: Exception) -> None:
        self.failures.append(error)
