"""The jobs' commands in this process, on the session of the tests: topics of an embedded broker, and its files."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.embedded import embedded_broker
from support.json_schemas import schema_of
from support.kt import Ran, run_kt

KEYS = [f"k{(number * number) % 13}" for number in range(90)]
"""Of the record with the value v0, v1, ..."""

ORIGIN = "kafka_dlt-original-topic"


class Place(NamedTuple):
    """A broker, its log directory, and a directory for what runs write."""

    bootstrap: str
    log_dir: pathlib.Path
    directory: pathlib.Path

    def run(self, *words: str, status: int = 0, server: bool = False) -> Ran:
        """`kt pipeline` in the directory."""
        place = ("--bootstrap-server", self.bootstrap) if server else ()
        ran = run_kt("pipeline", *words, *place, cwd=self.directory)
        assert ran.status == status, (words, ran)
        return ran

    def rows(self, *words: str, status: int = 0, server: bool = False) -> dict[str, list[dict[str, Any]]]:
        """The rows of --json by their kind; each is one of the schema's."""
        ran = self.run(*words, "--json", status=status, server=server)
        found: dict[str, list[dict[str, Any]]] = {}
        for line in ran.out.splitlines():
            row = json.loads(line)
            assert schema_of("pipeline").kind_of(line) != "row", line
            found.setdefault(row.pop("type"), []).append(row)
        for line in ran.err.splitlines():
            schema_of("pipeline").kind_of(line, stderr=True)
        return found


def send(bootstrap: str, topic: str, lines: list[str], *words: str) -> None:
    properties = ("--property", "parse.key=true", "--property", "key.separator=|", *words)
    stdin = "".join(f"{line}\n" for line in lines).encode()
    sent = run_kt("console-producer", "--bootstrap-server", bootstrap, "--topic", topic, *properties, stdin=stdin)
    assert sent.status == 0, sent


