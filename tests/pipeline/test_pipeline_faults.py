"""Runs whose broker and schema registry hang, are killed and come back, and whose schema changes meanwhile: every
record once, each wait told, and a Ctrl-C that ends them while nothing answers."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support.avro_values import registered_value
from support.kt import run_kt
from support.schema_registry import Answer, Request, serving
from support.waiting import eventually

import kafkatools
from kafkatools.pipeline.run import services
from kafkatools.pipeline.run.wait_notices import WaitTimer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
PATIENCE_S = 600.0


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, *fields]}


NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OLD = record(NOTE)
WIDER = record(NOTE, {"name": "price", "type": ["null", "double"], "default": None})
NARROWER = record()
"""The second schema adds the field `price`, the third one removes both."""


class Registry:
    """A schema registry with the schemas 1, 2, ... of the topic `orders`. It can hang, and be stopped and started again
    on its port."""

    def __init__(self) -> None:
        self.schemas: list[Any] = [OLD]
        self._answers = threading.Event()
        self._answers.set()
        self._port = 0
        self._running = contextlib.ExitStack()
        self._start()

    def _start(self) -> None:
        server = self._running.enter_context(serving(self._answer, port=self._port))
        self._port, self.url = server.server_port, server.url

    def _answer(self, request: Request) -> Answer:
        self._answers.wait()
        newest = len(self.schemas)
        known = {f"/schemas/ids/{number}": number for number in range(1, newest + 1)}
        number = {**known, "/subjects/orders-value/versions/latest": newest}.get(request.path)
        if number is None:
            return Answer(404, json.dumps({"error_code": 40403, "message": "not found"}))
        return Answer(200, json.dumps({"id": number, "schema": json.dumps(self.schemas[number - 1])}))

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Within it requests are accepted and not answered."""
        self._answers.clear()
        try:
            yield
        finally:
            self._answers.set()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Within it the port refuses connections."""
        self._running.close()
        try:
            yield
        finally:
            self._start()

    def close(self) -> None:
        self._answers.set()
        self._running.close()


@pytest.fixture
def registry() -> Iterator[Registry]:
    made = Registry()
    try:
        yield made
    finally:
        made.close()


class Place:
    """A broker, the topics `orders` and `rows`, and the records of `orders`."""

    def __init__(self, broker: kafkatools.EmbeddedBroker) -> None:
        self.broker = broker
        self.expected: list[dict[str, Any]] = []
        for topic in ("orders", "rows"):
            self.kt("topics", "--create", "--topic", topic, "--partitions", "2")

    def kt(self, command: str, *words: str) -> str:
        ran = run_kt(command, "--bootstrap-server", self.broker.bootstrap, *words)
        assert ran.status == 0, ran.err
        return ran.out

    def send(self, number: int, schema: Any, *, row: dict[str, Any], **value: Any) -> None:
        """Send twenty records with the schema of a number; `row` has what becomes of them, besides the id."""
        with kafkatools.Producer(bootstrap_servers=self.broker.bootstrap) as producer:
            for _ in range(20):
                order = {"id": len(self.expected), **value}
                producer.send("orders", registered_value(number, schema, order), partition=order["id"] % 2)
                self.expected.append({"id": order["id"], **row})

    def rows(self) -> list[dict[str, Any]]:
        """The rows that a reader of committed records sees, by id."""
        words = ("--topic", "rows", "--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
        rows = [json.loads(line) for line in self.kt("console-consumer", *words).splitlines()]
        return sorted(rows, key=lambda row: int(row["id"]))

    def await_rows(self) -> None:
        eventually(lambda: len(self.rows()) >= len(self.expected), PATIENCE_S)
        assert self.rows() == self.expected

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Within it the broker is stopped: its port accepts connections and answers nothing."""
        os.kill(self.broker.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.broker.pid, signal.SIGCONT)


@pytest.fixture
def place() -> Iterator[Place]:
    with kafkatools.EmbeddedBroker(auto_create_topics_enable=False) as broker:
        yield Place(broker)


