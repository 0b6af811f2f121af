"""Consumer groups of the embedded broker: 50 classic members from their first join to stable, and the offsets and
descriptions of 1,000 groups with 100 partitions each, asked for in one request and by the
command that shows them.

Members are connections of this process that do what the Java client does: a heartbeat every three seconds, join again
when told to.
"""

from __future__ import annotations

import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from typing import Any

from benchmarks import measure, peers
from kafkatools import Producer
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_response_header, encode_request
from kafkatools.core.protocol.messages import build, decode, request_type, response_type

MEMBERS, GROUPS, PARTITIONS = 50, 1000, 100
HEARTBEAT_S = 3.0
ROUNDS = 3
REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED = 27, 79


def main() -> None:
    """Prints seconds."""
    for delay_ms in ("0", "3000"):
        with (
            peers.scratch() as directory,
            peers.embedded_broker(directory, **{"group.initial.rebalance.delay.ms": delay_ms}) as bootstrap,
        ):
            peers.create_topic(bootstrap, "words")
            seconds = [join_all(bootstrap, f"group-{index}") for index in range(ROUNDS)]
        name = f"{MEMBERS} classic members to stable, group.initial.rebalance.delay.ms={delay_ms}"
        _figure(name, seconds, target=3.0)
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        peers.create_topic(bootstrap, "words", partitions=PARTITIONS)
        produce_all(bootstrap)
        commit_all(bootstrap)
        for name, ask in (("OffsetFetch", _fetch), ("ListGroups", _list), ("DescribeGroups", _describe)):
            _figure(f"{name} of {GROUPS} groups", [ask(bootstrap) for _ in range(ROUNDS)], target=2.0)
        _figure(
            f"kt consumer-groups --describe of {GROUPS} groups", [_kt(bootstrap) for _ in range(ROUNDS)], target=2.0
        )
        _figure(f"kt why of {GROUPS} groups", [_why(bootstrap) for _ in range(ROUNDS)], target=2.0)


def _figure(name: str, seconds: list[float], target: float) -> None:
    median = statistics.median(seconds)
    measure.report(name, seconds=round(median, 3), target=target, reached=median < target)


def _why(bootstrap: str) -> float:
    """The whole command for the whole cluster. No group has lag, so nothing is found."""
    command = [sys.executable, "-m", "kafkatools", "why", "--bootstrap-server", bootstrap]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=True)
    elapsed = time.monotonic() - start
    assert done.stdout == b"Nothing is stuck: the cluster.\n", done.stdout[:300]
    return elapsed


