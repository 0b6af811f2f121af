"""Which objects of a partition are listed when one of them could not be stored."""

from __future__ import annotations

import pathlib
import threading
from concurrent.futures import wait

import pytest

from kafkatools.core.records.builder import BatchBuilder
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.manifest import PartitionBackup
from kafkatools.tools.backup.partition_writer import Finisher, PartitionWriter
from kafkatools.tools.backup.store import CollectedObject, LocalStore, NewObject


class FirstObjectFails(LocalStore):
    """A storage that refuses the first object once `refuses` is set, and takes the others at once."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.refuses = threading.Event()

    def new_object(self, name: str) -> NewObject:
        return CollectedObject(self._refuse if name.endswith("/00000000000000000000.log") else lambda data: None)

    def _refuse(self, data: bytes) -> None:
        assert self.refuses.wait(10)
        raise CommandError("Connection reset", kind="STORAGE_FAILED")


def batch(offset: int) -> memoryview:
    builder = BatchBuilder(1 << 10)
    builder.append(1, None, b"value")
    data = bytearray(builder.close())
    data[:8] = offset.to_bytes(8, "big")
    return memoryview(data)


def test_an_object_behind_one_that_was_not_stored_is_not_listed(tmp_path: pathlib.Path) -> None:
    store, finisher, backup = FirstObjectFails(str(tmp_path)), Finisher(), PartitionBackup("logs", 0, 2)
    writer = PartitionWriter(store, finisher, backup, "logs/t-0", object_bytes=1)
    for offset in (0, 1):
        writer.append(batch(offset))
    store.refuses.set()
    wait(finisher._pending, timeout=10)
    writer.list_finished()  # as when progress.json is written before the failure is noticed
    assert (backup.objects, backup.next_offset) == ([], 0)
    with pytest.raises(CommandError, match="Connection reset"):
        finisher.wait()
