"""Fuzzing guided by coverage, with atheris (libFuzzer): inputs that reach lines which no input reached are kept and
mutated further.

    PYTHONPATH=tests python -m support.fuzz.guided TARGET DIRECTORY [-max_total_time=60 ...]

The rest of the command line is libFuzzer's. DIRECTORY holds the inputs; the first run fills it with some of each kind.
An input that breaks a property ends the run with its exception, and libFuzzer keeps it as a file `crash-...`.

atheris has wheels for Linux on x86-64 alone, so it belongs to no extra: install it with `pip install atheris`.
"""

from __future__ import annotations

import atexit
import contextlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from random import Random

import atheris

with atheris.instrument_imports(include=["kafkatools.core"]):
    from support.fuzz.batches import BatchMaker, legacy
    from support.fuzz.codecs import all_messages, check_counting, recode, recode_records, sealed
    from support.fuzz.frames import FrameMaker
    from support.fuzz.in_process import Target, fresh_directory, running_node
    from support.fuzz.messages import Maker, Memory

    from kafkatools.core.broker.server import dispatch, listener  # noqa: F401 - imported here to be instrumented
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.log.dump.file_dump import FileDump
    from kafkatools.core.log.dump.options import DumpOptions
    from kafkatools.core.log.dump.text_lines import TextLines
    from kafkatools.core.log.producers.snapshot import parse_snapshot

SEEDS = 200
Check = Callable[[bytes], object]


def check_records(data: bytes) -> None:
    """A records field; the first byte says whether its checksum is made to fit."""
    recode_records(sealed(data[1:]) if data[:1] < b"\x80" else data[1:])


def check_message(data: bytes) -> None:
    """A body; the first two bytes choose the message."""
    message = _MESSAGES[int.from_bytes(data[:2]) % len(_MESSAGES)]
    recode(message.entity_type, data[2:])
    check_counting(message, data[2:])


def check_segment(data: bytes) -> None:
    """A segment through dump-log; the first byte chooses options."""
    options = DumpOptions(deep=bool(data[:1] and data[0] & 1), salvage=bool(data[:1] and data[0] & 2))
    path = _directory() / "00000000000000000000.log"
    path.write_bytes(data[1:])
    FileDump(options, TextLines(options, len), lambda finding: None).dump(str(path))


def check_snapshot(data: bytes) -> None:
    """A producer snapshot."""
    with contextlib.suppress(KafkaError):
        parse_snapshot(data)


_MESSAGES = all_messages()
_kept: list[pathlib.Path] = []


def _directory() -> pathlib.Path:
    if not _kept:
        _kept.append(pathlib.Path(_stack.enter_context(fresh_directory())))
    return _kept[0]


_stack = contextlib.ExitStack()
atexit.register(_stack.close)


def frames_checker() -> Check:
    """The check of frames: all into one node, whose state is what they made it."""
    rng = Random(0)
    place, reports = _stack.enter_context(running_node(_directory()))
    target = Target(place, reports, rng, Memory())

    def check(data: bytes) -> None:
        if len(data) >= 8:
            target.send(data)
            target.turn(1)

    return check


def _record_seeds(rng: Random) -> Iterator[bytes]:
    batches = BatchMaker(rng)
    for number in range(SEEDS):
        batches.oddity = 0.05 * (number % 2)
        yield (legacy(rng) if number % 5 == 0 else batches.batch())


def seeds_of(target: str) -> Iterator[bytes]:
    """Inputs to begin with."""
    rng = Random(target)
    if target == "frames":
        with fresh_directory() as directory, running_node(directory) as (place, _):
            maker = FrameMaker(rng, place.apis)
            for _ in range(SEEDS):
                yield from maker.frames()
    elif target == "messages":
        maker = Maker(rng, Memory(), lambda: b"")
        for number, message in enumerate(_MESSAGES):
            make = maker.request_body if message.is_request else maker.response_body
            yield number.to_bytes(2) + make(message.api_key, message.version)
    elif target == "snapshots":
        yield bytes(8)
    else:
        yield from (b"\0" + batch for batch in _record_seeds(rng))


TARGETS: dict[str, Callable[[], Check]] = {
    "records": lambda: check_records,
    "messages": lambda: check_message,
    "segments": lambda: check_segment,
    "snapshots": lambda: check_snapshot,
    "frames": frames_checker,
}


def main() -> None:
    """Fuzz a target; libFuzzer ends the process."""
    target, inputs = sys.argv[1], pathlib.Path(sys.argv[2])
    inputs.mkdir(parents=True, exist_ok=True)
    if not any(inputs.iterdir()):
        for number, seed in enumerate(seeds_of(target)):
            (inputs / f"seed-{number}").write_bytes(seed)
    check = TARGETS[target]()
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(inputs)], lambda data: check(data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
