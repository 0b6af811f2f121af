"""The tables of `kafka-log` that are not of records: batches, from their headers, and damages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkatools.pipeline.run.reports import Damage
from kafkatools.pipeline.sources.arrow_columns import Items, micros, timestamp_types
from kafkatools.pipeline.sources.log import sections as table
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.log.sections import Section
from kafkatools.pipeline.sources.spark_api import arrow_schema

Longs = npt.NDArray[np.int64]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CODEC = 7
_ROWS_AT_ONCE = 1 << 14


def damage_rows(schema: StructType, topic: str, partition: int, damages: Sequence[Damage]) -> pa.RecordBatch:
    columns = {
        "topic": [topic] * len(damages),
        "partition": [partition] * len(damages),
        "file": [each.file for each in damages],
        "position": [each.position for each in damages],
        "length": [each.length for each in damages],
        "kind": [each.kind for each in damages],
        "reason": [each.reason for each in damages],
    }
    wanted = arrow_schema(schema)
    arrays = [pa.array(columns[field.name.lower()], field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


class BatchRows:
    """Rows of batches, gathered over many sections: one row for each batch that is kept. Of messages of magic 0 and 1 a
    header tells less: no last offset but its own, one record where it is not compressed and null where it is.
    """

    def __init__(self, schema: StructType, file: LogFile) -> None:
        self._schema = arrow_schema(schema)
        self._file = file
        self._headers: list[Longs] = []
        self._states: list[str | None] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """Enough for an Arrow batch."""
        return self._count >= _ROWS_AT_ONCE

    def add(self, section: Section, kept: npt.NDArray[np.bool_], states: Sequence[str | None] | None) -> None:
        """The batches of a section that are kept; `states` of all its batches, None where nobody asks."""
        headers = _with_legacy(section)[kept]
        headers[:, table.POSITION] += section.origin
        self._headers.append(headers)
        self._count += len(headers)
        if states is not None:
            self._states += [states[row] for row in np.flatnonzero(kept).tolist()]

    def take(self) -> pa.RecordBatch:
        """What was gathered, as a pyarrow.RecordBatch."""
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


def _array(made: Items | pa.Array, arrow_type: pa.DataType) -> pa.Array:
    if isinstance(made, np.ndarray):
        return pa.array(made).cast(arrow_type)
    return made.cast(arrow_type)


def _with_legacy(section: Section) -> Longs:
    """The headers, those of messages of magic 0 and 1 with what they have."""
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


def _counts(headers: Longs) -> pa.Array:
    return pa.array(headers[:, table.COUNT], mask=headers[:, table.COUNT] < 0)


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
    "count": _counts,
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
