"""A course: a fresh node and some thousand frames that follow from a seed; what is wrong is kept as a file to replay.

A file of the corpus holds the frames as they go over a socket: size prefix and frame, one after the other. Its name
begins with the kind of place that it is for.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import pathlib
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from support.fuzz.answers import Finding
from support.fuzz.frames import FrameMaker
from support.fuzz.in_process import Place, Target, clustered_node, fresh_directory, running_node
from support.fuzz.messages import Memory
from support.fuzz.mutants import QuickRandom

from kafkatools.core.protocol.messages import decode, encode_fields, request_type, response_type

BROKER, CLUSTER, CONTROLLER = "broker", "cluster", "controller"
KINDS = (BROKER, BROKER, BROKER, CLUSTER, CONTROLLER)
COURSE_FRAMES = 20_000
KEPT_FRAMES = 400
_SIZE = struct.Struct(">i")


@dataclass
class Failure:
    """One thing that was found: where, and the frames that lead to it."""

    course: str
    kind: str
    reason: str
    frames: list[bytes]

    def save(self, directory: pathlib.Path) -> pathlib.Path:
        """Write the frames to a file of the corpus."""
        data = b"".join(_SIZE.pack(len(frame)) + frame for frame in self.frames)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.kind}-{hashlib.sha256(data).hexdigest()[:12]}.frames"
        path.write_bytes(data)
        return path


@dataclass
class Tally:
    """The counts and findings of a run."""

    frames: int = 0
    answered: int = 0
    closed: int = 0
    delayed: int = 0
    courses: int = 0
    slowest_ms: float = 0.0
    by_api: Counter[int] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, target: Target) -> None:
        """Count what a target has seen."""
        self.answered += target.answered
        self.closed += target.closed
        self.delayed += target.delayed
        self.courses += 1
        self.slowest_ms = max(self.slowest_ms, target.slowest_ms)

    def __str__(self) -> str:
        return (
            f"{self.frames} frames in {self.courses} courses: {self.answered} answered, {self.closed} closed the "
            f"connection, {self.delayed} waited; slowest {self.slowest_ms:.0f} ms; {len(self.failures)} findings"
        )


@contextlib.contextmanager
def place_of(kind: str) -> Iterator[tuple[Place, list[str]]]:
    """A fresh node for a course."""
    with fresh_directory() as directory:
        opened = (
            running_node(directory)
            if kind == BROKER
            else clustered_node(directory, "PLAINTEXT" if kind == CLUSTER else "CONTROLLER")
        )
        with opened as found:
            yield found


def load_all(kind: str) -> None:
    """Make every message class that a place uses, so that no frame is charged with it."""
    with place_of(kind) as (place, _):
        for api in place.apis.values():
            for version in range(api.lowest, api.highest + 1):
                for entity_type in (request_type(api.key, version), response_type(api.key, version)):
                    body = encode_fields(entity_type, {})
                    decode(entity_type, body)


def run_course(name: str, kind: str, tally: Tally, frame_count: int, is_over: Callable[[], bool]) -> None:
    """One course. What is found is added to the tally; the course goes on with a new connection."""
    rng = QuickRandom(name)
    with place_of(kind) as (place, reports):
        memory = Memory()
        target = Target(place, reports, rng, memory)
        maker = FrameMaker(rng, place.apis, memory)
        history: deque[bytes] = deque(maxlen=KEPT_FRAMES)
        sent = 0
        while sent < frame_count and not is_over():
            for frame in maker.frames():
                sent += 1
                history.append(frame)
                tally.by_api[frame[1]] += 1
                with _kept(tally, name, kind, history, target):
                    target.send(frame)
            if sent % 8 == 0:
                with _kept(tally, name, kind, history, target):
                    target.turn(rng.choice((0, 1, 10, 1000)))
        tally.frames += sent
        tally.add(target)


@contextlib.contextmanager
def _kept(tally: Tally, name: str, kind: str, history: deque[bytes], target: Target) -> Iterator[None]:
    try:
        yield
    except Finding as finding:
        tally.failures.append(Failure(name, kind, str(finding), list(history)))
        target.socket.output.clear()
        target.connection.close()


def run_courses(
    seed: str, seconds: float, tally: Tally, *, frames: int | None = None, kinds: Sequence[str] = KINDS
) -> None:
    """Courses one after the other until the time is over or so many frames were sent."""
    for kind in dict.fromkeys(kinds):
        load_all(kind)
    gc.collect()
    gc.freeze()  # collections in the course need not walk over what was imported
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end and (frames is None or tally.frames < frames):
        run_course(
            f"{seed}-{number}", kinds[number % len(kinds)], tally, COURSE_FRAMES, lambda: time.monotonic() >= end
        )
        number += 1


def replay(kind: str, frames: Sequence[bytes]) -> str | None:
    """Send frames to a fresh node; gives what is wrong, None when nothing is."""
    with place_of(kind) as (place, reports):
        target = Target(place, reports, Random(0), Memory())
        try:
            for frame in frames:
                target.send(frame)
                target.turn(1)
            target.turn(60_000)
        except Finding as finding:
            return str(finding)
    return None


def shortened(failure: Failure) -> Failure:
    """Reduce a failure to fewer frames that cause it too, if possible."""
    if replay(failure.kind, failure.frames[-1:]) is not None:
        return Failure(failure.course, failure.kind, failure.reason, failure.frames[-1:])
    frames = failure.frames
    if replay(failure.kind, frames) is None:
        return failure
    size = len(frames) // 2
    while size:
        start = 0
        while start < len(frames) - 1:
            fewer = frames[:start] + frames[start + size :]
            if fewer and replay(failure.kind, fewer) is not None:
                frames = fewer
            else:
                start += size
        size //= 2
    return Failure(failure.course, failure.kind, failure.reason, frames)


def read_frames(path: pathlib.Path) -> list[bytes]:
    """The frames of a file of the corpus."""
    data, frames, position = path.read_bytes(), [], 0
    while position < len(data):
        (size,) = _SIZE.unpack_from(data, position)
        frames.append(data[position + 4 : position + 4 + size])
        position += 4 + size
    return frames
