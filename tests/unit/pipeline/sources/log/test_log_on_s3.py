"""Segment files on S3, which moto serves, against the same files on the disk: rows, damaged ranges with their
positions, and what is told of them; and a store that is gone or does not answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support import recorded_segments
from support.recorded_segments import log_directory

pytest.importorskip("pyspark")
s3fs = pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")

from support.file_batches import read_file_batches  # noqa: E402

from kafkatools.pipeline import storage  # noqa: E402
from kafkatools.pipeline.errors import PipelineError  # noqa: E402
from kafkatools.pipeline.run.batch import reports_directory  # noqa: E402
from kafkatools.pipeline.run.read_metrics import NewReports  # noqa: E402
from kafkatools.pipeline.run.reports import SplitReport, read_reports  # noqa: E402
from kafkatools.pipeline.run.spec import Pipeline, Sink  # noqa: E402
from kafkatools.pipeline.sources.log.source import KafkaLogDataSource  # noqa: E402
from kafkatools.pipeline.uris import Uri  # noqa: E402

pytestmark = pytest.mark.slow

BUCKET = "s3://logs"


@contextlib.contextmanager
def store_at(endpoint: str) -> Iterator[None]:
    """The store that the environment names."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
        }.items():
            patched.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        try:
            yield
        finally:
            s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    import boto3

    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    try:
        with store_at(f"http://{host}:{port}"):
            boto3.client("s3").create_bucket(Bucket="logs")
            yield BUCKET
    finally:
        moto.stop()


def upload(directory: pathlib.Path, url: str) -> None:
    for file in directory.rglob("*"):
        if file.is_file():
            storage.write_bytes(f"{url}/{file.relative_to(directory)}", file.read_bytes())


def read(place: str, reports: pathlib.Path, **options: str) -> tuple[Counter[str], list[tuple[Any, ...]]]:
    """The rows of a log directory, and the damaged ranges of the readers' reports, both without the directory's
    name."""
    source = KafkaLogDataSource({"path": place, "reportPath": str(reports), **options})
    reader = source.reader(source.schema())
    rows: Counter[str] = Counter()
    for task in reader.partitions():
        for batch in reader.read(task):
            rows.update(json.dumps(row, default=str).replace(place, "") for row in batch.to_pylist())
    damages = [
        (damage.file.removeprefix(place), *dataclasses.astuple(damage)[1:])
        for report in read_reports(str(reports))
        for damage in report.damages
    ]
    return rows, sorted(damages)


def damaged_names() -> list[str]:
    """All but the one whose only segment is missing."""
    names = {name for archive, name, _ in recorded_segments.names() if archive == "damaged-logs"}
    return sorted(names - {"damaged-log-missing"})


@pytest.mark.parametrize("name", damaged_names())
def test_recorded_damage_is_the_same_on_s3_as_on_the_disk(name: str, bucket: str, tmp_path: pathlib.Path) -> None:
    log = log_directory(name)
    upload(log, f"{bucket}/{name}/t-0")
    here = pathlib.Path(shutil.copytree(log, tmp_path / "t-0"))
    local = read(str(here), tmp_path / "local")
    assert read(f"{bucket}/{name}/t-0", tmp_path / "remote") == local
    assert read(f"{bucket}/{name}/t-0", tmp_path / "errors", table="errors")[0] == Counter(
        read(str(here), tmp_path / "local errors", table="errors")[0]
    )


def test_several_damages_of_a_log_are_the_same_on_s3_in_small_splits(bucket: str, tmp_path: pathlib.Path) -> None:
    """A changed record, an unknown magic, a size that points behind the file, zeros, and a tail that is cut off."""
    ledger = pathlib.Path(shutil.copytree(log_directory("multi-segment"), tmp_path / "ledger-0"))
    files = sorted(ledger.glob("*.log"))
    starts = [[batch.position for batch in read_file_batches(file.read_bytes())] for file in files]
    changes = ((1, 5, 80, b"\xff"), (2, 3, 16, b"\x07"), (3, 4, 8, b"\x7f\xff\xff\xff"), (4, 2, 0, bytes(61)))
    for segment, batch, shift, data in changes:
        content = bytearray(files[segment].read_bytes())
        at = starts[segment][batch] + shift
        content[at : at + len(data)] = bytes(byte ^ 0xFF for byte in content[at : at + 1]) if shift == 80 else data
        files[segment].write_bytes(content)
    files[-1].write_bytes(files[-1].read_bytes()[: starts[-1][-1] + 40])
    upload(ledger, f"{bucket}/ledger-0")
    local = read(str(ledger), tmp_path / "local")
    assert {pathlib.Path(damage[0]).name for damage in local[1]} >= {files[at].name for at in (1, 2, 3, 4, -1)}
    for name, options in {"whole": {}, "split": {"splitBytes": "2048"}}.items():
        assert read(f"{bucket}/ledger-0", tmp_path / name, **options) == local, name


def test_reports_that_other_processes_have_written_since_the_last_look_are_read(bucket: str) -> None:
    import boto3

    def write(start: int) -> None:
        report = SplitReport("t", 0, "file", start, start + 10, records=1)
        body = json.dumps(dataclasses.asdict(report)).encode()
        boto3.client("s3").put_object(Bucket="logs", Key=f"reports/input/{report.name}", Body=body)

    reports = NewReports(f"{bucket}/reports")
    write(0)
    assert reports.sums()[2] == 1
    write(10)
    assert reports.sums()[2] == 1
    assert reports.sums()[2] == 0
    write(20)
    assert len(list(read_reports(f"{bucket}/reports/input"))) == 3


def test_the_report_directory_of_a_store_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "STORE_TIMEOUT_S", 0.3)
    monkeypatch.setattr(storage, "STORE_ATTEMPTS", 2)
    pipeline = Pipeline((), Sink(Uri("console", "")), report_path=BUCKET)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with (
        store_at(f"http://127.0.0.1:{port}"),
        pytest.raises(PipelineError, match=f"^{BUCKET}/kt-.* cannot be deleted: "),
        reports_directory(pipeline),
    ):
        pass


def test_a_store_that_is_gone_or_silent_is_an_error_that_names_the_file(
    bucket: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has accepted the connection and does not answer, or refuses it."""
    monkeypatch.setattr(storage, "STORE_TIMEOUT_S", 0.3)
    monkeypatch.setattr(storage, "STORE_ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with store_at(f"http://127.0.0.1:{port}"), pytest.raises(PipelineError) as waited:
            read(f"{bucket}/ledger-0", tmp_path / "silent")
    with store_at(f"http://127.0.0.1:{port}"), pytest.raises(PipelineError) as refused:
        read(f"{bucket}/ledger-0", tmp_path / "refused")
    for error in (waited, refused):
        assert str(error.value).startswith(f"{bucket}/ledger-0 cannot be read: "), error.value
        assert f"http://127.0.0.1:{port}" in str(error.value), error.value
        assert str(error.value).endswith(f"; {storage.UNREACHABLE}"), error.value
