"""Arrow record batches from a consumer and to a producer, against single records of the same topics; what notebooks
show; and the examples of docs/arrow.md."""

from __future__ import annotations

import datetime
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pandas
import pyarrow as pa
import pytest
from support.waiting import PATIENCE_S

import kafkatools
from kafkatools.core.install_command import install_command
from kafkatools.core.producer.interceptors import ProducerInterceptor
from kafkatools.core.records import arrow
from kafkatools.testing import Kafka, Topic

SENT: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (0, b"k", b"text \xc3\xa4 that is longer than a view", []),
    (1, None, None, [("h\xe4", b"1"), ("n", None)]),
    (1, b"", b"", []),
    (0, b"\xff", b"not UTF-8 \xff", [("h", b"")]),
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka() as started:
        yield started


@pytest.fixture
def sent(kafka: Kafka) -> Topic:
    return filled(kafka)


def filled(kafka: Kafka) -> Topic:
    """A topic of two partitions with the records SENT, and as many again compressed."""
    topic = kafka.topic("sent-", partitions=2)
    for codec in ("none", "lz4"):
        with kafka.producer(compression_type=codec) as producer:
            for number, (partition, key, value, headers) in enumerate(SENT):
                producer.send(str(topic), value, key, partition=partition, timestamp=1000 + number, headers=headers)
    return topic


def read(kafka: Kafka, topic: str, rows: int, **options: Any) -> pa.Table:
    """The table of at least so many records."""
    batches: list[pa.RecordBatch] = []
    with kafka.consumer(topic) as consumer:
        while sum(batch.num_rows for batch in batches) < rows:
            batches.append(consumer.poll_arrow(5000, **options))
            batches[-1].validate(full=True)
    return pa.Table.from_batches(batches)


def rows_of(kafka: Kafka, topic: str) -> list[tuple[Any, ...]]:
    """The records by partition and offset, as the consumer returns them one by one."""
    return [
        (*record[:3], record.timestamp, record.key, record.value, [list(pair) for pair in record.headers] or None)
        for record in kafka.records(topic)
    ]


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    found = []
    for row in sorted(table.to_pylist(), key=lambda row: (row["partition"], row["offset"])):
        headers = row["headers"] and [[header["key"], header["value"]] for header in row["headers"]]
        timestamp = round(row["timestamp"].timestamp() * 1000)
        found.append(
            (*(row[n] for n in ("topic", "partition", "offset")), timestamp, row["key"], row["value"], headers)
        )
    return found


@pytest.mark.parametrize("kind", ["binary", "view"])
def test_batches_have_what_single_records_have(kafka: Kafka, sent: Topic, kind: str) -> None:
    table = read(kafka, sent, 8, key=kind, value=kind)
    assert table.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert tuples(table) == rows_of(kafka, sent)


@pytest.mark.parametrize("kind", ["string", "dictionary"])
def test_text_has_replacement_characters_where_bytes_are_not_text(kafka: Kafka, sent: Topic, kind: str) -> None:
    table = read(kafka, sent, 8, key=kind, value=kind, columns=["key", "value"])
    expected = [(record.key, record.value) for record in kafka.records(sent)]
    texts = [tuple(None if cell is None else cell.decode("utf-8", "replace") for cell in row) for row in expected]
    assert sorted(map(repr, zip(*table.to_pydict().values(), strict=True))) == sorted(map(repr, texts))
    assert table.schema.field("key").type == (pa.string() if kind == "string" else pa.dictionary("int32", "string"))


def test_poll_without_records_has_the_schema(kafka: Kafka) -> None:
    with kafka.consumer(kafka.topic("empty-")) as consumer:
        empty = consumer.poll_arrow(10, columns=["value", "offset"], value="string")
        assert (empty.num_rows, empty.schema.names) == (0, ["value", "offset"])
        for options in ({"key": "text"}, {"columns": ["keys"]}, {"columns": []}, {"columns": "key"}):
            with pytest.raises(ValueError, match="(the kinds are|name some of) "):
                consumer.poll_arrow(10, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="named twice"):
            consumer.poll_arrow(10, columns=["key", "key"])


