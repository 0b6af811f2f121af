"""What was recorded for the tests of core/records, and the kernels' sources as plain Python."""

from __future__ import annotations

import base64
import functools
import importlib.machinery
import json
import lzma
import pathlib
import sys
import types
from typing import Any

from support import recorded_segments

from kafkatools.core.records import kernel

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "records"


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@functools.cache
def _json(name: str) -> Any:
    return json.loads(lzma.decompress((GOLDEN / name).read_bytes()))


def recorded_names() -> list[str]:
    """Every recorded log whose true records are known."""
    return sorted(_json("true-records.json.xz"))


def java_batch_names() -> list[str]:
    return sorted(_json("java-batches.json.xz"))


def true_records(name: str) -> list[tuple[Any, ...]]:
    """Offset, timestamp (-1 for none), key, value, headers of each data record of a log."""
    return [
        (
            offset,
            -1 if timestamp is None else timestamp,
            _bytes(key),
            _bytes(value),
            tuple((h, _bytes(v)) for h, v in headers),
        )
        for offset, timestamp, _, key, value, headers in _json("true-records.json.xz")[name]
    ]


def segments(name: str) -> list[bytes]:
    """The .log files of a recorded directory in order."""
    return [path.read_bytes() for path in sorted(recorded_segments.log_directory(name).glob("*.log"))]


def java_batch(name: str) -> bytes:
    return base64.b64decode(_json("java-batches.json.xz")[name])


def java_rows(magic: int) -> list[tuple[Any, ...]]:
    """The hundred records that are in every one of the Java client's batches."""
    rows: list[tuple[Any, ...]] = []
    for index in range(100):
        key = None if index % 7 == 0 else b"" if index % 11 == 0 else b"key-%d" % index
        text = b"value %d lorem ipsum dolor " % index * (1 + index % 9)
        value = None if index % 13 == 0 else b"" if index % 17 == 0 else text
        headers: tuple[Any, ...] = ()
        if magic == 2 and index % 5 == 0:
            headers = ((f"h{index}", b"x%d" % index), ("nul", None), ("", b""))
        rows.append((1000 + index, 1700000000000 + index * 37 % 101, key, value, headers))
    return rows


@functools.cache
def plain_kernel(name: str) -> types.ModuleType:
    """A kernel's source, loaded as Python under a name of its own, whatever the process runs with."""
    directory = pathlib.Path(str(kernel.__file__)).parent
    before = {key: sys.modules[key] for key in sys.modules if key.startswith("kafkatools.core.records._")}
    loader = importlib.machinery.SourceFileLoader(f"plain{name}", str(directory / f"{name}.py"))
    module = types.ModuleType(loader.name)
    module.__file__ = loader.path
    try:
        if name != "_kernel":
            sys.modules["kafkatools.core.records._kernel"] = plain_kernel("_kernel")
        if name == "_format_kernel":
            sys.modules["kafkatools.core.records._kernel_text"] = plain_kernel("_kernel_text")
        loader.exec_module(module)
    finally:
        sys.modules.update(before)
    return module
