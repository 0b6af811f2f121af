"""Sources, sinks, manifests, checkpoints and reports on S3, which moto serves, in a session of Spark 4.0.0."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.official_spark import OfficialSpark
from support.recorded_logs import unpack_log
from support.s3_server import S3Server

import kafkatools
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError

pytest.importorskip("s3fs")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("tables")]

EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"


class Expired(BaseHTTPRequestHandler):
    """What S3 answers after the credentials have expired."""

    def do_GET(self) -> None:
        self.send_response(400)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(EXPIRED)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(EXPIRED)

    do_PUT = do_HEAD = do_DELETE = do_POST = do_GET  # noqa: N815 - names of BaseHTTPRequestHandler

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


class Place:
    """A broker, the Spark process and the bucket."""

    def __init__(self, spark4: OfficialSpark, bootstrap: str, directory: pathlib.Path) -> None:
        self.spark4, self.bootstrap, self.directory = spark4, bootstrap, directory

    def kt(self, *words: str, status: int = 0) -> tuple[str, str]:
        ran = self.spark4.call(run_there, words=words, directory=str(self.directory))
        assert ran[0] == status, ran
        return ran[1], ran[2]

    def send(self, topic: str, first: int, count: int) -> None:
        with kafkatools.Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(first, first + count):
                producer.send(topic, b"v%d" % number, key=b"k%d" % (number % 5))

    def values(self, uri: str) -> list[str]:
        found: list[str] = self.spark4.call(values_there, uri=uri)
        return found


@pytest.fixture(scope="module")
def place(s3: S3Server, spark4: OfficialSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """With the environment of the server in this process too."""
    with pytest.MonkeyPatch.context() as patched, embedded_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        for name, value in s3.environ.items():
            patched.setenv(name, value)
        yield Place(spark4, bootstrap, tmp_path_factory.mktemp("place"))


def run_there(spark: Any, words: list[str], directory: str) -> Any:
    """Runs in the process, whose session the command shares."""
    from support.kt import run_kt

    ran = run_kt("pipeline", *words, cwd=directory)
    return [ran.status, ran.out, ran.err]


def values_there(spark: Any, uri: str) -> Any:
    """Runs in the process."""
    kind, _, path = uri.partition(":")
    return sorted(row[0] for row in spark.read.format(kind).load(path).selectExpr("CAST(value AS STRING)").collect())


def test_a_run_with_manifest_and_reports_on_s3_is_resumed_and_verified(place: Place) -> None:
    place.send("runs", 0, 20)
    words = (
        "run", "--from", "topic:runs", "--to", "parquet:s3a://lake/runs", "--manifest", "s3://lake/m/runs.json",
        "--resume", "--report-path", "s3://lake/reports", "--bootstrap-server", place.bootstrap,
    )  # fmt: skip
    assert "topic:runs: 20 records" in place.kt(*words)[1]
    place.send("runs", 20, 5)
    assert "topic:runs: 5 records" in place.kt(*words)[1]
    assert place.values("parquet:s3a://lake/runs") == sorted(f"v{at}" for at in range(25))
    content = json.loads(storage.read_bytes("s3://lake/m/runs.json") or b"")
    assert content["sink"]["rows"] == content["sources"][0]["records"] == 25
    assert storage.kind_of("s3://lake/reports") is None, "reports are deleted"
    assert storage.read_bytes("s3://lake/m/runs.json.journal") is None
    checked = ("verify", "s3://lake/m/runs.json", "--bootstrap-server", place.bootstrap)
    assert place.kt(*checked)[0].startswith("The sources and the sink match the manifest: 25 records read")
    gone = content["sink"]["files"][0]["path"]
    storage.delete_file(f"s3://lake/runs/{gone}")
    assert place.kt(*checked, status=3)[0] == f"parquet:s3a://lake/runs: {gone}: is missing\n"


def test_a_stream_with_checkpoint_on_s3_into_a_delta_table_there(place: Place) -> None:
    words = (
        "run", "--from", "topic:streamed", "--from-option", "startingOffsets=earliest", "--stream", "--trigger",
        "available-now", "--checkpoint", "s3a://lake/state", "--to", "delta:s3a://lake/streamed", "--manifest",
        "s3://lake/m/streamed.json", "--bootstrap-server", place.bootstrap,
    )  # fmt: skip
    for first in (0, 10):
        place.send("streamed", first, 10)
        place.kt(*words)
        assert place.values("delta:s3a://lake/streamed") == sorted(f"v{at}" for at in range(first + 10))
    checked = place.kt("verify", "s3://lake/m/streamed.json", "--bootstrap-server", place.bootstrap)[0]
    assert checked.endswith("20 records read, version 1 of delta:s3a://lake/streamed written\n")


def test_an_export_to_s3_adds_what_came_since(place: Place) -> None:
    words = ("export", "topic:exported", "--to", "json:s3a://lake/exported", "--partition-by", "none", "--text")
    for first in (0, 10):
        place.send("exported", first, 10)
        told = place.kt(*words, "--bootstrap-server", place.bootstrap)[1]
        assert told.endswith("added (1 round)\n") and "json:s3a://lake/exported: 10 rows" in told
        assert place.values("json:s3a://lake/exported") == sorted(f"v{at}" for at in range(first + 10))
    assert place.kt(*words, "--bootstrap-server", place.bootstrap)[1].endswith("up to date\n")


def test_damage_on_s3_is_reported_as_on_a_disk(place: Place, tmp_path: pathlib.Path) -> None:
    log = unpack_log("codec-lz4-java", tmp_path)
    (segment,) = log.rglob("*.log")
    spoilt = bytearray(segment.read_bytes())
    spoilt[100] ^= 1
    segment.write_bytes(spoilt)
    directory = segment.parent
    for file in directory.iterdir():
        storage.write_bytes(f"s3://lake/damaged/{directory.name}/{file.name}", file.read_bytes())
    sql = ("--sql", "SELECT count(*) AS n FROM input", "--to", "console:")
    here = place.kt("run", "--from", f"log:{directory}", *sql, status=3)
    there = place.kt("run", "--from", f"log:s3://lake/damaged/{directory.name}", *sql, status=3)
    assert "1 damaged range, the first in" in here[1]
    assert there[0] == here[0]
    assert there[1] == here[1].replace(str(directory), f"s3://lake/damaged/{directory.name}")


def test_expired_credentials_are_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    place.send("expired", 0, 1)
    with ThreadingHTTPServer(("127.0.0.1", 0), Expired) as store:
        thread = threading.Thread(target=store.serve_forever)
        thread.start()
        try:
            endpoint = f"http://127.0.0.1:{store.server_port}"
            told = place.spark4.call(
                expired_there, endpoint=endpoint, bootstrap=place.bootstrap, directory=str(place.directory)
            )
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            s3fs.S3FileSystem.clear_instance_cache()
            with pytest.raises(PipelineError) as refused:
                storage.write_bytes("s3://lake/x", b"")
        finally:
            store.shutdown()
            thread.join()
            s3fs.S3FileSystem.clear_instance_cache()
    advice = storage.CREDENTIALS
    assert str(refused.value) == f"s3://lake/x cannot be written: The provided token has expired; {advice}"
    status, err = told
    assert status == 1
    (line,) = err.splitlines()
    assert line.startswith("s3a://refused/expired: ") and line.endswith(f"; {advice}"), line


def expired_there(spark: Any, endpoint: str, bootstrap: str, directory: str) -> Any:
    """Runs in the process: a run into a bucket of its own, whose store refuses the credentials."""
    from support.kt import run_kt

    spark._jsc.hadoopConfiguration().set("fs.s3a.bucket.refused.endpoint", endpoint)
    words = ("run", "--from", "topic:expired", "--to", "parquet:s3a://refused/expired", "--bootstrap-server", bootstrap)
    ran = run_kt("pipeline", *words, cwd=directory)
    return [ran.status, ran.err]
