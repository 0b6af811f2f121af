"""Tasks that read from a topic and write to one, and the planning of a batch and of a stream, while their broker hangs
or is killed: run by hand, as Spark runs them. test_pipeline_faults.py has a whole stream."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from support.embedded import WITHOUT_RETENTION
from support.raw_client import RawClient
from support.waiting import eventually

import kafkatools

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kafkatools.pipeline.errors import PipelineError  # noqa: E402
from kafkatools.pipeline.sinks.options import read_options as sink_options  # noqa: E402
from kafkatools.pipeline.sinks.rows import write_rows  # noqa: E402
from kafkatools.pipeline.sources.live.options import read_options  # noqa: E402
from kafkatools.pipeline.sources.live.reader import close_idle  # noqa: E402
from kafkatools.pipeline.sources.live.source import LiveReader  # noqa: E402
from kafkatools.pipeline.sources.live.stream import LiveStreamReader  # noqa: E402
from kafkatools.pipeline.sources.schema import spark_schema  # noqa: E402

RECORDS = 40
FEW = {"kafka.max.partition.fetch.bytes": "200", "kafka.fetch.max.bytes": "200"}
"""Many small fetches for the records of a topic."""


class Broker:
    """A broker in a process of its own, which a fault stops in the middle of its work."""

    def __init__(self, broker: kafkatools.EmbeddedBroker) -> None:
        self._broker = broker
        self.bootstrap = broker.bootstrap

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Within it the port accepts connections and nothing is answered."""
        os.kill(self._broker.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def killed(self) -> Iterator[None]:
        """Within it the port refuses connections."""
        self._broker.kill()
        try:
            yield
        finally:
            self._broker.start()

    def while_dropped(self, api: str, work: Callable[[], Any], fault: contextlib.AbstractContextManager[None]) -> Any:
        """Start the work, of which one request of an API is never answered; let the fault happen then, and return the
        result of the work. What waits when the fault comes is the work, and not something before it."""
        with ThreadPoolExecutor(1) as pool:
            with self._broker.faults.add("drop", api=api) as dropped:
                result: Future[Any] = pool.submit(work)
                eventually(lambda: dropped.hits > 0, 120)
                with fault:
                    pass
            return result.result(300)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with kafkatools.EmbeddedBroker(WITHOUT_RETENTION, auto_create_topics_enable=False) as process:
        yield Broker(process)
    close_idle()


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """One partition with forty records in batches of five."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    with RawClient(broker.bootstrap) as client:
        client.create_topic(name, 1)
        for first in range(0, RECORDS, 5):
            client.produce_rows(name, 0, [(1000 + n, None, b"%d" % n, ()) for n in range(first, first + 5)])
    return name


def reader(broker: Broker, topic: str, **options: str) -> LiveReader:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    return LiveReader(spark_schema(False, False), read_options(given, is_streaming=False))


def values(planned: LiveReader) -> list[int]:
    """What the executors read of the planned tasks, each with a copy of the reader."""
    batches = [batch for split in planned.partitions() for batch in pickle.loads(pickle.dumps(planned)).read(split)]
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


FAULTS = {"hangs": Broker.hanging, "is killed": Broker.killed}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_task_reads_each_record_once_when_its_broker_comes_back(broker: Broker, topic: str, fault: str) -> None:
    settings = {**FEW, "kafka.request.timeout.ms": "1000"}
    planned = reader(broker, topic, **settings)
    found = broker.while_dropped("Fetch", lambda: values(planned), FAULTS[fault](broker))
    assert found == list(range(RECORDS))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_task_writes_each_record_once_when_its_broker_comes_back(broker: Broker, topic: str, fault: str) -> None:
    options = sink_options(
        {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "kafka.request.timeout.ms": "1000"}
    )
    rows = pa.record_batch({"value": [b"%d" % number for number in range(RECORDS, 3 * RECORDS)]})
    written = broker.while_dropped("Produce", lambda: write_rows(options, [rows]), FAULTS[fault](broker))
    assert written == {topic: 2 * RECORDS}
    assert values(reader(broker, topic)) == list(range(3 * RECORDS))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_task_that_reads_gives_up_after_the_patience_and_names_partition_and_broker(
    broker: Broker, topic: str, fault: str
) -> None:
    planned = reader(broker, topic, **FEW, **{"kafkaConsumer.pollTimeoutMs": "1500", "kafka.request.timeout.ms": "500"})
    splits = planned.partitions()
    with FAULTS[fault](broker), pytest.raises(PipelineError) as failed:
        list(planned.read(splits[0]))
    assert str(failed.value).startswith(f"{topic}-0: "), failed.value
    assert broker.bootstrap in str(failed.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_task_that_writes_gives_up_after_the_delivery_timeout_and_names_the_partition(
    broker: Broker, topic: str, fault: str
) -> None:
    timeouts = {"kafka.delivery.timeout.ms": "1500", "kafka.request.timeout.ms": "500", "kafka.max.block.ms": "1500"}
    options = sink_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, **timeouts})
    rows = pa.record_batch({"value": [b"x"]})
    with FAULTS[fault](broker), pytest.raises(PipelineError) as failed:
        write_rows(options, [rows])
    assert str(failed.value).startswith("kt sink: "), failed.value
    assert topic in str(failed.value)
    assert broker.bootstrap in str(failed.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_planning_a_batch_gives_up_and_names_the_broker(broker: Broker, topic: str, fault: str) -> None:
    planned = reader(broker, topic, **{"kafka.default.api.timeout.ms": "1500", "kafka.request.timeout.ms": "500"})
    with FAULTS[fault](broker), pytest.raises(PipelineError, match=f"^{broker.bootstrap}: "):
        planned.partitions()


@pytest.mark.parametrize("fault", FAULTS)
def test_planning_a_trigger_waits_for_the_patience_and_not_longer(broker: Broker, topic: str, fault: str) -> None:
    def stream(patience_ms: int) -> LiveStreamReader:
        timeouts = {"kafka.default.api.timeout.ms": "500", "kafka.request.timeout.ms": "500"}
        given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        given |= {"fetchOffset.retryIntervalMs": "50", "kafkaConsumer.pollTimeoutMs": str(patience_ms), **timeouts}
        return LiveStreamReader(spark_schema(False, False), read_options(given, is_streaming=True))

    patient, hasty = stream(300_000), stream(1500)
    start = patient.initialOffset()
    assert hasty.initialOffset() == start
    with ThreadPoolExecutor(1) as pool:
        with FAULTS[fault](broker):
            result = pool.submit(patient.latestOffset, start, None)
            with pytest.raises(PipelineError, match=f"^{broker.bootstrap}: "):
                hasty.latestOffset(start, None)
            assert not result.done()
        assert result.result(300)[topic] == {"0": RECORDS}
    patient.stop()
    hasty.stop()