def test_columns_above_the_limit_of_arrow_are_read_by_the_next_poll(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "LARGEST_COLUMN", 2500)
    topic = kafka.topic("large-", partitions=2)
    for number in range(6):
        topic.send(bytes([number]) * 1000, partition=number % 2)
    table = read(kafka, topic, 6, columns=["partition", "value"])
    assert sorted(value[0] for value in table["value"].to_pylist()) == list(range(6))


def test_views_outlive_the_consumer(kafka: Kafka) -> None:
    topic = kafka.topic("views-")
    values = [b"%0100d" % number for number in range(20_000)]
    topic.send_many(values)
    with kafka.consumer(topic, max_partition_fetch_bytes=100_000) as consumer:
        batches = []
        while sum(batch.num_rows for batch in batches) < len(values):
            batches.append(consumer.poll_arrow(5000, columns=["value"], value="view"))
    assert len(batches) > 5
    assert pa.Table.from_batches(batches)["value"].to_pylist() == values


def send(kafka: Kafka, topic: str, data: object, **options: Any) -> list[kafkatools.RecordMetadata]:
    with kafka.producer() as producer:
        runs = producer.send_arrow(data, topic, **options).result()
    assert sorted(row for run in runs for row in run.rows) == list(range(sum(run.row_count for run in runs)))
    return runs  # type: ignore[return-value]


def check_copy(kafka: Kafka) -> None:
    """A table that was read is sent with everything that records have."""
    topic, copy = filled(kafka), kafka.topic("copy-", partitions=2)
    table = read(kafka, topic, 8).sort_by([("partition", "ascending"), ("offset", "ascending")])
    send(kafka, copy, table, partition="partition", timestamp="timestamp")
    assert tuples(table) == rows_of(kafka, topic)
    assert [row[1:] for row in rows_of(kafka, copy)] == [row[1:] for row in rows_of(kafka, topic)]
    topic.delete()
    copy.delete()


def test_a_table_that_was_read_is_sent_as_it_was(kafka: Kafka) -> None:
    check_copy(kafka)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_a_table_goes_through_apache_kafka_as_it_was(real_kafka: Any) -> None:
    with Kafka(bootstrap_servers=real_kafka.bootstrap) as kafka:
        check_copy(kafka)


@pytest.mark.parametrize("slots", [1, 3])
def test_rows_go_where_their_keys_go(kafka: Kafka, slots: int) -> None:
    one, many = kafka.topic("one-", partitions=slots), kafka.topic("many-", partitions=slots)
    keys = [None if number % 7 == 0 else f"key {number % 50}" for number in range(500)]
    for number, key in enumerate(keys):
        if key is not None:
            kafka.shared_producer.send(str(one), str(number).encode(), key.encode())
    kafka.shared_producer.flush()
    table = pa.table(
        {"key": pa.array(keys).dictionary_encode(), "value": pa.array(map(str, range(500)), pa.large_string())}
    )
    send(kafka, many, pa.concat_tables([table.slice(0, 123), table.slice(123)]))
    keyed = [(record.partition, record.value) for record in kafka.records(many) if record.key is not None]
    assert keyed == [(record.partition, record.value) for record in kafka.records(one)]
    assert len(kafka.records(many)) == 500


