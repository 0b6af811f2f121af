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
from collections.abc import Iterator
from random import Random
from typing import Any

from support.broker_client import BrokerClient, batch
from support.fuzz.answers import Finding, decode_answer
from support.fuzz.courses import Failure, Tally
from support.fuzz.frames import FrameMaker
from support.fuzz.in_process import REFUSED, SETTINGS, STALL_MS, fresh_directory
from support.fuzz.messages import Memory

from kafkatools.core.broker.server.dispatch import APIS
from kafkatools.sandbox.embedded_broker import EmbeddedBroker

PATIENCE_S = 60
LONGEST_WAIT_S = 1.0
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

    def finish(self, patience_s: float) -> None:
        """Take the answers: each frame has one, or the connection ends, or the broker waits as long as it was asked
        to. Raises Finding."""
        while self._waiting:
            answer = self._receive(patience_s)
            if not answer:
                self.close()
                self._waiting.clear()
                self.tally.closed += answer is None
                self.tally.delayed += answer is not None
                self.tally.frames += 1
                return
            while self._waiting and self._waiting[0][4:8] != answer[:4]:
                self._waiting.pop(0)  # acks=0 has no answer
                self.tally.frames += 1
            if not self._waiting:
                raise Finding(f"an answer to nothing that was asked: {answer[:40].hex()}")
            self._judge(self._waiting.pop(0), answer)

    def _judge(self, frame: bytes, answer: bytes) -> None:
        self.tally.frames += 1
        self.tally.answered += 1
        entity = decode_answer(frame, memoryview(answer), APIS)
        if self._rng.random() < 0.3:
            self.memory.note_entity(entity, self._rng)

    def _receive(self, patience_s: float) -> bytes | None:
        """A response; None when the connection ended, nothing when the broker takes its time as it was asked to."""
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
    rng = Random(seed)
    maker = FrameMaker(rng, APIS, Memory())
    tally = Tally(courses=1)
    figures: dict[str, Any] = {"rss": [], "descriptors": []}
    with running_broker() as (broker, log):
        host, port = broker.bootstrap.split(":")
        address = host, int(port)
        process = Process(broker.pid)
        healthy = HealthyClient(*address)
        maker.memory.hidden |= healthy.own
        targets = [SocketTarget(address, tally, rng, maker.memory) for _ in range(CONNECTIONS)]
        end = time.monotonic() + seconds
        looked = 0.0
        while (
            time.monotonic() < end and (frames is None or tally.frames < frames) and not tally.failures[MOST_FAILURES:]
        ):
            _send_round(targets, process, [list(maker.frames()) for _ in targets], seed)
            if not broker.is_running:
                tally.failures.append(Failure(seed, SOCKET, "the broker's process ended", []))
                break
            if time.monotonic() - looked > 1:
                looked = time.monotonic()
                figures["rss"].append(process.rss_bytes)
                figures["descriptors"].append(process.descriptors)
        for target in targets:
            target.close()
        _finish(tally, healthy, log, figures)
    return tally, figures


def _send_round(targets: list[SocketTarget], process: Process, chunks: list[list[bytes]], seed: str) -> None:
    """One chunk of frames on every connection at once."""
    tally = targets[0].tally
    before_ms = process.processor_ms
    for target, chunk in zip(targets, chunks, strict=True):
        target.begin(chunk)
    deadline = time.monotonic() + LONGEST_WAIT_S
    for target, chunk in zip(targets, chunks, strict=True):
        try:
            target.finish(max(0.001, deadline - time.monotonic()))
        except Finding as finding:
            tally.failures.append(Failure(seed, SOCKET, str(finding), chunk))
            target.close()
    took_ms = process.processor_ms - before_ms
    frames = [frame for chunk in chunks for frame in chunk]
    tally.slowest_ms = max(tally.slowest_ms, took_ms / len(frames))
    if took_ms > STALL_MS + len(frames) * USUAL_MS:  # which one of them, and is it so again
        for frame in frames:
            _check_time(targets[0], process, frame, seed)


def _check_time(target: SocketTarget, process: Process, frame: bytes, seed: str) -> None:
    before_ms = process.processor_ms
    target.close()
    with contextlib.suppress(Finding):
        target.begin([frame])
        target.finish(LONGEST_WAIT_S)
    took_ms = process.processor_ms - before_ms
    if took_ms > STALL_MS:
        reason = f"a frame took the broker {took_ms:.0f} ms of processor time"
        target.tally.failures.append(Failure(seed, SOCKET, reason, [frame]))


def _finish(tally: Tally, healthy: HealthyClient, log: pathlib.Path, figures: dict[str, Any]) -> None:
    try:
        healthy.stop()
    except Finding as finding:
        tally.failures.append(Failure("", SOCKET, str(finding), []))
    figures["healthy"] = (healthy.exchanges, round(healthy.longest_ms))
    lines = log.read_text().splitlines()
    told = [line for line in lines if line and " INFO " not in line and REFUSED not in line]
    if told:
        tally.failures.append(Failure("", SOCKET, f"the broker reported: {told[:5]}", []))