def consumed(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    words = ("--from-beginning", "--exit-at-end", "--json")
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, *words)
    assert ran.status == 0, ran
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture(scope="module")
def place(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("jobs")
    with embedded_broker(directory / "data", num_partitions="2") as bootstrap:
        for topic in ("orders", "copy", "growing", "retried", "dead"):
            made = run_kt("topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "2")
            assert made.status == 0, made
        send(bootstrap, "orders", [f"{key}|v{number}" for number, key in enumerate(KEYS)])
        for topic in ("copy", "growing"):
            send(bootstrap, topic, [f"{key}|v{number}" for number, key in enumerate(KEYS) if number != 41])
        headers = ("--property", "parse.headers=true")
        lines = [f"{ORIGIN}:retried\tk5|retry {number}" for number in range(3)]
        send(bootstrap, "dead", [*lines, "why:unknown\tk6|lost"], *headers)
        run_kt("consumer-groups", "--bootstrap-server", bootstrap, "--group", "billing", "--topic", "orders",
               "--reset-offsets", "--to-earliest", "--execute", cwd=directory)  # fmt: skip
        yield Place(bootstrap, directory / "data", directory)


def test_counts(place: Place) -> None:
    by_offsets = place.rows("count", "topic:orders", server=True)["count"]
    exact = place.rows("count", "topic:orders", "--exact", server=True)["count"]
    files = place.rows("count", f"log:{place.log_dir}", "--exact", "--from-option", "subscribe=orders")["count"]
    assert sum(row["records"] for row in by_offsets) == len(KEYS)
    for rows, basis in ((exact, "records"), (files, "headers")):
        assert sum(row["records"] for row in rows) == len(KEYS) and {row["basis"] for row in rows} == {basis}
        assert sum(row["distinct_keys"] for row in rows) == len(set(KEYS)) == sum(row["live_keys"] for row in rows)
        assert [row["tombstones"] for row in rows] == [0, 0]
    assert {row["control_records"] for row in exact} == {None} and {row["control_records"] for row in files} == {0}
    told = place.run("count", f"log:{place.log_dir}", "--from-option", "subscribe=orders")
    assert f"records {len(KEYS)}" in told.err and told.out.split()[:3] == ["topic", "partition", "basis"]


def test_top_keys(place: Place) -> None:
    rows = place.rows("top-keys", "topic:orders", "--top", "3", server=True)
    counts = sorted(((KEYS.count(key), key) for key in set(KEYS)), key=lambda pair: (-pair[0], pair[1]))
    assert [(row["records"], row["key"]) for row in rows["key"]] == counts[:3]
    assert rows["key_skew"][0]["distinct_keys"] == len(set(KEYS))
    assert rows["partition_skew"][0]["partitions"] == 2


def test_a_topic_and_its_files_are_the_same_and_a_copy_is_not(place: Place) -> None:
    same = place.run("diff", "topic:orders", f"log:{place.log_dir}/orders-0,{place.log_dir}/orders-1", "--by", "offset",
                     "--compare", "key,value,headers,timestamp", server=True)  # fmt: skip
    assert same.out == "" and same.err == "0 only-left, 0 only-right, 0 changed\n"
    rows = place.rows("diff", "topic:orders", "topic:copy", "--by", "multiset", status=3, server=True)
    (difference,) = rows["difference"]
    assert (difference["side"], difference["key"], difference["value"]) == ("only-left", KEYS[41], "v41")
    counts = {"only_left": 1, "only_right": 0, "changed": 0, "left_not_compared": 0, "right_not_compared": 0}
    assert rows["summary"] == [counts]
    trouble = place.run("diff", "topic:orders", "topic:not-there", status=1, server=True)
    assert "not-there" in trouble.err and trouble.err.count("\n") == 1


def test_check_ends_with_3_for_damage(place: Place, tmp_path: pathlib.Path) -> None:
    shutil.copytree(place.log_dir / "orders-0", tmp_path / "orders-0")
    assert "0 damaged" in place.run("check", str(place.log_dir)).err
    log = tmp_path / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    (finding,) = place.rows("check", str(tmp_path), status=3)["finding"]
    assert (finding["file"], finding["position"], finding["severity"]) == (str(log), 0, "damage")
    assert finding["problem"] == "the checksum is wrong"
    for words in (("count", "--exact"), ("profile", "--out", "damaged.html"), ("export", "--to", "parquet:damaged")):
        told = place.run(words[0], f"log:{tmp_path}", *words[1:], status=3)
        assert f"1 damaged range skipped, the first: {log} at byte 0: Record is corrupt" in told.err
    assert "1 damaged range could not" in (place.directory / "damaged.html").read_text()
    nothing = place.run("check", str(tmp_path / "none"), status=1)
    assert nothing.err.splitlines()[0] == f"{tmp_path / 'none'}: there is no such file or directory"


def test_export_adds_what_came_since(place: Place) -> None:
    words = ("export", "topic:growing", "--to", "csv:exported", "--partition-by", "topic")
    rows = place.rows(*words, server=True)
    assert rows["export"][0]["rows"] == len(KEYS) - 1
    send(place.bootstrap, "growing", ["late|v99"])
    assert "1 row in 1 file added (1 round)" in place.run(*words, server=True).err
    assert place.run(*words, server=True).err == "csv:exported: up to date\n"
    texts = [path.read_text() for path in (place.directory / "exported" / "topic=growing").glob("*.csv")]
    assert sum(text.count("\n") - 1 for text in texts) == len(KEYS) and any("late,,v99" in text for text in texts)
    refused = place.run("export", "topic:growing", "--to", "orc:x", status=2, server=True)
    assert "parquet:DIR" in refused.err
    refused = place.run("export", "topic:growing", "--to", "delta:x", status=1, server=True)
    assert refused.err.startswith("delta:x needs Spark's package for delta, which is not loaded; add")


def test_replay(place: Place) -> None:
    plan = place.rows("replay", "topic:dead", "--dry-run", status=3, server=True)["replay"]
    assert [(row["target"], row["decision"], row["records"]) for row in plan] == [
        (None, "no-origin", 1),
        ("retried", "send", 3),
    ]
    assert consumed(place.bootstrap, "retried") == []
    words = ("--where", "CAST(value AS STRING) <> 'retry 1'")
    told = place.run("replay", "topic:dead", *words, "--rate", "1000", status=3, server=True)
    note = "1 record left out: no header names the topic to send to; see --to and --topic-header\n"
    assert told.err == note + "2 records sent\n"
    came = consumed(place.bootstrap, "retried")
    assert sorted(row["value"] for row in came) == ["retry 0", "retry 2"]
    assert all(row["headers"] == [[ORIGIN, "retried"], ["kt-replays", "1"]] for row in came)
    loop = place.run("replay", "topic:dead", "--to", "topic:dead", status=1, server=True)
    assert "--allow-loop" in loop.err


def test_forecasts(place: Place) -> None:
    words = (f"log:{place.log_dir}", "--from-option", "subscribe=orders")
    kept = place.rows("retention-forecast", *words)["segment"]
    assert [(row["topic"], row["reason"], row["is_due"]) for row in kept] == [("orders", "retention.ms", False)] * 2
    gone = place.rows("retention-forecast", *words, "--retention-bytes", "0")["segment"]
    assert [(row["reason"], row["is_due"]) for row in gone] == [("retention.bytes", True)] * 2
    assert "0 of 0 bytes" in place.run("compact-forecast", *words).err
    asked = place.rows("retention-forecast", *words, server=True)["segment"]
    assert [row["due"] for row in asked] == [row["due"] for row in kept]


def test_profile_of_a_topic_and_of_files(place: Place) -> None:
    rows = place.rows("profile", "topic:orders", "--out", "orders.html", server=True)
    assert sum(row["records"] for row in rows["partition"]) == len(KEYS)
    ends = {row["partition"]: row["last_offset"] + 1 for row in rows["partition"]}
    assert {row["partition"]: row["lag"] for row in rows["lag"]} == ends and {row["group"] for row in rows["lag"]} == {
        "billing"
    }
    page = (place.directory / "orders.html").read_text()
    assert "topic:orders" in page and 'id="lags"' in page and "<script" not in page
    files = place.rows("profile", f"log:{place.log_dir}", "--out", "log.html", "--no-keys")
    assert {row["topic"] for row in files["partition"]} >= {"orders", "copy", "dead"}
    assert [row["codec"] for row in files["codec"]] == ["none"]
    assert 'id="codecs"' in (place.directory / "log.html").read_text()
    refused = place.run("profile", "topic:orders", "--out", "no/where.html", status=1, server=True)
    assert refused.err == f"Cannot write 'no/where.html': the directory {place.directory}/no does not exist\n"
