"""Spans of producers and consumers, written by OpenTelemetry's SDK, against the embedded broker."""

from __future__ import annotations

import asyncio
import gc
import importlib
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pyarrow
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from support.embedded import embedded_broker

import kafkatools
from kafkatools import aio, tracing
from kafkatools.errors import IllegalState, InvalidTopic, RecordTooLarge

ROOT = pathlib.Path(__file__).parents[3]
TOPICS = ("one", "many", "loop", "rows", "arrow", "other", "async", "plain", "bare", "unsampled", "shared")
SENDER = """
import sys
from opentelemetry.sdk.trace import TracerProvider
import kafkatools
from kafkatools.tracing import KafkatoolsInstrumentor
provider = TracerProvider()
KafkatoolsInstrumentor().instrument(tracer_provider=provider)
with kafkatools.Producer(bootstrap_servers=sys.argv[1]) as producer:
    with provider.get_tracer("test").start_as_current_span("order") as span:
        producer.send("other", b"value").result()
    print(f"{span.get_span_context().trace_id:032x}")
"""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker")) as address:
        with kafkatools.Admin(bootstrap_servers=address) as admin:
            for topic in TOPICS:
                admin.create_topics(kafkatools.NewTopic(topic, 1, 1))
        yield address


class Traced:
    """A tracer provider and its finished spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, prefix: str = "") -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(prefix)]


@pytest.fixture
def traced() -> Iterator[Traced]:
    traced = Traced()
    instrumentor = tracing.KafkatoolsInstrumentor()
    instrumentor.instrument(tracer_provider=traced.provider)
    yield traced
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def reader(bootstrap: str, topic: str, **settings: object) -> kafkatools.Consumer:
    consumer = kafkatools.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings)
    consumer.assign([(topic, 0)])
    consumer.seek_to_beginning()
    return consumer


def poll(consumer: kafkatools.Consumer) -> list[kafkatools.ConsumerRecord]:
    while not (records := consumer.poll(1000)):
        pass
    return list(records)


def test_send_poll_and_process_are_one_trace(bootstrap: str, traced: Traced) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap, client_id="shop") as producer:
        sent = producer.send("one", b"value", b"ann", headers=[("h", b"x"), ("traceparent", b"old")]).result()
    with reader(bootstrap, "one", group_id="billing", client_id="bill") as consumer:
        (record,) = poll(consumer)
        with tracing.process(record, consumer) as inner:
            assert trace.get_current_span() is inner
    send, polled, processed = traced.spans()
    assert (send.name, send.kind, polled.name, polled.kind) == (
        "send one",
        SpanKind.PRODUCER,
        "poll one",
        SpanKind.CONSUMER,
    )
    assert dict(send.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "shop",
        "messaging.destination.name": "one",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.message.key": "ann",
        "messaging.kafka.offset": sent.offset,
    }
    shared = {
        "messaging.system": "kafka",
        "messaging.client.id": "bill",
        "messaging.consumer.group.name": "billing",
        "messaging.destination.name": "one",
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
    }
    assert dict(polled.attributes) == {
        **shared,
        "messaging.operation.name": "poll",
        "messaging.operation.type": "receive",
        "messaging.batch.message_count": 1,
    }
    assert [link.context.span_id for link in polled.links] == [send.context.span_id]
    assert polled.start_time <= polled.end_time
    assert dict(processed.attributes) == {
        **shared,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.kafka.message.key": "ann",
    }
    assert (processed.name, processed.kind) == ("process one", SpanKind.CONSUMER)
    assert (processed.context.trace_id, processed.parent.span_id) == (send.context.trace_id, send.context.span_id)
    expected = f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-{send.context.trace_flags:02x}".encode()
    assert record.headers == (("h", b"x"), ("traceparent", expected))


@pytest.mark.slow
def test_the_process_span_has_the_trace_of_a_producer_in_another_process(bootstrap: str) -> None:
    command = [sys.executable, "-c", SENDER, bootstrap]
    trace_id = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()
    traced = Traced()
    with reader(bootstrap, "other") as consumer:
        tracing.instrument_consumer(consumer, traced.provider)
        (record,) = poll(consumer)
        with tracing.process(record, consumer, traced.provider):
            pass
    assert [f"{span.context.trace_id:032x}" for span in traced.spans("process other")] == [trace_id]
    assert [f"{link.context.trace_id:032x}" for link in traced.spans("poll other")[0].links] == [trace_id]


def test_a_poll_of_many_records_links_each_sender_once(bootstrap: str, traced: Traced) -> None:
    records = [kafkatools.ProducerRecord("many", None, b"\xff"), kafkatools.ProducerRecord("many", b"b", b"k")]
    results = []
    with kafkatools.Producer(bootstrap_servers=bootstrap, linger_ms=100) as producer:
        for record in records:
            producer.send(record, lambda metadata, error: results.append((metadata.offset, error)))
        producer.send("many", b"c", callback=lambda metadata, error: results.append((metadata.offset, error)))
    assert results == [(0, None), (1, None), (2, None)]
    assert records[0].headers == ()
    sends = traced.spans("send")
    assert sends[0].attributes["messaging.kafka.message.tombstone"] is True
    assert "messaging.kafka.message.key" not in sends[0].attributes
    with reader(bootstrap, "many") as consumer:
        assert len(poll(consumer)) == 3
    (polled,) = traced.spans("poll")
    assert [link.context.span_id for link in polled.links] == [span.context.span_id for span in sends]
    assert polled.attributes["messaging.batch.message_count"] == 3
    assert "messaging.kafka.offset" not in polled.attributes


def test_loops_have_spans_of_their_polls(bootstrap: str, traced: Traced) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("loop", b"a").result()
    with reader(bootstrap, "loop") as consumer:
        assert [record.value for record in consumer.read_to_end()] == [b"a"]
    assert [span.name for span in traced.spans()] == ["send loop", "poll loop"]


def test_rows_share_the_context_of_one_span(bootstrap: str, traced: Traced) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many("rows", [b"a", b"b"], [b"k", None]).result()
        producer.send_many("rows", []).result()
        first = kafkatools.RowColumns.of_values([b"c"])
        encoded = b"\x02\x02h\x02x"  # one header, h: x
        cells = (first.value_positions, first.value_lengths)
        runs = []
        producer.send_columns("rows", kafkatools.RowColumns(first.buffer, *cells, headers=[encoded]), 0, runs.append)
    assert [run.base_offset for run in runs] == [2]
    sends = traced.spans("send rows")
    assert sorted(span.attributes["messaging.batch.message_count"] for span in sends) == [0, 1, 2]
    with reader(bootstrap, "rows") as consumer:
        records = list(consumer.read_to_end())
    assert [record.value for record in records] == [b"a", b"b", b"c"]
    assert [[name for name, _ in record.headers] for record in records] == [["traceparent"]] * 2 + [
        ["h", "traceparent"]
    ]
    assert records[0].headers == records[1].headers != records[2].headers[1:]


def test_arrow_rows_have_a_context_unless_they_have_a_column_of_headers(bootstrap: str, traced: Traced) -> None:
    kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    headers = pyarrow.array([[{"key": "h", "value": b"x"}]], kind)
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_arrow(pyarrow.table({"value": [b"a"]}), "arrow").result()
        producer.send_arrow(pyarrow.table({"value": [b"b"]}), "arrow", headers=[("c", b"d")]).result()
        rows = pyarrow.table({"value": [b"c"], "headers": headers})
        for data in (rows, rows.to_batches()[0], rows.to_reader()):
            producer.send_arrow(data, "arrow").result()
        producer.send_arrow(pyarrow.table({"value": [b"d"]}).to_reader(), "arrow").result()
    with reader(bootstrap, "arrow") as consumer:
        table = consumer.poll_arrow(5000)
    names = [[header["key"] for header in row] for row in table["headers"].to_pylist()]
    assert names == [["traceparent"], ["c", "traceparent"], ["h"], ["h"], ["h"], ["traceparent"]]
    assert [span.attributes["messaging.batch.message_count"] for span in traced.spans("send arrow")] == [1] * 6
    assert len(traced.spans("poll arrow")) == 1


def test_errors_end_spans_with_their_type(bootstrap: str, traced: Traced) -> None:
    producer = kafkatools.Producer(bootstrap_servers=bootstrap, max_request_size=1000)
    with pytest.raises(RecordTooLarge):
        producer.send("one", bytes(2000)).result()
    with pytest.raises(RecordTooLarge):
        producer.send_many("one", [bytes(2000)]).result()
    with pytest.raises(InvalidTopic):
        producer.send("a topic", b"a").result()
    producer.close()
    with pytest.raises(IllegalState):
        producer.send("one", b"a")
    with kafkatools.Consumer(bootstrap_servers=bootstrap) as consumer, pytest.raises(IllegalState):
        consumer.poll(0)
    types = ["RecordTooLarge", "RecordTooLarge", "InvalidTopic", "IllegalState", "IllegalState"]
    assert [span.attributes["error.type"] for span in traced.spans()] == types
    assert {span.status.status_code for span in traced.spans()} == {StatusCode.ERROR}
    assert all(span.events[0].name == "exception" for span in traced.spans())


def test_an_error_of_processing_is_recorded_and_raised(traced: Traced) -> None:
    record = kafkatools.ConsumerRecord("one", 0, 7, 0, 0, None, b"v", ())
    tracer = traced.provider.get_tracer("test")
    with tracer.start_as_current_span("job") as job, pytest.raises(KeyError), tracing.process(record):
        raise KeyError("price")
    (span,) = traced.spans("process one")
    assert (span.attributes["error.type"], span.status.status_code) == ("KeyError", StatusCode.ERROR)
    assert (span.parent.span_id, list(span.links)) == (job.get_span_context().span_id, [])


def test_the_current_span_is_linked_to_the_processing_of_a_traced_record(traced: Traced) -> None:
    headers = (("traceparent", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"),)
    record = kafkatools.ConsumerRecord("one", 0, 7, 0, 0, None, b"v", headers)
    with traced.provider.get_tracer("test").start_as_current_span("job") as job, tracing.process(record):
        pass
    (span,) = traced.spans("process one")
    assert (f"{span.context.trace_id:x}", f"{span.parent.span_id:x}") == ("1" * 32, "2" * 16)
    assert [link.context for link in span.links] == [job.get_span_context()]


def test_async_clients_write_the_same_spans(bootstrap: str, traced: Traced) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, max_request_size=1000) as producer:
            metadata = await producer.send_and_wait("async", b"a", b"k", partition=0)
            assert metadata.offset == 0
            await (await producer.send_many("async", [b"b", b"c"]))
            with pytest.raises(RecordTooLarge):
                await (await producer.send("async", bytes(2000)))
        async with aio.Consumer(bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.assign([("async", 0)])
            consumer.seek_to_beginning()
            async for record in consumer.read_to_end():
                with tracing.process(record, consumer):
                    await asyncio.sleep(0)

    asyncio.run(main())
    one, rows, failed = traced.spans("send async")
    assert (one.attributes["messaging.kafka.offset"], rows.attributes["messaging.batch.message_count"]) == (0, 2)
    assert failed.attributes["error.type"] == "RecordTooLarge"
    linked = [link.context.span_id for span in traced.spans("poll async") for link in span.links]
    assert linked == [one.context.span_id]
    first = traced.spans("process async")[0]
    assert (first.context.trace_id, first.parent.span_id) == (one.context.trace_id, one.context.span_id)
    assert len(traced.spans("process async")) == 3


def test_errors_that_nobody_retrieves_are_logged_all_the_same(bootstrap: str, traced: Traced) -> None:
    logged: list[str] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context["message"]))
        async with aio.Producer(bootstrap_servers=bootstrap, max_request_size=1000) as producer:
            await producer.send("async", b"x" * 2000)
            await producer.send_many("async", [b"x" * 2000])
            await producer.flush()
            await asyncio.sleep(0)
            with pytest.raises(RecordTooLarge):
                await (await producer.send("async", b"x" * 2000))
            await asyncio.sleep(0)
        gc.collect()

    asyncio.run(main())
    assert sorted(logged) == [f"{kind} exception was never retrieved" for kind in ("Future", "RowsFuture")]
    assert [span.status.status_code for span in traced.spans("send async")] == [StatusCode.ERROR] * 3


def test_share_consumers_write_the_spans_of_their_polls(bootstrap: str, traced: Traced) -> None:
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({("group", name): {"share.auto.offset.reset": "earliest"} for name in ("sync", "async")})
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("shared", b"a").result()

    async def read() -> None:
        async with aio.ShareConsumer(bootstrap_servers=bootstrap, group_id="async") as consumer:
            consumer.subscribe(["shared"])
            async for _ in consumer:
                break

    with kafkatools.ShareConsumer(bootstrap_servers=bootstrap, group_id="sync") as consumer:
        consumer.subscribe(["shared"])
        for record in consumer:
            with tracing.process(record, consumer):
                break
    asyncio.run(read())
    (send,) = traced.spans("send")
    polls = traced.spans("poll shared")
    assert [span.attributes["messaging.consumer.group.name"] for span in polls] == ["sync", "async"]
    assert [[link.context.span_id for link in span.links] for span in polls] == [[send.context.span_id]] * 2
    assert [span.context.trace_id for span in traced.spans("process")] == [send.context.trace_id]


def test_one_instrumented_producer_leaves_others_alone(bootstrap: str) -> None:
    traced = Traced()
    with (
        kafkatools.Producer(bootstrap_servers=bootstrap) as producer,
        kafkatools.Producer(bootstrap_servers=bootstrap) as other,
    ):
        tracing.instrument_producer(producer, traced.provider)
        tracing.instrument_producer(producer, traced.provider)
        producer.send("plain", b"traced").result()
        with suppress_instrumentation():
            producer.send("plain", b"suppressed").result()
        other.send("plain", b"other").result()
        tracing.uninstrument_producer(producer)
        producer.send("plain", b"after").result()
    with reader(bootstrap, "plain") as consumer:
        found = {record.value: len(record.headers) for record in consumer.read_to_end()}
    assert found == {b"traced": 1, b"suppressed": 0, b"other": 0, b"after": 0}
    assert [span.name for span in traced.spans()] == ["send plain"]


def test_without_an_sdk_records_are_sent_unchanged(bootstrap: str) -> None:
    tracing.KafkatoolsInstrumentor().instrument()  # the global provider of the API, which writes no spans
    try:
        with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
            futures = [producer.send("bare", b"a"), producer.send(kafkatools.ProducerRecord("bare", b"b"))]
            assert [future.result().offset for future in futures] == [0, 1]
            producer.send_many("bare", [b"c"]).result()
    finally:
        tracing.KafkatoolsInstrumentor().uninstrument()
    with reader(bootstrap, "bare") as consumer:
        assert [(record.value, record.headers) for record in consumer.read_to_end()] == [
            (b"a", ()),
            (b"b", ()),
            (b"c", ()),
        ]


def test_records_that_are_not_sampled_pass_the_decision_on(bootstrap: str) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        tracing.instrument_producer(producer, TracerProvider(sampler=ALWAYS_OFF))
        offsets = []
        producer.send("unsampled", b"a", callback=lambda metadata, error: offsets.append(metadata.offset)).result()
        assert offsets == [0]
    with reader(bootstrap, "unsampled") as consumer:
        ((name, value),) = next(iter(consumer.read_to_end())).headers
    assert (name, int(value[-2:], 16) & 1) == ("traceparent", 0)


def test_uninstrument_puts_the_original_methods_back() -> None:
    sync = (kafkatools.Producer, kafkatools.Consumer, kafkatools.ShareConsumer)
    kinds = (*sync, aio.Producer, aio.Consumer, aio.ShareConsumer)
    before = [dict(vars(kind)) for kind in kinds]
    tracing.KafkatoolsInstrumentor().instrument()
    assert [dict(vars(kind)) for kind in kinds] != before
    tracing.KafkatoolsInstrumentor().uninstrument()
    assert [dict(vars(kind)) for kind in kinds] == before


def test_clients_do_not_import_opentelemetry() -> None:
    code = (
        "import sys, kafkatools.aio; kafkatools.Producer, kafkatools.Consumer, kafkatools.ShareConsumer\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'kafkatools.tracing'))])"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "[]"


def test_without_the_package_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['opentelemetry.instrumentation'] = None; import kafkatools.tracing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "kafkatools.tracing needs the Python package opentelemetry-instrumentation: pip install" in run.stderr


def test_other_objects_and_providers_are_refused() -> None:
    with pytest.raises(TypeError, match="object is no Producer, Consumer or ShareConsumer"):
        tracing.instrument_producer(object())
    with pytest.raises(TypeError, match="tracer_provider must be a TracerProvider, not str"):
        tracing.KafkatoolsInstrumentor().instrument(tracer_provider="x")


def test_the_entry_point_names_the_instrumentor() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["opentelemetry_instrumentor"]["kafkatools"].partition(":")
    assert getattr(importlib.import_module(module), name) is tracing.KafkatoolsInstrumentor
