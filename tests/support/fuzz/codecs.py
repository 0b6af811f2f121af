"""Messages through the codecs alone, without a node: every request and response in every version, and record batches.

A frame here is one body of a request or response, or one records field: mutated, decoded and, if it is one, encoded
again. Properties: nothing but the documented error is raised; what was decoded can be encoded; the encoding is either
the same bytes or decodes to what encodes to itself. Of some frames the elements
are counted too: what can be read can be counted.
"""

from __future__ import annotations

import hashlib
import pathlib
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import crc32c
from support.fuzz.answers import Finding
from support.fuzz.batches import BatchMaker, legacy
from support.fuzz.messages import Maker, Memory
from support.fuzz.mutants import QuickRandom, mutants

from kafkatools.core.errors import DecodeError, KafkaError
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.codec import NO_LIMIT
from kafkatools.core.protocol.messages import count_elements, decode, encode, request_type, response_type
from kafkatools.core.records.batch import AnyBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType

MUTANTS = 64
SEEDS = 4
COMPARED = 16
RECORDS_SHARE = 0.15
SLOW_MS = 500
MOST_FINDINGS = 20
HEADER_BYTES = 61


class Message(NamedTuple):
    """A request or response of one version."""

    api_key: int
    version: int
    is_request: bool

    @property
    def entity_type(self) -> Any:
        """Its class."""
        return (request_type if self.is_request else response_type)(self.api_key, self.version)

    @property
    def name(self) -> str:
        """The beginning of the name of a kept frame."""
        return f"{self.api_key}-{self.version}-{'request' if self.is_request else 'response'}"