# -- joining -------------------------------------------------------------------------------------------------------
class Member:
    """One member's connection and what it waits for."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 30)
        self.group_id = group_id
        self.member_id, self.generation_id = "", -1
        self.is_stable = False
        self.heard_s = 0.0
        self._asked: ApiKey | None = None
        self._buffer = b""

    def join(self) -> None:
        """Ask to be a member, or one of the next generation."""
        self.is_stable = False
        protocols = [{"name": "range", "metadata": b"\0\1\0\0\0\1\0\5words\xff\xff\xff\xff\0\0\0\0"}]
        request = {"group_id": self.group_id, "session_timeout": 45_000, "rebalance_timeout": 300_000}
        request |= {"member_id": self.member_id, "protocol_type": "consumer", "protocols": protocols}
        self._ask(ApiKey.JOIN_GROUP, 9, request)

    def beat(self) -> None:
        """Tell that the member lives."""
        self._ask(ApiKey.HEARTBEAT, 4, {**self._place(), "group_instance_id": None})

    def _place(self) -> dict[str, Any]:
        return {"group_id": self.group_id, "generation_id": self.generation_id, "member_id": self.member_id}

    def _ask(self, api: ApiKey, version: int, request: dict[str, Any]) -> None:
        self._asked = api
        entity = build(request_type(api, version), request)
        self.socket.sendall(b"".join(bytes(part) for part in encode_request(api, version, 1, "bench", entity)))

    @property
    def is_idle(self) -> bool:
        return self._asked is None

    def receive(self) -> None:
        """Read what came, and do what it asks for."""
        self._buffer += self.socket.recv(1 << 16)
        if len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack_from(">i", self._buffer)[0]:
            return
        api, self._asked = self._asked, None
        assert api is not None
        version = {ApiKey.JOIN_GROUP: 9, ApiKey.SYNC_GROUP: 5, ApiKey.HEARTBEAT: 4}[api]
        frame, self._buffer = self._buffer[4:], b""
        answer = decode(response_type(api, version), frame, decode_response_header(api, version, frame)[1])[0]
        self.heard_s = time.monotonic()
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
        elif answer.error_code == REBALANCE_IN_PROGRESS:
            self.join()
        elif api is ApiKey.JOIN_GROUP:
            self._sync(answer)
        elif api is ApiKey.SYNC_GROUP:
            self.is_stable = True

    def _sync(self, joined: Any) -> None:
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        request = {**self._place(), "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "range"}
        request["assignments"] = [{"member_id": each.member_id, "assignment": b"\0"} for each in joined.members]
        self._ask(ApiKey.SYNC_GROUP, 5, request)


def join_all(bootstrap: str, group_id: str) -> float:
    """Seconds from the first join until every member has an assignment of one generation."""
    members = [Member(bootstrap, group_id) for _ in range(MEMBERS)]
    by_socket = {member.socket: member for member in members}
    start = time.monotonic()
    for member in members:
        member.join()
    while not all(member.is_stable for member in members) or len({member.generation_id for member in members}) > 1:
        for found in select.select(list(by_socket), [], [], 0.01)[0]:
            by_socket[found].receive()
        now_s = time.monotonic()
        for member in members:
            if member.is_idle and now_s - member.heard_s > HEARTBEAT_S:
                member.beat()
    elapsed = time.monotonic() - start
    for member in members:
        member.socket.close()
    return elapsed


# -- offsets -------------------------------------------------------------------------------------------------------
class Client:
    """One request after the other."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 60)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, api: ApiKey, version: int, request: dict[str, Any]) -> bytes:
        """The frame of the answer."""
        entity = build(request_type(api, version), request)
        self._socket.sendall(b"".join(bytes(part) for part in encode_request(api, version, 1, "bench", entity)))
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return bytes(data)


def _names() -> list[str]:
    return [f"group-{index}" for index in range(GROUPS)]


def produce_all(bootstrap: str) -> None:
    """Five records in each partition: the offsets that `commit_all` commits are the ends of the logs."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(5 * PARTITIONS):
            producer.send("words", b"word", partition=number % PARTITIONS)


def commit_all(bootstrap: str) -> None:
    partitions = [
        {"partition_index": index, "committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": ""}
        for index in range(PARTITIONS)
    ]
    with Client(bootstrap) as client:
        for group_id in _names():
            request = {"group_id": group_id, "generation_id_or_member_epoch": -1, "member_id": ""}
            client.call(ApiKey.OFFSET_COMMIT, 9, {**request, "topics": [{"name": "words", "partitions": partitions}]})


def _timed(bootstrap: str, api: ApiKey, version: int, request: dict[str, Any], least_bytes: int) -> float:
    with Client(bootstrap) as client:
        start = time.monotonic()
        answer = client.call(api, version, request)
        elapsed = time.monotonic() - start
    assert len(answer) > least_bytes, len(answer)
    return elapsed


def _fetch(bootstrap: str) -> float:
    groups = [{"group_id": name, "topics": None} for name in _names()]
    request = {"groups": groups, "require_stable": False}
    return _timed(bootstrap, ApiKey.OFFSET_FETCH, 9, request, GROUPS * PARTITIONS * 16)


def _list(bootstrap: str) -> float:
    return _timed(bootstrap, ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []}, GROUPS * 10)


def _describe(bootstrap: str) -> float:
    request = {"groups": _names(), "include_authorized_operations": False}
    return _timed(bootstrap, ApiKey.DESCRIBE_GROUPS, 6, request, GROUPS * 10)


def _kt(bootstrap: str) -> float:
    """The whole command, from its start to its last line."""
    command = [sys.executable, "-m", "kafkatools", "consumer-groups", "--bootstrap-server", bootstrap]
    start = time.monotonic()
    done = subprocess.run([*command, "--describe", "--all-groups"], capture_output=True, check=True)
    elapsed = time.monotonic() - start
    assert done.stdout.count(b"\n") == GROUPS * (PARTITIONS + 2), done.stderr[:300]
    return elapsed


if __name__ == "__main__":
    main()
