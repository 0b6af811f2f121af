"""Responses that are almost right into our clients: a proxy between them and a broker changes what the broker answers.

A session is one client's short life. It ends with results or with a KafkaError, within its time-outs and a margin, with
no exception in a thread of its own; what it could not decode costs no more processor time than `SLOW_MS`.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from support.broker_client import BrokerClient, batch
from support.fuzz.answers import Finding
from support.fuzz.frames import mutated
from support.fuzz.in_process import fresh_directory
from support.fuzz.messages import Maker, Memory
from support.fuzz.rearranged import rearranged
from support.ports import free_port

import kafkatools
from kafkatools.core.errors import KafkaError, PartialFailure
from kafkatools.core.protocol.frames import decode_response_header, encode_response_header
from kafkatools.core.protocol.messages import decode, encode, response_type

TIMEOUT_MS = 800
SLOW_MS = 4_000
LONGEST_S = 120.0
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_QUICK: dict[str, object] = {
    "request.timeout.ms": 400,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 20,
}


class ChangingProxy:
    """Passes frames on to a broker, and its answers back, some of them changed."""

    def __init__(self, host: str, port: int, rng: Random) -> None:
        self.changed = self.passed = 0
        self.oddity = 0.3
        self._broker = (host, port)
        self._rng = rng
        self._maker = Maker(rng, Memory(), lambda: rng.randbytes(80))
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._server.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        """The address that clients connect to and that the broker advertises."""
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """One connection: a request, then its answer, changed or not."""
        with contextlib.suppress(OSError, EOFError), client, socket.create_connection(self._broker, 10) as broker:
            self._sockets |= {client, broker}
            while True:
                request = _read_frame(client)
                broker.sendall(_SIZE.pack(len(request)) + request)
                client.sendall(self._answer(request, _read_frame(broker)))

    def _answer(self, request: bytes, answer: bytes) -> bytes:
        rng = self._rng
        if rng.random() >= self.oddity or (request[:2] == b"\0\x12" and rng.random() < 0.7):
            self.passed += 1
            return _SIZE.pack(len(answer)) + answer
        self.changed += 1
        kind = rng.random()
        api_key, version, correlation_id = _HEAD.unpack_from(request)
        if kind < 0.3:
            _, start = decode_response_header(api_key, version, memoryview(answer))
            entity, _ = decode(response_type(api_key, version), answer, start)
            body = encode(rearranged(rng, entity, rng.choice((0.2, 0.6))))
            return _SIZE.pack(start + len(body)) + answer[:start] + body
        if kind < 0.5:
            self._maker.oddity = rng.choice((0.0, 0.05, 0.3))
            with contextlib.suppress(KafkaError):
                body = self._maker.response_body(api_key, version)
                answer = encode_response_header(api_key, version, correlation_id) + body
        elif kind < 0.9:
            answer = answer[:4] + mutated(rng, bytes(8) + answer[4:], answer)[8:]
        else:
            answer = rng.randbytes(4) + answer[4:]
        size = len(answer) if rng.random() < 0.97 else rng.choice((-1, 0, 2**31 - 1, 352_518_912, len(answer) + 10))
        return _SIZE.pack(size) + answer

    def close(self) -> None:
        """End everything."""
        self._server.close()
        for each in tuple(self._sockets):  # threads still add theirs
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _read_frame(sock: socket.socket) -> bytes:
    (size,) = _SIZE.unpack(_read(sock, 4))
    return _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        some = sock.recv(size - len(data))
        if not some:
            raise EOFError
        data += some
    return data


def produce(bootstrap: str) -> None:
    """Some records."""
    settings = {**_QUICK, "delivery.timeout.ms": TIMEOUT_MS, "max.block.ms": TIMEOUT_MS, "linger.ms": 0}
    with kafkatools.Producer(settings, bootstrap_servers=bootstrap) as producer:
        futures = [producer.send("fuzzed", b"%d" % number, key=b"k") for number in range(10)]
        for future in futures:
            with contextlib.suppress(KafkaError):
                future.result()


def produce_in_a_transaction(bootstrap: str) -> None:
    """A transaction."""
    settings = {**_QUICK, "delivery.timeout.ms": TIMEOUT_MS, "max.block.ms": TIMEOUT_MS, "transactional.id": "fuzz"}
    with kafkatools.Producer(settings, bootstrap_servers=bootstrap) as producer:
        producer.init_transactions(TIMEOUT_MS)
        with producer.transaction():
            producer.send("fuzzed", b"in a transaction")


def consume(bootstrap: str) -> None:
    """An assigned partition."""
    settings = {**_QUICK, "default.api.timeout.ms": TIMEOUT_MS, "fetch.max.wait.ms": 20}
    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.assign([("fuzzed", 0)])
        consumer.seek_to_beginning()
        for _ in range(5):
            consumer.poll(50)
        consumer.end_offsets([("fuzzed", 0)])


def consume_in_a_group(bootstrap: str) -> None:
    """A member of a group, of both protocols in turn."""
    protocol = "classic" if time.monotonic_ns() % 2 else "consumer"
    settings = {**_QUICK, "default.api.timeout.ms": TIMEOUT_MS, "group.id": f"g-{protocol}", "group.protocol": protocol}
    with kafkatools.Consumer({**settings, "fetch.max.wait.ms": 20}, bootstrap_servers=bootstrap) as consumer:
        consumer.subscribe(["fuzzed"])
        for _ in range(8):
            consumer.poll(50)
        consumer.commit_sync(timeout_ms=TIMEOUT_MS)


def administer(bootstrap: str) -> None:
    """Questions of an admin client."""
    settings = {**_QUICK, "default.api.timeout.ms": TIMEOUT_MS}
    with kafkatools.Admin(settings, bootstrap_servers=bootstrap) as admin:
        questions: tuple[Callable[[], Any], ...] = (
            admin.list_topics,
            lambda: admin.describe_topics("fuzzed"),
            lambda: admin.describe_configs([("topic", "fuzzed")]),
            lambda: admin.list_offsets([("fuzzed", 0)]),
            admin.list_groups,
            lambda: admin.describe_groups(["g-classic", "g-consumer"]),
            lambda: admin.group_offsets("g-classic"),
            admin.list_transactions,
            lambda: admin.describe_producers([("fuzzed", 0)]),
            admin.describe_acls,
            admin.describe_cluster,
        )
        for question in questions:
            with contextlib.suppress(KafkaError, PartialFailure):
                question()


SESSIONS: tuple[Callable[[str], None], ...] = (
    produce,
    produce_in_a_transaction,
    consume,
    consume_in_a_group,
    administer,
)


def fuzz_clients(seed: str, seconds: float) -> tuple[ChangingProxy, Counter[str], list[str]]:
    """Sessions one after the other until the time is over: what was changed, how they ended, and what was found."""
    rng = Random(seed)
    port = free_port()
    proxy = ChangingProxy("127.0.0.1", port, rng)
    settings = {
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}",
    }
    outcomes: Counter[str] = Counter()
    found: list[str] = []
    with fresh_directory() as directory:
        broker = kafkatools.EmbeddedBroker(settings, port=port, directory=directory / "data")
        broker.start()
        try:
            with BrokerClient("127.0.0.1", port) as client:
                topics = [{"name": "fuzzed", "num_partitions": 1, "replication_factor": 1, "configs": []}]
                client.call(19, 7, topics=topics, timeout=1000)
                client.produce("fuzzed", batch([b"first", b"second"]))
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                for session in SESSIONS:
                    proxy.oddity = rng.choice((0.05, 0.3, 0.8))
                    try:
                        run_session(session, proxy, outcomes)
                    except Finding as finding:
                        found.append(str(finding))
        finally:
            proxy.close()
            broker.close()
    return proxy, outcomes, found


def run_session(session: Callable[[str], None], proxy: ChangingProxy, outcomes: Counter[str]) -> None:
    """One client's life. Raises Finding."""
    failures: list[str] = []
    before = threading.excepthook
    threading.excepthook = lambda args: failures.append(f"{args.exc_type.__name__}: {args.exc_value}")
    begun, used = time.monotonic(), time.process_time()
    try:
        session(proxy.bootstrap)
        outcomes["results"] += 1
    except (KafkaError, PartialFailure) as error:
        outcomes[type(error).__name__] += 1
    except Exception as error:
        raise Finding(f"{session.__name__} raised {type(error).__name__}: {error}") from error
    finally:
        threading.excepthook = before
    took_s, used_ms = time.monotonic() - begun, (time.process_time() - used) * 1000
    if failures:
        raise Finding(f"a thread of {session.__name__} ended: {failures}")
    if took_s > LONGEST_S or used_ms > SLOW_MS:
        raise Finding(f"{session.__name__} took {took_s:.0f} s and {used_ms:.0f} ms of processor time")