def test_large_tables_are_sent_in_pieces_and_numbered_as_a_whole(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkatools.core.records import arrow_rows

    monkeypatch.setattr(arrow_rows, "_PIECE_BYTES", 5000)
    topic = kafka.topic("pieces-", partitions=3)
    table = pa.table(
        {"value": [b"%050d" % number for number in range(1000)], "p": [number % 3 for number in range(1000)]}
    )
    runs: Any = send(kafka, topic, table, partition="p")
    places = {(run.partition, run.base_offset + place): row for run in runs for place, row in enumerate(run.rows)}
    records = kafka.records(topic)
    assert len(records) == 1000
    for record in records:
        assert int(record.value) == places[record.partition, record.offset]
        assert int(record.value) % 3 == record.partition


class Upper(ProducerInterceptor):
    """Upper-case values."""

    def on_send(self, record: kafkatools.ProducerRecord) -> kafkatools.ProducerRecord:
        assert isinstance(record.value, bytes)
        return kafkatools.ProducerRecord(record.topic, record.value.upper(), partition=record.partition)


def test_interceptors_see_the_rows(kafka: Kafka) -> None:
    topic = kafka.topic("upper-", partitions=2)
    with kafka.producer(interceptors=[Upper()]) as producer:
        runs = producer.send_arrow(pa.table({"value": ["a", "b", "c"], "p": [1, 0, 1]}), topic, partition="p").result()
    assert sorted((run.partition, *run.rows) for run in runs) == [(0, 1), (1, 0), (1, 2)]
    assert [(record.partition, record.value) for record in kafka.records(topic)] == [(0, b"B"), (1, b"A"), (1, b"C")]


def test_frames_of_other_libraries_and_headers_for_all(kafka: Kafka) -> None:
    import polars  # it starts a thread, which copies of the process do not have

    topic = kafka.topic("frames-")
    send(kafka, topic, polars.DataFrame({"value": ["a", None], "key": [b"k", None], "other": [1, 2]}))
    send(kafka, topic, pandas.DataFrame({"text": ["b"], "time": [7]}), value="text", timestamp="time", partition=0)
    moment = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    batch = pa.record_batch({"value": pa.array(["c"], pa.string_view()), "key": ["x"], "at": [moment]})
    send(kafka, topic, batch, key=None, timestamp="at", headers=[("source", b"arrow")])
    maps = pa.array([[("m", b"1")], None], pa.map_(pa.string(), pa.binary()))
    send(kafka, topic, pa.table({"value": pa.nulls(2), "headers": maps}))
    names = pa.dictionary(pa.int32(), pa.string())
    send(kafka, topic, with_headers(names, "d", pa.string(), "2"))
    found = [(record.key, record.value, record.headers) for record in kafka.records(topic)]
    assert found == [
        (b"k", b"a", ()),
        (None, None, ()),
        (None, b"b", ()),
        (None, b"c", (("source", b"arrow"),)),
        (None, None, (("m", b"1"),)),
        (None, None, ()),
        (None, b"a", (("d", b"2"),)),
    ]
    times = [record.timestamp for record in kafka.records(topic)]
    assert times[2:4] == [7, 1704067200000] and min(times[:2]) > 1704067200000


def with_headers(key_type: pa.DataType, key: object, value_type: pa.DataType, value: object) -> pa.Table:
    """A table with one row and one header."""
    headers = pa.array(
        [[{"key": key, "value": value}]], pa.list_(pa.struct([("key", key_type), ("value", value_type)]))
    )
    return pa.table({"value": ["a"], "headers": headers})


BAD: list[tuple[object, dict[str, Any], type[Exception], str]] = [
    ([1], {}, TypeError, "list is no Arrow data"),
    ("topic", {}, TypeError, r"send_arrow\(table, 'topic'\)"),
    (pa.table({"text": ["a"]}), {}, ValueError, "no column 'value'; its columns are 'text'"),
    (pa.table({"value": ["a"]}), {"key": "id"}, ValueError, "no column 'id'"),
    (pa.table({"value": [1]}), {}, TypeError, "'value' is int64: cast it to string or binary"),
    (pa.table({"value": ["a"], "headers": [1]}), {}, TypeError, "headers are a list of structs"),
    (with_headers(pa.binary(), b"trace", pa.binary(), b"1"), {}, TypeError, "headers are a list of structs"),
    (with_headers(pa.string(), "trace", pa.int64(), 1), {}, TypeError, "headers are a list of structs"),
    (with_headers(pa.string(), None, pa.binary(), b"1"), {}, ValueError, "'headers' has a header without a name"),
    (pa.table({"value": ["a"], "p": [None]}), {"partition": "p"}, TypeError, "a partition is integers"),
    (pa.table({"value": ["a", "b"], "p": [0, None]}), {"partition": "p"}, ValueError, "'p' has a null"),
    (pa.table({"value": ["a"], "p": [-1]}), {"partition": "p"}, ValueError, "negative partition"),
    (pa.table({"value": ["a"], "p": [2**40]}), {"partition": "p"}, ValueError, "too large"),
    (pa.table({"value": ["a"]}), {"partition": -1}, ValueError, "Invalid partition -1"),
    (pa.table({"value": ["a"], "t": ["b"]}), {"timestamp": "t"}, TypeError, "epoch milliseconds"),
]


@pytest.mark.parametrize(("data", "options", "kind", "told"), BAD)
def test_data_that_cannot_be_sent_is_refused_before_anything_is(
    kafka: Kafka, data: object, options: dict[str, Any], kind: type[Exception], told: str
) -> None:
    with kafka.producer() as producer, pytest.raises(kind, match=told):
        producer.send_arrow(data, "never-created", **options)
    assert "never-created" not in {topic.name for topic in kafka.admin.list_topics()}


WITHOUT = """
import sys
sys.modules["pyarrow"] = None
import kafkatools
for call in (
    lambda: kafkatools.Consumer(bootstrap_servers="127.0.0.1:1").poll_arrow(0),
    lambda: kafkatools.Producer(bootstrap_servers="127.0.0.1:1").send_arrow(None, "t"),
):
    try:
        call()
    except ImportError as error:
        print(error)
"""


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=dict(os.environ), check=True
    )
    assert done.stdout == 2 * f"Arrow record batches need pyarrow 16 or later: {install_command('arrow')}\n"


