"""Output files: whole under their own name, else partial; nothing that exists is replaced without being told."""

from __future__ import annotations

import os
import pathlib

import pytest

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import KafkaError
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.format_string import StringFormatter
from kafkatools.tools.lines.formatters import MessageFormatter
from kafkatools.tools.record_files.csv_formatter import CsvFormatter
from kafkatools.tools.record_files.output_files import RecordFiles


def fetched(partition: int, *values: bytes) -> FetchedColumns:
    builder = BatchBuilder(1 << 20)
    for value in values:
        builder.append(0, None, value)
    return FetchedColumns("orders", partition, RecordBatch(builder.close()).columns())


def stop(error: KafkaError) -> bool:
    return False


def lines() -> MessageFormatter:
    return StringFormatter(r"%s\n")


def files(path: pathlib.Path, *, directory: bool = False, replaces: bool = False) -> RecordFiles:
    made = RecordFiles(str(path), ".txt" if directory else None, lines, replaces)
    made.open()
    return made


def names(directory: pathlib.Path) -> list[str]:
    return sorted(os.listdir(directory))


def test_file_appears_at_the_end(tmp_path: pathlib.Path) -> None:
    made = files(tmp_path / "out")
    out = bytearray()
    assert made.write(out, fetched(0, b"a", b"b"), stop) == 2
    assert made.write(out, fetched(1, b"c"), stop) == 1
    assert (out, names(tmp_path)) == (b"", ["out.partial"])
    made.complete()
    assert (names(tmp_path), (tmp_path / "out").read_bytes()) == (["out"], b"a\nb\nc\n")


def test_early_end_leaves_a_partial_file_with_its_end(tmp_path: pathlib.Path) -> None:
    made = RecordFiles(str(tmp_path / "out"), None, CsvFormatter, False)
    made.open()
    made.write(bytearray(), fetched(0, b"a"), stop)
    assert made.abandon() == [str(tmp_path / "out.partial")]
    assert names(tmp_path) == ["out.partial"]
    assert (tmp_path / "out.partial").read_bytes().count(b"\r\n") == 2


def test_early_end_without_records_leaves_nothing(tmp_path: pathlib.Path) -> None:
    assert files(tmp_path / "out").abandon() == []
    assert names(tmp_path) == []


@pytest.mark.parametrize("existing", ["out", "out.partial"])
def test_existing_file_is_replaced_only_when_told(tmp_path: pathlib.Path, existing: str) -> None:
    (tmp_path / existing).write_text("kept")
    with pytest.raises(CommandError, match=f"{existing} exists already"):
        files(tmp_path / "out")
    assert (tmp_path / existing).read_text() == "kept"
    made = files(tmp_path / "out", replaces=True)
    made.write(bytearray(), fetched(0, b"a"), stop)
    made.complete()
    assert (names(tmp_path), (tmp_path / "out").read_bytes()) == (["out"], b"a\n")


def test_file_that_appears_meanwhile_is_kept(tmp_path: pathlib.Path) -> None:
    made = files(tmp_path / "out")
    made.write(bytearray(), fetched(0, b"a"), stop)
    (tmp_path / "out").write_text("kept")
    with pytest.raises(CommandError, match="created meanwhile"):
        made.complete()
    assert (tmp_path / "out").read_text() == "kept"
    assert (tmp_path / "out.partial").read_bytes() == b"a\n"


def test_no_device_or_directory_is_replaced(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CommandError, match="not a regular file"):
        files(tmp_path / "pipe", replaces=True)


def test_one_file_for_each_partition(tmp_path: pathlib.Path) -> None:
    made = files(tmp_path / "new" / "out", directory=True)
    for partition in (0, 11, 0):
        made.write(bytearray(), fetched(partition, b"%d" % partition), stop)
    made.complete()
    assert names(tmp_path / "new" / "out") == ["orders-0.txt", "orders-11.txt"]
    assert (tmp_path / "new" / "out" / "orders-0.txt").read_bytes() == b"0\n0\n"
    with pytest.raises(CommandError, match="has files already"):
        files(tmp_path / "new" / "out", directory=True)


def test_interrupted_write_is_never_completed(tmp_path: pathlib.Path) -> None:
    def interrupt(data: bytes) -> bytes:
        raise KeyboardInterrupt

    made = RecordFiles(str(tmp_path / "out"), None, lambda: StringFormatter("%s", value=interrupt), False)
    made.open()
    with pytest.raises(KeyboardInterrupt):
        made.write(bytearray(), fetched(0, b"a"), stop)
    with pytest.raises(CommandError, match="interrupted"):
        made.complete()
    assert "out" not in names(tmp_path)