class Found(NamedTuple):
    """What a frame broke; `name` says which codec it is for."""

    name: str
    reason: str
    data: bytes

    def save(self, directory: pathlib.Path) -> pathlib.Path:
        """Write the frame to a file of the corpus."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}-{hashlib.sha256(self.data).hexdigest()[:12]}.frame"
        path.write_bytes(self.data)
        return path


@dataclass
class CodecTally:
    """The counts and findings of a run: `decoded` frames were taken, the others refused."""

    frames: int = 0
    decoded: int = 0
    compared: int = 0
    batches: int = 0
    types: set[Message] = field(default_factory=set)
    findings: list[Found] = field(default_factory=list)
    slowest_ms: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.frames} frames ({self.batches} of record batches, the others of {len(self.types)} messages): "
            f"{self.decoded} decoded and encoded again, {self.compared} counted too; "
            f"slowest {self.slowest_ms:.0f} ms; {len(self.findings)} findings"
        )


def all_messages() -> list[Message]:
    """Every request and response of every version."""
    return [
        Message(int(api), version, is_request)
        for api in ApiKey
        for version in versions_of(api)
        for is_request in (True, False)
    ]


def recode(entity_type: Any, data: bytes) -> bool:
    """Decode a body and encode it again; False when it is refused. Raises Finding."""
    try:
        entity, size = decode(entity_type, data)
    except DecodeError:
        return False
    again = encode(entity)
    if again == data or again == data[:size]:
        return True
    reread, used = decode(entity_type, again)
    if used != len(again) or encode(reread) != again:
        raise Finding(f"it decodes to what does not decode to itself: {entity}")
    return True


def check_counting(message: Message, data: bytes) -> None:
    """Count the elements. Raises Finding."""
    entity_type = message.entity_type
    try:
        expected = encode(decode(entity_type, data)[0])
    except DecodeError:
        expected = None
    try:
        count_elements(entity_type, data, 0, NO_LIMIT)
    except DecodeError as error:
        if expected is not None:
            raise Finding(f"the elements of what can be read cannot be counted: {error}") from error


def recode_records(data: bytes) -> bool:
    """Read a records field, write each batch anew and read it again; False when it is refused. Raises Finding."""
    try:
        batches = list(read_batches(data))
        rows = [list(batch.records()) for batch in batches]
    except KafkaError:
        return False
    for batch, expected in zip(batches, rows, strict=True):
        try:
            written = _written(batch, expected)
        except (KafkaError, ValueError, OverflowError):  # a codec that does not exist, offsets that do not rise
            continue
        found = [row for each in read_batches(written) for row in each.records()]
        if batch.magic == 0:  # which has no type of timestamps
            expected = [row._replace(timestamp_type=TimestampType.CREATE_TIME) for row in expected]
        if found != expected:
            raise Finding(f"records changed when they were written: {expected!r:.300} became {found!r:.300}")
    return bool(batches)


def _written(batch: AnyBatch, rows: Sequence[Record]) -> bytes:
    """The rows as a batch of magic 2 with another codec."""
    kind = batch.timestamp_type
    builder = BatchBuilder(
        batch.size_bytes,
        int(batch.compression_type) ^ 1,
        timestamp_type=TimestampType.CREATE_TIME if kind is TimestampType.NO_TIMESTAMP_TYPE else kind,
        log_append_time=batch.max_timestamp,
        base_offset=batch.base_offset,
        delete_horizon_ms=batch.delete_horizon_ms,
    )
    for row in rows:
        builder.append_with_offset(row.offset, row.timestamp, row.key, row.value, row.headers)
    return bytes(builder.close())


def sealed(data: bytes) -> bytes:
    """A batch with a length and a checksum that fit, so that readers look inside."""
    if len(data) <= HEADER_BYTES:
        return data
    out = bytearray(data)
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[16] = 2
    struct.pack_into(">I", out, 17, crc32c.crc32c(bytes(out[21:])))
    return bytes(out)


class CodecCourse:
    """Frames for the codecs, one message after the other in random order."""

    def __init__(self, seed: str, tally: CodecTally) -> None:
        self.rng = QuickRandom(seed)
        self.tally = tally
        self.batches = BatchMaker(self.rng)
        self.maker = Maker(self.rng, Memory(), self.batches.records)
        self._messages: list[Message] = []
        self._last = b"\0"

    def turn(self) -> None:
        """The frames of one message, or of record batches."""
        if self.rng.random() < RECORDS_SHARE:
            self._check_records()
            return
        if not self._messages:
            self._messages = all_messages()
            self.rng.shuffle(self._messages)
        self._check_message(self._messages.pop())

    def _check_message(self, message: Message) -> None:
        entity_type = message.entity_type
        self.tally.types.add(message)
        for number in range(SEEDS):
            self.maker.oddity = 0.02 * number
            make = self.maker.request_body if message.is_request else self.maker.response_body
            seed = make(message.api_key, message.version)
            self._all(message.name, seed, lambda data: recode(entity_type, data))
            for data in mutants(self.rng, seed, self._last, MUTANTS // COMPARED):
                self._one(message.name, data, lambda data: check_counting(message, data) is None)
                self.tally.compared += 1
            self._last = seed

    def _check_records(self) -> None:
        rng = self.rng
        for _ in range(SEEDS):
            self.batches.oddity = rng.choice((0.0, 0.05))
            seed = legacy(rng) if rng.random() < 0.2 else self.batches.batch()
            before = self.tally.frames
            self._all("records", seed, recode_records)
            if seed[16] == 2:
                self._all("records", seed, lambda data: recode_records(sealed(data)))
            self.tally.batches += self.tally.frames - before
            self._last = seed

    def _all(self, name: str, seed: bytes, check: Callable[[bytes], bool]) -> None:
        begun = time.perf_counter()
        tally = self.tally
        for data in mutants(self.rng, seed, self._last, MUTANTS):
            tally.frames += 1
            try:
                tally.decoded += check(data)
            except Exception as error:  # noqa: BLE001 - boundary: whatever a codec raises is the finding
                self._found(name, data, error)
        took_ms = (time.perf_counter() - begun) * 1000
        tally.slowest_ms = max(tally.slowest_ms, took_ms / MUTANTS)
        if took_ms > SLOW_MS:
            self._look_for_slow(name, seed, check)

    def _one(self, name: str, data: bytes, check: Callable[[bytes], bool]) -> None:
        self.tally.frames += 1
        try:
            check(data)
        except Exception as error:  # noqa: BLE001 - boundary: whatever a codec raises is the finding
            self._found(name, data, error)

    def _look_for_slow(self, name: str, seed: bytes, check: Callable[[bytes], bool]) -> None:
        """Whether other mutations of the seed are slow by themselves, in processor time."""
        for data in mutants(self.rng, seed, self._last, MUTANTS):
            begun = time.process_time()
            try:
                check(data)
            except Exception as error:  # noqa: BLE001 - boundary: whatever a codec raises is the finding
                self._found(name, data, error)
            took_ms = (time.process_time() - begun) * 1000
            if took_ms > SLOW_MS / 5:
                self._found(name, data, Finding(f"it took {took_ms:.0f} ms"))

    def _found(self, name: str, data: bytes, error: Exception) -> None:
        self.tally.findings.append(Found(name, f"{type(error).__name__}: {error}", data))


def run_codecs(seed: str, seconds: float, *, frames: int | None = None) -> CodecTally:
    """Frames until the time is over or so many were handled."""
    tally = CodecTally()
    course = CodecCourse(seed, tally)
    for _ in _while_time(seconds):
        course.turn()
        if (frames is not None and tally.frames >= frames) or len(tally.findings) > MOST_FINDINGS:
            break
    return tally


def _while_time(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def check_kept(name: str, data: bytes) -> None:
    """Check the frame of a file of the corpus again. Raises what the check raises."""
    if name.startswith("records"):
        recode_records(data)
        recode_records(sealed(data))
        return
    api_key, version, kind = name.split("-")[:3]
    message = Message(int(api_key), int(version), kind == "request")
    recode(message.entity_type, data)
    check_counting(message, data)
