"""kt replay in this process: wrong input, loops, the rate, and that the records sent are those of the source."""

from __future__ import annotations

import json
import pathlib
import shutil
import time
from collections.abc import Iterator

import pytest
from support import recorded_segments
from support.dumped_records import batches_of
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("log")
    shutil.copytree(recorded_segments.log_directory("plain-java"), directory / "orders-0")
    return directory


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("data"), num_partitions="2") as address:
        for topic in ("again", "loop", "slow"):
            assert run_kt("topics", "--bootstrap-server", address, "--create", "--topic", topic).status == 0
        yield address


REFUSED = {
    ("--dry-run",): "The source is missing: topic:NAME or log:PATH",
    ("orders",): "Invalid source 'orders': write topic:orders",
    ("csv:x",): "csv:x: unsupported source; use topic:NAME or log:PATH",
    ("log:{log}", "--rate", "fast"): "--rate takes records per second, a number above 0, not fast",
    ("log:{log}", "--rate", "0"): "--rate takes records per second, a number above 0, not 0",
    ("log:{log}", "--to", "csv:x"): "csv:x: replay writes to a topic; use topic:NAME",
    ("log:{log}", "--to", "topic:a,b"): "The sink topic:a,b must name exactly one topic",
    ("log:{log}", "--max-replays", "many"): "max-replays",
    ("log:{log}", "--where", "nothing = 1"): '--where: column 1: Referenced column "nothing"',
    ("log:{log}", "--from-option", "a=b"): "--from-option needs --engine spark",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_wrong_options_are_refused(words: tuple[str, ...], log: pathlib.Path) -> None:
    ran = run_kt("replay", *(word.format(log=log) for word in words))
    assert (ran.status, ran.out) == (2, "") and REFUSED[words] in ran.err.splitlines()[0], ran


def failure(*words: str) -> str:
    ran: Ran = run_kt("replay", *words)
    assert (ran.status, ran.err.count("\n")) == (1, 1), ran
    return ran.err


def test_wrong_places_are_failures(log: pathlib.Path, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    assert "ghost" in failure("topic:ghost", *server)
    assert "ghost" in failure(f"log:{log}", "--to", "topic:ghost", *server)
    assert "absent does not exist" in failure("log:absent", "--to", "topic:loop", *server)
    loop = failure("topic:loop", "--to", "topic:loop", *server)
    assert loop == "loop would be both read and written; --allow-loop permits that\n"
    cast = failure(f"log:{log}", "--to", "topic:loop", "--where", "CAST(value AS INTEGER) > 1", *server)
    assert cast.startswith("--where: column 1: Could not convert")
    consumed = run_kt("console-consumer", *server, "--topic", "loop", "--from-beginning", "--exit-at-end")
    assert consumed.out == ""


def test_files_are_sent_to_a_topic(log: pathlib.Path, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    records = [record for batch in batches_of("topics", "plain-java", "log-print") for record in batch.records]
    dry = run_kt("replay", f"log:{log}", "--to", "topic:again", "--dry-run", *server)
    assert dry.err == f"Dry run: {len(records)} records would be sent\n"
    ran = run_kt("replay", f"log:{log}", "--to", "topic:again", "--keep-timestamps", "--json", *server)
    assert json.loads(ran.out) == {
        "type": "replay", "topic": "orders", "target": "again", "decision": "send", "records": len(records),
    }  # fmt: skip
    consumed = run_kt("console-consumer", *server, "--topic", "again", "--from-beginning", "--exit-at-end", "--json")
    came = [json.loads(line) for line in consumed.out.splitlines()]
    assert len(came) == len(records)
    assert all(row["headers"][-1] == ["kt-replays", "1"] for row in came)
    source = run_kt("console-consumer", "--from", f"log:{log}", "--topic", "orders", "--json").out.splitlines()
    assert sorted(row["timestamp"] for row in came) == sorted(json.loads(line)["timestamp"] for line in source)


def test_the_rate_is_kept(log: pathlib.Path, bootstrap: str) -> None:
    started = time.monotonic()
    words = ("--where", "offset BETWEEN 40 AND 59", "--rate", "10", "--bootstrap-server", bootstrap)
    assert run_kt("replay", f"log:{log}", "--to", "topic:slow", *words).err == "20 records sent\n"
    assert time.monotonic() - started >= 1  # the second ten wait for a second


def test_records_without_an_origin_are_named(log: pathlib.Path) -> None:
    records = json.loads(run_kt("count", f"log:{log}", "--json").out)["records"]
    ran = run_kt("replay", f"log:{log}")
    assert ran.status == 3, "as after kt redrive, a script must not take them for sent"
    assert ran.err == (
        f"{records} records left out: no header names the topic to send to; see --to and --topic-header\n"
        "0 records sent\n"
    )
    dry = run_kt("replay", f"log:{log}", "--dry-run", "--json")
    assert (dry.status, json.loads(dry.out)) == (
        3,
        {"type": "replay", "topic": "orders", "target": None, "decision": "no-origin", "records": records},
    )


def test_records_replayed_too_often_are_named(log: pathlib.Path, bootstrap: str) -> None:
    server = ("--bootstrap-server", bootstrap)
    ran = run_kt("replay", f"log:{log}", "--to", "topic:again", "--max-replays", "0", "--where", "offset < 2", *server)
    assert ran.status == 3
    assert ran.err == ("2 records left out: replayed 0 times or more already; see --max-replays\n0 records sent\n")
