"""The cleaner's kernel: compiled and plain give the same, and nothing is read outside of the data."""

import functools
import importlib.util
import random
import sys
import types
from array import array
from pathlib import Path
from typing import Any

import pytest

from kafkatools.core.records import _clean_kernel
from kafkatools.core.records import batch as kernel_home
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder

NOW_MS = 1_795_230_000_000
HEADER = 61
# Of the reference implementation, vectors_sip128: key 00 01 02 ... 0f, the first bytes of the same row hashed.
SIP_VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    63: "5150d1772f50834a503e069a973fbd7c",
}


def source(name: str) -> Any:
    """A kernel's source, loaded as Python whatever the process runs with."""
    path = Path(kernel_home.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"plain{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def plain() -> Any:
    """The plain kernel over the plain functions that it shares with others."""
    name = "kafkatools.core.records._kernel"
    used = sys.modules[name]
    sys.modules[name] = source("_kernel")
    try:
        return source("_clean_kernel")
    finally:
        sys.modules[name] = used


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> types.ModuleType:
    module: types.ModuleType = _clean_kernel if request.param == "in use" else plain()
    return module


class Map:
    """A map's table and state, with a secret that is none."""

    def __init__(self, kernel: Any, slots: int, limit: int | None = None) -> None:
        self.table = memoryview(bytearray(slots * 24)).cast("Q")
        self.state = array("q", [0, slots if limit is None else limit, 0, -1, 0, 11, 12])


def batch(rows: list[tuple[bytes | None, bytes | None]], base_offset: int = 100) -> bytes:
    builder = BatchBuilder(1 << 16, base_offset=base_offset)
    for number, (key, value) in enumerate(rows):
        builder.append(NOW_MS + number * 1000 % 7777, key, value, [("h", b"x")] if number % 3 == 0 else ())
    return bytes(builder.close())


def random_rows(rng: random.Random, count: int) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (
            None if rng.random() < 0.1 else rng.randbytes(rng.choice((0, 1, 7, 8, 9, 200))),
            None if rng.random() < 0.2 else rng.randbytes(rng.randrange(300)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("size", SIP_VECTORS)
def test_the_hash_is_siphash(kernel: Any, size: int) -> None:
    key, data = bytes(range(16)), bytes(range(size))
    halves = kernel.sip_hash(data, 0, size, *(int.from_bytes(key[i : i + 8], "little") for i in (0, 8)))
    assert b"".join(half.to_bytes(8, "little") for half in halves).hex() == SIP_VECTORS[size]
    assert kernel.sip_hash(b"abc", 1, 3, 1, 2) == (0, 0)
    assert kernel.sip_hash(b"abc", -1, 1, 1, 2) == (0, 0)


def test_both_kernels_agree_on_everything() -> None:
    rng = random.Random(20)
    other = plain()
    for _ in range(30):
        data = batch(random_rows(rng, rng.randrange(1, 60)), rng.randrange(2**40))
        view = RecordBatch(data)
        count, base, time = view.record_count, view.base_offset, view.base_timestamp
        results = []
        for kernel in (_clean_kernel, other):
            found = Map(kernel, 101, 90)
            found.state[2] = base + count // 4
            put = kernel.put_keys(data, HEADER, count, base, found.table, found.state)
            keep, sums = bytearray(count), array("q", [0] * 6 + [count % 2])
            sound = kernel.mark_retained(data, HEADER, base, time, found.table, found.state, keep, sums)
            target = bytearray(len(data) + 15 * count)
            size = kernel.copy_retained(data, HEADER, keep, -5, target)
            results.append((put, list(found.table), list(found.state), sound, bytes(keep), list(sums), size, target))
        assert results[0] == results[1]
        assert results[0][0] == results[0][3] == count


def test_the_newest_offset_of_a_key_wins_and_null_keys_do_not_count(kernel: Any) -> None:
    data = batch([(b"a", b"1"), (None, b"2"), (b"b", None), (b"a", b"3"), (b"", b"4")])
    found = Map(kernel, 11)
    assert kernel.put_keys(data, HEADER, 5, 100, found.table, found.state) == 5
    offsets = {key: kernel.newest_offset(key, found.table, found.state) for key in (b"a", b"b", b"", b"c")}
    assert offsets == {b"a": 103, b"b": 102, b"": 104, b"c": -1}
    assert list(found.state[:5]) == [3, 11, 0, 104, 0]


def test_a_full_map_says_where_it_stopped(kernel: Any) -> None:
    data = batch([(b"%d" % number, b"") for number in range(10)])
    found = Map(kernel, 11, 4)
    assert kernel.put_keys(data, HEADER, 10, 100, found.table, found.state) == 4
    assert found.state[4] == 1 and found.state[3] == 103
    assert kernel.put_keys(data, HEADER, 0, 100, found.table, found.state) == 0
    assert found.state[4] == 0


def test_what_stays_by_key_value_and_offset(kernel: Any) -> None:
    data = batch([(b"a", b"1"), (b"b", b"2"), (None, b"3"), (b"b", None), (b"a", b"5"), (b"later", b"6")])
    found = Map(kernel, 11)
    kernel.put_keys(data, HEADER, 5, 100, found.table, found.state)
    for retains, expected in ((1, [0, 0, 0, 1, 1, 1]), (0, [0, 0, 0, 0, 1, 1])):
        keep, sums = bytearray(6), array("q", [9] * 6 + [retains])
        assert kernel.mark_retained(data, HEADER, 100, NOW_MS, found.table, found.state, keep, sums) == 6
        assert list(keep) == expected
        assert list(sums[:3]) == [sum(expected), retains, 1]
        first = expected.index(1)
        assert list(sums[3:5]) == [NOW_MS + first * 1000, NOW_MS + 5000]


@pytest.mark.slow
def test_damage_is_met_with_a_count_not_with_a_crash(kernel: Any) -> None:
    whole = batch(random_rows(random.Random(3), 12))
    rng = random.Random(4)
    count = RecordBatch(whole).record_count
    damaged = [whole[:end] for end in range(HEADER, len(whole), 7)]
    for _ in range(300):
        spoiled = bytearray(whole)
        spoiled[rng.randrange(HEADER, len(whole))] ^= 1 << rng.randrange(8)
        damaged.append(bytes(spoiled))
    for data in damaged:
        found = Map(kernel, 101)
        keep, sums = bytearray(count), array("q", [0] * 7)
        put = kernel.put_keys(data, HEADER, count, 0, found.table, found.state)
        sound = kernel.mark_retained(data, HEADER, 0, 0, found.table, found.state, keep, sums)
        assert put == sound <= count
        keep[:] = b"\1" * count
        assert kernel.copy_retained(data, HEADER, keep, 0, bytearray(len(data) + 15 * count)) <= len(data) + 15 * count
    for tiny in (b"", b"\0", whole[:HEADER]):
        found = Map(kernel, 101)
        assert kernel.put_keys(tiny or b"\0", HEADER, 5, 0, found.table, found.state) == 0


def test_a_target_that_is_too_small_is_refused(kernel: Any) -> None:
    data = batch([(b"a", b"x" * 50)] * 3)
    for room in range(1, len(data) - HEADER):
        assert kernel.copy_retained(data, HEADER, bytearray(b"\1\1\1"), 0, bytearray(room)) == -1
    exact = bytearray(len(data) - HEADER + 5)
    assert kernel.copy_retained(data, HEADER, bytearray(b"\1\1\1"), 0, exact) == len(data) - HEADER
    assert exact[:-5] == data[HEADER:]


def test_arguments_of_another_kind_are_refused(kernel: Any) -> None:
    found = Map(kernel, 11)
    data = batch([(b"a", b"")])
    with pytest.raises((TypeError, ValueError)):
        kernel.put_keys(data, HEADER, 1, 0, found.table, array("i", [0] * 7))
    assert kernel.put_keys(data, HEADER, 1, 0, found.table, array("q", [0])) == 0
    assert kernel.put_key(b"a", 1, found.table, array("q", [0])) is False
    assert kernel.newest_offset(b"a", memoryview(bytearray(24)).cast("Q"), found.state) == -1
