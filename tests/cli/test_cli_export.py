"""kt export in this process: wrong input, what a killed or interrupted run leaves behind, and resuming."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest
from support import recorded_segments
from support.dumped_records import batches_of
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

OFFSETS = [
    offset
    for batch in batches_of("topics", "multi-segment", "log-all")
    for offset in range(batch.base_offset, batch.last_offset + 1)
]
"""Of the recorded log, from Apache Kafka's dump."""


class Killed(BaseException):
    """Ends a run as if by a signal."""


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    directory = tmp_path / "log"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), directory / "ledger-0")
    return directory


def offsets_in(out: pathlib.Path) -> list[int]:
    paths = [path for path in out.rglob("part-*") if "_kt-export" not in path.parts]
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["offset"] for line in lines)


REFUSED = {
    ("log:{log}",): 'Missing required argument "[to]"',
    ("log:{log}", "--to", "out"): "Invalid sink 'out': it must begin with one of topic:",
    ("log:{log}", "--to", "parquet:"): "parquet: needs a path after the colon",
    ("log:{log}", "--to", "orc:x"): "orc:x: unsupported target; use parquet:DIR, json:DIR, csv:DIR",
    ("log:{log}", "--to", "delta:x"): "--to delta:x needs --engine spark",
    ("parquet:in", "--to", "json:out"): "parquet:in: unsupported source; use topic:NAME or log:PATH",
    ("orders", "--to", "json:out"): "Invalid source 'orders': write topic:orders",
    ("log:{log}", "--to", "json:out", "--partition-by", "month"): "--partition-by takes date, topic",
    ("log:{log}", "--to", "json:out", "--round", "0"): "--round takes a number of offsets above 0, not 0",
    ("log:{log}", "--to", "json:out", "--where", "nothing = 1"): '--where: column 1: Referenced column "nothing"',
    ("log:{log}", "--to", "json:out", "--where", "value"): "--where: a condition is true or false, not VARCHAR",
    ("log:{log}", "--to", "json:out", "--where", "key ="): "--where: the SQL ends too early",
    ("log:{log}", "--to", "json:out", "--to-option", "a=b"): "--to-option needs --engine spark",
    ("log:{log}", "--to", "json:out", "--from-option", "a=b"): "--from-option needs --engine spark",
    ("log:{log}", "--to", "json:out", "--engine", "flink"): "flink",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_wrong_options_are_refused(words: tuple[str, ...], log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "here"
    directory.mkdir()
    ran = run_kt("export", *(word.format(log=log) for word in words), cwd=directory)
    assert (ran.status, ran.out) == (2, "") and REFUSED[words] in ran.err.splitlines()[0], ran
    assert list(directory.iterdir()) == []


def test_wrong_places_are_failures(log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def failure(source: str, target: str) -> str:
        ran = run_kt("export", source, "--to", target, cwd=tmp_path)
        assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1), ran
        return ran.err

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    assert "json:full contains files that are not an export; name an empty directory" in failure(
        f"log:{log}", "json:full"
    )
    assert "json:file contains files that are not an export" in failure(f"log:{log}", "json:file")
    assert "json:file/sub cannot be created: Not a directory" in failure(f"log:{log}", "json:file/sub")
    assert "json:s3://bucket/x must be a local directory" in failure(f"log:{log}", "json:s3://bucket/x")
    assert "absent does not exist" in failure(f"log:{tmp_path}/absent", "json:new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "full" / "_kt_export.json").write_text("{}")
    assert "_kt_export.json is not the state of an export: 'version'" in failure(f"log:{log}", "json:full")


def test_a_missing_topic_and_a_missing_broker(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        ran = run_kt("export", "topic:ghost", "--to", "json:out", "--bootstrap-server", bootstrap, cwd=tmp_path)
        assert ran.status == 1 and "ghost" in ran.err and ran.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The step at which the next run is killed, in a list; the run takes it out."""
    from kafkatools.pipeline.jobs.in_process.export_files import LocalDirectory

    steps: list[str] = []
    move = LocalDirectory.move

    def dying_move(directory: LocalDirectory, source: str, names: Any) -> None:
        names = list(names)
        move(directory, source, {"recorded": [], "moved half": names[:1]}.get(steps[0] if steps else "", names))
        if steps:
            raise Killed(steps.pop())

    monkeypatch.setattr(LocalDirectory, "move", dying_move)
    return steps


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_is_resumed(log: pathlib.Path, tmp_path: pathlib.Path, dying: list[str]) -> None:
    out = tmp_path / "out"
    words = ("export", f"log:{log}", "--to", f"json:{out}", "--round", str(len(OFFSETS) // 2 + 1))
    for step in ("recorded", "moved half", "moved"):
        dying[:] = [step]
        with pytest.raises(Killed):
            run_kt(*words)
        found = offsets_in(out)
        assert len(set(found)) == len(found)
    assert run_kt(*words).status == 0
    assert offsets_in(out) == OFFSETS and not (out / "_kt-export").exists()
    assert run_kt(*words).err == f"json:{out}: up to date\n"
    other = run_kt(*words, "--text")
    refused = (
        f"json:{out} belongs to another export: --text is not set there and set here;"
        " export into a new place, or repeat the earlier options\n"
    )
    assert (other.status, other.err) == (1, refused)


def interrupted(words: tuple[str, ...], until: pathlib.Path) -> subprocess.CompletedProcess[bytes]:
    """A run of kt that gets Ctrl-C once the stage exists."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkatools", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while process.poll() is None and not until.exists():
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@pytest.mark.slow
def test_ctrl_c_leaves_nothing_half_written(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "log"
    for number in range(60):  # enough to be in the middle of a round
        (root / f"t{number}-0").parent.mkdir(exist_ok=True)
        (root / f"t{number}-0").symlink_to(recorded_segments.log_directory("multi-segment"))
    out = tmp_path / "out"
    ended = interrupted(("export", f"log:{root}", "--to", f"json:{out}"), out / "_kt-export")
    assert ended.returncode == 130, ended
    assert not out.exists() or not offsets_in(out) and list(out.iterdir()) == []


def test_two_runs_into_one_directory(log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    import fcntl

    out = tmp_path / "out"
    out.mkdir()
    descriptor = os.open(out, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    ran = run_kt("export", f"log:{log}", "--to", f"json:{out}")
    os.close(descriptor)
    assert (ran.status, ran.err) == (1, f"{out}: another export into this directory is running\n")


def send(bootstrap: str, *lines: str) -> None:
    stdin = "".join(f"{line}\n" for line in lines).encode()
    assert run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", "t", stdin=stdin).status == 0


@pytest.mark.slow
def test_a_later_run_adds_new_records_and_names_deleted_ones(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:

        def export(*words: str) -> Ran:
            server = ("--bootstrap-server", bootstrap)
            return run_kt(
                "export", "topic:t", "--to", "csv:out", "--partition-by", "topic", *server, *words, cwd=tmp_path
            )

        send(bootstrap, "a", "b")
        assert export().err == "csv:out: 2 rows in 1 file added (1 round)\n"
        send(bootstrap, "c", "d", "e")
        deleted = run_kt("delete-records", "--bootstrap-server", bootstrap, "--topic", "t", "--before", "4")
        assert deleted.status == 0, deleted
        late = export("--json")
        assert (late.status, [json.loads(line) for line in late.out.splitlines()]) == (
            1,
            [
                {"type": "exported", "topic": "t", "partition": 0, "end_offset": 5},
                {"type": "export", "sink": "csv:out", "rows": 1, "files": 1, "rounds": 1},
            ],
        )
        assert "t-0: offsets 2 to 3 were deleted before they could be exported" in late.err
    texts = sorted(path.read_text() for path in (tmp_path / "out" / "topic=t").iterdir())
    assert sorted(line.split(",")[2] for text in texts for line in text.splitlines()[1:]) == ["a", "b", "e"]


def test_a_topic_that_was_created_again_with_as_many_records_is_refused(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path / "data") as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        words = ("export", "topic:t", "--to", "json:out", *server)
        send(bootstrap, "a", "b")
        assert run_kt(*words, cwd=tmp_path).status == 0
        assert run_kt("topics", "--delete", "--topic", "t", *server).status == 0
        send(bootstrap, "c", "d", "e")
        again = run_kt(*words, cwd=tmp_path)
        state = json.loads((tmp_path / "out" / "_kt_export.json").read_text())
        del state["topicIds"]  # as an earlier version wrote it
        (tmp_path / "out" / "_kt_export.json").write_text(json.dumps(state))
        unknown = run_kt(*words, cwd=tmp_path)
    assert again.status == 1
    assert "Topic t was deleted and created again since the last export into json:out" in again.err
    assert (unknown.status, unknown.err) == (0, "json:out: 1 row in 1 file added (1 round)\n")
    assert offsets_in(tmp_path / "out") == [0, 1, 2]


def test_a_condition_that_fails_on_a_record(log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    ran = run_kt("export", f"log:{log}", "--to", "json:out", "--where", "CAST(value AS INTEGER) > 1", cwd=tmp_path)
    assert (ran.status, ran.err.count("\n")) == (1, 1) and ran.err.startswith("--where: column 1: Could not convert"), (
        ran
    )
    assert not (tmp_path / "out").exists()


def test_directories_of_strange_topics(tmp_path: pathlib.Path) -> None:
    """As ExternalCatalogUtils.escapePathName of Spark: %, =, : and others become their code."""
    shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "log" / "50% a=b:c-0")
    assert (
        run_kt("export", f"log:{tmp_path}/log", "--to", f"json:{tmp_path}/out", "--partition-by", "topic").status == 0
    )
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"_kt_export.json", "topic=50%25 a%3Db%3Ac"}


@pytest.mark.parametrize(
    ("day", "text"),
    [(0, "1970-01-01"), (19_675, "2023-11-14"), (11_016, "2000-02-29"), (2_932_897, "+10000-01-01"),
     (-719_528, "0000-01-01"), (-719_529, "-0001-12-31"), (-1, "1969-12-31"), (106_751_991, "+294247-01-10")],
)  # fmt: skip
def test_days(day: int, text: str) -> None:
    """Expected values from java.time.LocalDate."""
    from kafkatools.pipeline.jobs.in_process.export_rows import date_text

    assert date_text(day) == text
