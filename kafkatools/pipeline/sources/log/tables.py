"""Rows of the `kafka-log` tables `batches`, from batch headers, and `errors`, from damaged ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkatools.pipeline.run.reports import Damage
from kafkatools.pipeline.sources.log import sections as table
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.log.sections import Section
from kafkatools.tools.arrow.columns import Items, micros, timestamp_types

Longs = npt.NDArray[np.int64]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CODEC = 7
_ROWS_AT_ONCE = 1 << 14


def damage_rows(schema: pa.Schema, topic: str, partition: int, damages: Sequence[Damage]) -> pa.RecordBatch:
    """Return damaged ranges as rows of the table `errors`, with the columns of `schema`."""
    columns = {
        "topic": [topic] * len(damages),
        "partition": [partition] * len(damages),
        **{
            name: [getattr(damage, name) for damage in damages]
            for name in ("file", "position", "length", "kind", "reason")
        },
    }
    arrays = [pa.array(columns[field.name.lower()], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class BatchRows:
    """Collects one row of the table `batches` for each batch, over many sections. For messages of magic 0 and 1 the
    last offset is the header's offset, and `count` is 1 if uncompressed, else null."""

    def __init__(self, schema: pa.Schema, file: LogFile) -> None:
        self._schema = schema
        self._file = file
        self._headers: list[Longs] = []
        self._states: list[str | None] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Return whether enough rows are collected for an Arrow batch."""
        return self._count >= _ROWS_AT_ONCE

    def add(self, section: Section, mask: npt.NDArray[np.bool_], states: Sequence[str | None] | None) -> None:
        """Add the batches of a section where `mask` is true. `states` has the transaction state of each batch of the
        section, None if not requested."""
        headers = _with_legacy(section)[mask]
        headers[:, table.POSITION] += section.origin
        self._headers.append(headers)
        self._count += len(headers)
        if states is not None:
            self._states += [states[row] for row in np.flatnonzero(mask).tolist()]

    def take(self) -> pa.RecordBatch:
        """Return the collected rows, at least one, as a pyarrow.RecordBatch and start an empty one."""
        headers, file = np.concatenate(self._headers), self._file
        makers = _MAKERS | {
            "topic": lambda _: pa.repeat(file.topic, len(headers)),
            "partition": lambda _: np.full(len(headers), file.partition),
            "file": lambda _: pa.repeat(file.url, len(headers)),
            "position": _column(table.POSITION),
            "transaction": lambda _: pa.array(self._states or [None] * len(headers), pa.string()),
        }
        arrays = [_array(makers[field.name.lower()](headers), field.type) for field in self._schema]
        self._headers, self._states, self._count = [], [], 0
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _array(values: Items | pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return (pa.array(values) if isinstance(values, np.ndarray) else values).cast(arrow_type)


def _with_legacy(section: Section) -> Longs:
    """Return the section's headers, with the fields of messages of magic 0 and 1 read from their bytes."""
    headers = section.headers
    old = np.flatnonzero(headers[:, table.MAGIC] < 2)
    if not len(old):
        return headers
    headers = headers.copy()
    for row in old.tolist():
        batch = section.batch(row)
        timestamp = int.from_bytes(batch[18:26], "big", signed=True) if batch[16] == 1 else -1
        headers[row, table.LEADER_EPOCH] = -1
        headers[row, table.CRC] = int.from_bytes(batch[12:16], "big")
        headers[row, table.ATTRIBUTES] = batch[17]
        headers[row, table.BASE_TIMESTAMP] = headers[row, table.MAX_TIMESTAMP] = timestamp
        headers[row, table.PRODUCER_ID : table.COUNT] = -1
        headers[row, table.COUNT] = -1 if batch[17] & _CODEC else 1
    return headers


def _codecs(headers: Longs) -> pa.Array:
    codes = headers[:, table.ATTRIBUTES] & _CODEC
    return pa.array(CODECS).take(pa.array(codes, mask=codes >= len(CODECS)))


def _has(mask: int) -> Callable[[Longs], Items | pa.Array]:
    return lambda headers: headers[:, table.ATTRIBUTES] & mask != 0


def _column(index: int) -> Callable[[Longs], Items | pa.Array]:
    return lambda headers: headers[:, index]


_MAKERS: dict[str, Callable[[Longs], Items | pa.Array]] = {
    "size": _column(table.SIZE),
    "baseoffset": _column(table.BASE_OFFSET),
    "lastoffset": lambda headers: headers[:, table.BASE_OFFSET] + headers[:, table.LAST_DELTA],
    "count": lambda headers: pa.array(headers[:, table.COUNT], mask=headers[:, table.COUNT] < 0),
    "basetimestamp": lambda headers: micros(headers[:, table.BASE_TIMESTAMP]),
    "maxtimestamp": lambda headers: micros(headers[:, table.MAX_TIMESTAMP]),
    "timestamptype": timestamp_types,
    "codec": _codecs,
    "producerid": _column(table.PRODUCER_ID),
    "producerepoch": _column(table.PRODUCER_EPOCH),
    "basesequence": _column(table.BASE_SEQUENCE),
    "istransactional": _has(TRANSACTIONAL_BIT),
    "iscontrol": _has(CONTROL_BIT),
    "leaderepoch": _column(table.LEADER_EPOCH),
    "crc": _column(table.CRC),
    "magic": _column(table.MAGIC),
}