# --- notebooks


def shown(html: str) -> tuple[list[list[str]], str]:
    """The cells of the table and the text behind it, as a browser has them."""
    root = ElementTree.fromstring(html)
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    return rows, "".join(root[-1].itertext())


def test_notebook_shows_the_first_rows_and_the_size(kafka: Kafka) -> None:
    topic = kafka.topic("shown-", partitions=2)
    for number in range(7):
        topic.send(f"<script>alert('{number}')</script>\x1b[1m", partition=0)
    scanned = kafkatools.scan(f"topic:{topic}", bootstrap_servers=kafka.bootstrap_servers, columns=["key", "value"])
    html = scanned._repr_html_()
    assert "<script" not in html and "\x1b" not in html
    rows, size = shown(html)
    assert rows[:3] == [
        ["key", "value"],
        ["null", "<script>alert('0')</script>\\x1b[1m"],
        ["null", "<script>alert('1')</script>\\x1b[1m"],
    ]
    assert (len(rows), size) == (6, "the first 5 rows; the topic has 7 offsets in 2 partitions")
    files = kafkatools.scan(f"log:{kafka.broker.directory}/{topic}-0", columns=["offset"], offsets=(5, None))
    rows, size = shown(files._repr_html_())
    assert rows == [["offset"], ["5"], ["6"]] and re.fullmatch(r"2 rows; [\d,]+ bytes in 1 segment", size)
    rows, _ = shown(kafka.admin.describe_topics(topic)[topic]._repr_html_())
    assert rows == [["partition", "leader", "replicas", "in sync"], ["0", "1", "1", "1"], ["1", "1", "1", "1"]]


def test_notebook_shows_the_error_of_a_scan(kafka: Kafka) -> None:
    missing = kafkatools.scan("topic:none-such", bootstrap_servers=kafka.bootstrap_servers)
    assert shown(missing._repr_html_()) == ([], "PipelineError: topic none-such does not exist")


# --- the page

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "arrow.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
PRINTED = ["ann", "[('/b', 1), ('/a', 2)]\n", "20.25\n", "1000 499500\n", "0 2\n"]


def test_examples_of_the_page_run(kafka: Kafka) -> None:
    assert len(EXAMPLES) == len(PRINTED)
    for code, printed in zip(EXAMPLES, PRINTED, strict=True):
        assert "localhost:9092" in code
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code.replace("localhost:9092", kafka.bootstrap_servers)],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), code
        assert printed in done.stdout, code
