"""Rows of a live topic that the headers of batches determine: equal to those of the records, and without decoding."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from kafkatools.pipeline.scan.plans import ScanPlan
from kafkatools.pipeline.sources.arrow_rows import ArrowRows
from kafkatools.pipeline.sources.live.reader import close_idle
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.schema import METADATA_COLUMNS, RECORD_COLUMNS
from kafkatools.pipeline.uris import TOPIC, Uri
from kafkatools.testing import Kafka, Topic

TYPES = RECORD_COLUMNS | METADATA_COLUMNS
KNOWN = tuple(name for name in TYPES if name not in ("key", "value", "timestamp"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as started:
        yield started
    close_idle()


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> Topic:
    """Batches of each codec, and transactions of which every other one is aborted."""
    name = kafka.topic("headers-")
    for codec in CODECS:
        with kafka.producer(compression_type=codec) as producer:
            for number in range(40):
                producer.send(str(name), b"value %d" % number, b"key")
    with kafka.producer(transactional_id="headers", compression_type="zstd") as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for _ in range(10):
                producer.send(str(name), b"%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    return name


def read(
    kafka: Kafka, topic: Topic, columns: tuple[str, ...], bounds: RecordBounds, isolation: str, *, decodes: bool
) -> pa.Table:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": isolation}
    plan = ScanPlan(
        Uri(TOPIC, str(topic)), columns, types=TYPES, bounds=bounds, settings=settings, decodes_records=decodes
    )
    return pa.Table.from_batches([batch for task in plan.tasks() for batch in task()], plan.schema)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("bounds", [RecordBounds(), RecordBounds(start_offset=7, end_offset=231)])
@pytest.mark.parametrize("columns", [("partition",), ("offset",), KNOWN])
def test_headers_of_fetched_batches_give_the_rows_of_their_records(
    kafka: Kafka,
    topic: Topic,
    isolation: str,
    bounds: RecordBounds,
    columns: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = read(kafka, topic, columns, bounds, isolation, decodes=True)
    assert decoded.num_rows > 150

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("records were decoded")

    monkeypatch.setattr(ArrowRows, "add_batches", fail)
    assert read(kafka, topic, columns, bounds, isolation, decodes=False) == decoded
    with pytest.raises(AssertionError, match="records were decoded"):
        read(kafka, topic, ("value",), bounds, isolation, decodes=False)