class Running:
    """`kt pipeline run` in a process of its own, and the lines that it prints on stderr."""

    def __init__(self, words: list[str], mark: str) -> None:
        environ = {**os.environ, "KT_TEST_MARK": mark, "KT_JOURNAL": "off"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafkatools", "pipeline", "run", *words], env=environ, text=True,
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    def await_line(self, beginning: str, end: str = "") -> None:
        def is_there() -> bool:
            assert self.process.poll() is None, self.lines
            return any(line.startswith(beginning) and line.endswith(end) for line in self.lines)

        eventually(is_there, PATIENCE_S)
        self.lines.clear()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


def words_of(place: Place, registry: Registry, checkpoint: pathlib.Path) -> list[str]:
    return [
        "--from", "topic:orders", "--from-option", "startingOffsets=earliest", "--value", "avro", "--schema-registry",
        registry.url, "--to", "topic:rows", "--bootstrap-server", place.broker.bootstrap, "--stream", "--checkpoint",
        str(checkpoint),
    ]  # fmt: skip


@pytest.mark.xdist_group("official")
def test_a_stream_outlives_its_broker_and_registry_and_a_changed_schema(
    place: Place, registry: Registry, spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    words, mark = words_of(place, registry, tmp_path / "checkpoint"), uuid.uuid4().hex
    broker, asked = f"broker {place.broker.bootstrap}", f"schema registry {registry.url}"
    place.send(1, OLD, note="a", row={"note": "a"})
    with Running([*words, "--master", "local[2]"], mark) as stream:
        place.await_rows()

        registry.schemas.append(WIDER)
        place.send(2, WIDER, note="b", price=2.5, row={"note": "b"})
        stream.await_line("topic:orders: values of a newer schema have fields that the columns of this stream lack")
        place.await_rows()

        registry.schemas.append(NARROWER)
        with registry.hanging():
            place.send(3, NARROWER, row={})
            stream.await_line(f"Waiting for {asked} for ", "; a task that needs a schema waits a minute for it")
        stream.await_line(f"{asked[0].upper()}{asked[1:]} answers again")
        place.await_rows()
        with registry.stopped():
            place.send(3, NARROWER, row={})
        place.await_rows()

        with place.hanging():
            stream.await_line(
                f"Waiting for {broker} for ", "writing topic:rows waits at most 120 s (kafka.delivery.timeout.ms)"
            )
        stream.await_line(f"{broker[0].upper()}{broker[1:]} answers again")
        place.send(1, OLD, note="c", row={"note": "c"})
        place.await_rows()
        place.broker.kill()
        place.broker.start()
        place.send(1, OLD, note="d", row={"note": "d"})
        place.await_rows()

        with place.hanging():
            stream.process.send_signal(signal.SIGINT)
            assert stream.process.wait(PATIENCE_S) == 130
        assert not any("Traceback" in line for line in stream.lines), stream.lines
    eventually(lambda: not processes_of(mark), 60)

    registry.schemas.append(WIDER)
    place.send(4, WIDER, note="e", price=4.5, row={"note": "e", "price": 4.5})
    again = run_kt("pipeline", "run", *words, "--trigger", "available-now")
    assert again.status == 0, again.err
    assert place.rows() == place.expected, "the new field from the restart on, and each record once"
    assert "newer schema" not in again.err


@pytest.mark.xdist_group("spark")
def test_a_resumed_run_has_the_columns_of_the_newest_schema(
    place: Place, registry: Registry, spark: SparkSession, tmp_path: pathlib.Path
) -> None:
    words = [
        "--from", "topic:orders", "--value", "avro", "--schema-registry", registry.url, "--sql",
        "SELECT value.* FROM input", "--to", f"parquet:{tmp_path / 'out'}", "--bootstrap-server",
        place.broker.bootstrap, "--manifest", str(tmp_path / "manifest.json"), "--resume", "--json",
    ]  # fmt: skip

    def run() -> dict[str, Any]:
        ran = run_kt("pipeline", "run", *words)
        assert ran.status == 0, ran.err
        source: dict[str, Any] = json.loads(ran.out)["sources"][0]
        return source

    place.send(1, OLD, note="a", row={"note": "a", "price": None})
    assert run()["values_with_unknown_fields"] == 0
    registry.schemas.append(WIDER)
    place.send(2, WIDER, note="b", price=2.5, row={"note": "b", "price": 2.5})
    assert run()["values_with_unknown_fields"] == 0
    registry.schemas.append(NARROWER)
    place.send(3, NARROWER, row={"note": None, "price": None})
    assert run()["values_with_unknown_fields"] == 0
    rows = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [row.asDict() for row in rows] == place.expected


@pytest.mark.xdist_group("spark")
def test_a_batch_waits_for_its_broker_and_says_so(
    place: Place, registry: Registry, spark: SparkSession, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"POLL_S": 0.1, "_FIRST_MS": 0, "_TIMEOUT_MS": 500}.items():
        monkeypatch.setattr(services, name, value)
    told, decide = threading.Event(), services.outage_lines

    def lines(timer: WaitTimer, unavailable: Mapping[str, str], *rest: Any) -> list[str]:
        result = decide(timer, unavailable, *rest)
        if result:
            told.set()
        return result

    monkeypatch.setattr(services, "outage_lines", lines)
    place.send(1, OLD, note="a", row={})
    words = ["--from", "topic:orders", "--from-option", "kafka.request.timeout.ms=1000", "--to", "console:", "--json"]
    words += ["--sql", "SELECT offset FROM input", "--bootstrap-server", place.broker.bootstrap]
    with ThreadPoolExecutor(1) as pool:
        with place.broker.faults.add("drop", api="Fetch") as dropped:
            result = pool.submit(run_kt, "pipeline", "run", *words)
            eventually(lambda: dropped.hits > 0, PATIENCE_S)
            with place.hanging():
                assert told.wait(PATIENCE_S)
        ran = result.result(PATIENCE_S)
    assert ran.status == 0, ran.err
    assert len(ran.out.splitlines()) == len(place.expected)
    assert f"Waiting for broker {place.broker.bootstrap} for 0 s: " in ran.err
    hasty = ["--from-option", "kafkaConsumer.pollTimeoutMs=1500"]
    with place.broker.faults.add("drop", api="Fetch"):
        failed = run_kt("pipeline", "run", *words, *hasty)
    assert failed.status == 1
    message = json.loads(failed.err.splitlines()[-1])["error"]["message"]
    assert message.startswith("orders-") and place.broker.bootstrap in message, message


def test_ctrl_c_ends_a_batch_whose_sink_hangs(place: Place, registry: Registry, tmp_path: pathlib.Path) -> None:
    mark = uuid.uuid4().hex
    place.send(1, OLD, note="a", row={})
    words = ["--from", "topic:orders", "--to", "topic:rows", "--bootstrap-server", place.broker.bootstrap]
    with place.broker.faults.add("drop", api="Produce") as dropped:
        with Running([*words, "--master", "local[2]"], mark) as batch:
            eventually(lambda: dropped.hits > 0, PATIENCE_S)
            batch.process.send_signal(signal.SIGINT)
            assert batch.process.wait(PATIENCE_S) == 130
        assert not any("Traceback" in line for line in batch.lines), batch.lines
        eventually(lambda: not processes_of(mark), 60)


def processes_of(mark: str) -> list[str]:
    """The command lines of the processes that have the mark in their environment."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"KT_TEST_MARK={mark}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
