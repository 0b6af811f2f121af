"""Frames over loopback to a broker in a process of its own, beside a healthy client that must go on undisturbed.

Properties: the broker lives, reports nothing, answers each frame with the API's response or closes the connection; a
frame takes it less than `STALL_MS` of processor time; its memory and descriptors do not grow; the healthy client gets
every answer, and the records that it wrote.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from support.broker_client import BrokerClient, batch
from support.fuzz.answers import Finding, decode_answer
from support.fuzz.courses import Failure, Tally
from support.fuzz.frames import FrameMaker
from support.fuzz.in_process import SETTINGS, STALL_MS, fresh_directory, is_expected
from support.fuzz.messages import Memory
from support.fuzz.mutants import QuickRandom

from kafkatools.core.broker.server.apis import BROKER_APIS
from kafkatools.sandbox.embedded_broker import EmbeddedBroker

PATIENCE_S = 60
LONGEST_WAIT_S = 1.0
ROUND_WAIT_S = 0.05
CONNECTIONS = 32
USUAL_MS = 2
MOST_FAILURES = 20
_SIZE = struct.Struct(">i")
_TICKS = os.sysconf("SC_CLK_TCK")
SOCKET = "socket"


class Process:
    """Memory, processor time and descriptors of the broker's process."""

    def __init__(self, pid: int) -> None:
        self._path = pathlib.Path(f"/proc/{pid}")

    @property
    def processor_ms(self) -> float:
        """The processor time it has used."""
        fields = (self._path / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / _TICKS

    @property
    def rss_bytes(self) -> int:
        """Its resident memory."""
        return int((self._path / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        """The number of open descriptors."""
        return len(os.listdir(self._path / "fd"))


class HealthyClient:
    """Writes and reads records of its own, beside everything else, on one connection that is never closed."""

    def __init__(self, host: str, port: int) -> None:
        self.exchanges = 0
        self.longest_ms = 0.0
        self.failure: str | None = None
        self._client = BrokerClient(host, port)
        self._client.socket.settimeout(PATIENCE_S)
        self._stopping = threading.Event()
        topics = [{"name": "healthy", "num_partitions": 1, "replication_factor": 1, "configs": []}]
        created = self._client.call(19, 7, topics=topics, timeout=1000).topics[0]
        assert int(created.error_code) == 0
        self.own = {"healthy", created.topic_id}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0.02):
                begun = time.monotonic()
                answer = self._client.produce("healthy", batch([b"%d" % self.exchanges]))
                if (int(answer.error_code), answer.base_offset) != (0, self.exchanges):
                    raise Finding(f"the healthy client's record {self.exchanges} was answered {answer}")
                self.longest_ms = max(self.longest_ms, (time.monotonic() - begun) * 1000)
                self.exchanges += 1
        except Exception as error:  # noqa: BLE001 - boundary of a thread: whatever disturbs it is the finding
            self.failure = f"{type(error).__name__}: {error}"

    def stop(self) -> None:
        """Raises Finding when it was disturbed, or when its records are not there."""
        self._stopping.set()
        self._thread.join(PATIENCE_S + 1)
        if self.failure is not None:
            raise Finding(f"the healthy client was disturbed after {self.exchanges} exchanges: {self.failure}")
        topics = [{"name": "healthy", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        answer = self._client.call(2, 1, replica_id=-1, topics=topics)
        self._client.close()
        if answer.topics[0].partitions[0].offset != self.exchanges:
            raise Finding(f"the healthy client wrote {self.exchanges} records, the broker has {answer}")


class SocketTarget:
    """Sends frames on one connection after the other."""

    def __init__(self, address: tuple[str, int], tally: Tally, rng: Random, memory: Memory) -> None:
        self.tally = tally
        self.memory = memory
        self._address = address
        self._rng = rng
        self._socket: socket.socket | None = None
        self._input = b""
        self._waiting: list[bytes] = []

    def begin(self, frames: list[bytes]) -> None:
        """Send frames together."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address, PATIENCE_S)
        self._waiting = list(frames)
        try:
            self._socket.sendall(b"".join(_SIZE.pack(len(frame)) + frame for frame in frames))
        except OSError:
            self.close()
            self._waiting.clear()
            self.tally.closed += 1

    def finish(self, patience_s: float) -> bool:
        """Take the answers, each within `patience_s`: each frame has one, or the connection ends. False when the
        broker lets one wait. Raises Finding."""
        while self._waiting:
            answer = self._receive(patience_s)
            if answer is None:
                self.tally.closed += 1
                self._end()
                return True
            if not answer:
                return False
            while self._waiting and self._waiting[0][4:8] != answer[:4]:
                self._waiting.pop(0)  # acks=0 has no answer
                self.tally.frames += 1
            if not self._waiting:
                raise Finding(f"an answer to nothing that was asked: {answer[:40].hex()}")
            self._judge(self._waiting.pop(0), answer)
        return True

    def give_up(self) -> None:
        """End the connection of a request that the broker lets wait as long as it was asked to."""
        self.tally.delayed += 1
        self._end()

    def _end(self) -> None:
        self.close()
        self._waiting.clear()
        self.tally.frames += 1

    def _judge(self, frame: bytes, answer: bytes) -> None:
        self.tally.frames += 1
        self.tally.answered += 1
        entity = decode_answer(frame, memoryview(answer), BROKER_APIS)
        if self._rng.random() < 0.3:
            self.memory.note_entity(entity, self._rng)

    def _receive(self, patience_s: float) -> bytes | None:
        """A response; None when the connection ended, nothing when none came within `patience_s`."""
        assert self._socket is not None
        self._socket.settimeout(patience_s)
        try:
            while True:
                if len(self._input) >= 4:
                    (size,) = _SIZE.unpack_from(self._input)
                    if len(self._input) >= size + 4:
                        answer, self._input = self._input[4 : size + 4], self._input[size + 4 :]
                        return answer
                some = self._socket.recv(1 << 16)
                if not some:
                    if self._input:
                        raise Finding(f"the connection ended inside an answer: {self._input[:40].hex()}")
                    return None
                self._input += some
        except TimeoutError:
            return b""
        except OSError:
            return None

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket, self._input = None, b""


@contextlib.contextmanager
def running_broker() -> Iterator[tuple[EmbeddedBroker, pathlib.Path]]:
    """A broker in a process, and the file that it reports to."""
    with fresh_directory() as directory:
        broker = EmbeddedBroker(SETTINGS, directory=directory / "data")
        try:
            broker.start()
            assert broker._home is not None
            yield broker, pathlib.Path(broker._home) / "sandbox" / "sandbox.log"
        finally:
            broker.close()


def run_over_sockets(seed: str, seconds: float, *, frames: int | None = None) -> tuple[Tally, dict[str, Any]]:
    """Frames until the time is over or so many were sent; the tally, and figures of the broker's process."""
    rng = QuickRandom(seed)
    maker = FrameMaker(rng, BROKER_APIS, Memory())
    tally = Tally(courses=1)
    figures: dict[str, Any] = {"rss": [], "descriptors": []}
    with running_broker() as (broker, log):
        host, port = broker.bootstrap.split(":")
        address = host, int(port)
        process = Process(broker.pid)
        healthy = HealthyClient(*address)
        maker.memory.hidden |= healthy.own
        rounds = Rounds(lambda: SocketTarget(address, tally, rng, maker.memory), tally, process, seed)
        end = time.monotonic() + seconds
        looked = 0.0
        while (
            time.monotonic() < end and (frames is None or tally.frames < frames) and not tally.failures[MOST_FAILURES:]
        ):
            rounds.send([list(maker.frames()) for _ in range(CONNECTIONS)])
            if not broker.is_running:
                tally.failures.append(Failure(seed, SOCKET, "the broker's process ended", []))
                break
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                figures["rss"].append(process.rss_bytes)
                figures["descriptors"].append(process.descriptors)
        rounds.close()
        _finish(tally, healthy, log, figures)
    return tally, figures


class Rounds:
    """Sends a chunk of frames on every connection at once. A connection whose answer takes longer than a round is set
    aside with its frames, another one takes its place, and its answer is taken by a later round."""

    def __init__(self, connect: Callable[[], SocketTarget], tally: Tally, process: Process, seed: str) -> None:
        self._connect = connect
        self._tally = tally
        self._process = process
        self._seed = seed
        self._targets = [connect() for _ in range(CONNECTIONS)]
        self._aside: list[tuple[float, SocketTarget, list[bytes]]] = []

    def send(self, chunks: list[list[bytes]]) -> None:
        """One chunk for each connection."""
        before_ms = self._process.processor_ms
        for target, chunk in zip(self._targets, chunks, strict=True):
            target.begin(chunk)
        begun = time.monotonic()
        for number, chunk in enumerate(chunks):
            target = self._targets[number]
            if not self._is_finished(target, max(0.001, begun + ROUND_WAIT_S - time.monotonic()), chunk):
                self._aside.append((begun + LONGEST_WAIT_S, target, chunk))
                self._targets[number] = self._connect()
        self._look_aside()
        took_ms = self._process.processor_ms - before_ms
        frames = [frame for chunk in chunks for frame in chunk]
        self._tally.slowest_ms = max(self._tally.slowest_ms, took_ms / len(frames))
        if took_ms > STALL_MS + len(frames) * USUAL_MS:  # which one of them, and is it so again
            for frame in frames:
                self._check_time(frame)

    def _is_finished(self, target: SocketTarget, patience_s: float, chunk: list[bytes]) -> bool:
        try:
            return target.finish(patience_s)
        except Finding as finding:
            self._tally.failures.append(Failure(self._seed, SOCKET, str(finding), chunk))
            target.close()
            return True

    def _look_aside(self) -> None:
        now = time.monotonic()
        waiting = []
        for until, target, chunk in self._aside:
            if self._is_finished(target, 0.001, chunk):
                target.close()
            elif now < until:
                waiting.append((until, target, chunk))
            else:
                target.give_up()
        self._aside = waiting

    def _check_time(self, frame: bytes) -> None:
        target = self._connect()
        before_ms = self._process.processor_ms
        target.begin([frame])
        with contextlib.suppress(Finding):
            target.finish(LONGEST_WAIT_S)
        target.close()
        took_ms = self._process.processor_ms - before_ms
        if took_ms > STALL_MS:
            reason = f"a frame took the broker {took_ms:.0f} ms of processor time"
            self._tally.failures.append(Failure(self._seed, SOCKET, reason, [frame]))

    def close(self) -> None:
        """End every connection."""
        for target in (*self._targets, *(target for _, target, _ in self._aside)):
            target.close()


def _finish(tally: Tally, healthy: HealthyClient, log: pathlib.Path, figures: dict[str, Any]) -> None:
    try:
        healthy.stop()
    except Finding as finding:
        tally.failures.append(Failure("", SOCKET, str(finding), []))
    figures["healthy"] = (healthy.exchanges, round(healthy.longest_ms))
    lines = log.read_text().splitlines()
    told = [line for line in lines if line and " INFO " not in line and not is_expected(line)]
    if told:
        tally.failures.append(Failure("", SOCKET, f"the broker reported: {told[:5]}", []))
