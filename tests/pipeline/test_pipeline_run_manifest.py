"""Runs with a manifest: what it says, that a run goes on where it ended, that an interrupted one is finished, and that
`kt pipeline verify` sees what has changed. Streams from topic to topic."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.embedded import embedded_broker
from support.json_schemas import Schema, schema_of
from support.kt import Ran, run_kt
from support.log_batches import NOW_MS, make_batch

import kafkatools

_PRINTED = schema_of("pipeline").types
STORED = {
    "manifest": Schema("pipeline run", "pipeline", {"manifest": "Manifest"}, {}, {
        "Partition": _PRINTED["Partition"],
        "Damage": _PRINTED["Damage"],
        "Manifest": {
            "manifest": "integer", "kafkatools": "string", "spark": "string", "python": "string",
            "started_ms": "integer", "finished_ms": "integer", "runs": "integer", "pipeline": "Definition",
            "sources": "[Source]", "sink": "Sink",
        },
        "Definition": {
            "sources": "[SourceDefinition]", "sql": "string|null", "transform": "string|null", "stream": "boolean",
            "clusters": "{string|null}", "topic_ids": {"*": "{string}"},
            "sink": {"uri": "string", "options": "{string}", "partition_by": "[string]"},
        },
        "SourceDefinition": {
            "name": "string", "uri": "string", "options": "{string}", "key": "Decoding|null", "value": "Decoding|null",
        },
        "Decoding": {
            "format": "string", "schema": "string|null", "message": "string|null", "registry": "string|null",
        },
        "Source": {**_PRINTED["Source"], "files": "[SourceFile]|null"},
        "SourceFile": {"path": "string", "size": "integer", "modified_ms": "integer"},
        "Sink": {"uri": "string", "mode": "string", "rows": "integer|null", "files": "[SinkFile]|null",
                 "version?": "integer|null"},
        "SinkFile": {"path": "string", "size": "integer", "rows": "integer"},
    }),
}  # fmt: skip
"""What the files of a run hold, key by key: a manifest is read by the versions of kt that follow."""
STORED["journal"] = STORED["manifest"]._replace(lines={
    "journal": {
        "directory": "string", "staging": "string", "delete": "[string]", "move": "[string]", "manifest": "Manifest",
    },
})  # fmt: skip


class Place(NamedTuple):
    """A broker, and a directory for what runs write."""

    bootstrap: str
    directory: pathlib.Path

    def kt(self, *words: str, status: int = 0, stdin: bytes = b"") -> Ran:
        """`kt WORDS` at the broker, in the directory."""
        at = 2 if words[0] == "pipeline" else 1
        arguments = (*words[:at], "--bootstrap-server", self.bootstrap, *words[at:])
        ran = run_kt(*arguments, stdin=stdin, cwd=self.directory)
        assert ran.status == status, (words, ran)
        return ran

    def kill_at(self, owner: object, function: str, *words: str) -> None:
        """`kt WORDS`, which is killed where it calls a function of the owner."""

        class Killed(BaseException):
            """Stands for the end of the process."""

        def killed(*_: object) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(owner, function, killed)
            with pytest.raises(Killed):
                self.kt(*words)

    def kill_stream(self, *words: str) -> None:
        """`kt WORDS`, a stream that is killed before it writes its manifest."""
        from kafkatools.pipeline.run.recorded_stream import _Recorder

        self.kill_at(_Recorder, "end", *words)

    def send(self, topic: str, first: int, count: int) -> None:
        """Records with keys, so that both partitions get some."""
        lines = "".join(f"k{at}|v{at}\n" for at in range(first, first + count))
        words = ("--property", "parse.key=true", "--property", "key.separator=|")
        self.kt("console-producer", "--topic", topic, *words, stdin=lines.encode())

    def topic(self, name: str) -> str:
        self.kt("topics", "--create", "--topic", name, "--partitions", "2")
        return name

    def manifest(self, name: str) -> dict[str, Any]:
        """A manifest, which has all of its keys and no others."""
        return self.stored("manifest", name)

    def stored(self, kind: str, name: str) -> dict[str, Any]:
        """A file of a run, which has all keys of its kind and no others."""
        text = (self.directory / name).read_text()
        assert STORED[kind].kind_of(text) == kind
        content: dict[str, Any] = json.loads(text)
        return content

    def values(self, topic: str) -> list[str]:
        """What a topic holds, committed."""
        words = ("--from-beginning", "--exit-at-end", "--isolation-level", "read_committed")
        return sorted(self.kt("console-consumer", "--topic", topic, *words).out.splitlines())


@pytest.fixture(scope="module")
def place(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("manifests")
    with embedded_broker(directory / "data") as bootstrap:
        yield Place(bootstrap, directory)


def test_a_run_goes_on_where_its_manifest_ends_and_can_be_verified(place: Place) -> None:
    topic = place.topic("grows")
    place.send(topic, 0, 50)
    words = ("pipeline", "run", "--from", f"topic:{topic}", "--to", "parquet:grown", "--manifest", "grown.json")
    place.kt(*words)
    first = place.manifest("grown.json")
    (source,) = first["sources"]
    assert source["records"] == 50 == sum(one["rows"] for one in first["sink"]["files"])
    assert [one["first_offset"] for one in source["partitions"]] == [0, 0]
    for one in first["sink"]["files"]:
        assert (place.directory / "grown" / one["path"]).stat().st_size == one["size"]
    assert not [one for one in (place.directory / "grown").iterdir() if one.name.startswith("_kt")]

    assert place.kt(*words, status=1).err.startswith("parquet:grown already exists; choose --mode append")
    assert place.kt(*words, "--resume").err == "parquet:grown: nothing to do\n"
    assert place.manifest("grown.json") == first
    place.send(topic, 50, 30)
    place.kt(*words, "--resume")
    second = place.manifest("grown.json")
    assert (second["sources"][0]["records"], second["sink"]["rows"], second["runs"]) == (80, 80, 2)

    verified = place.kt("pipeline", "verify", "grown.json")
    count = len(second["sink"]["files"])
    expected = f"80 records read, {count} files of parquet:grown written"
    assert verified.out == f"The sources and the sink match the manifest: {expected}\n"
    other = place.kt(*words, "--resume", "--sql", "SELECT key FROM input", status=1)
    assert other.err == (
        "grown.json is the manifest of another pipeline: --sql is not set there and SELECT key FROM input here; name "
        "another --manifest\n"
    )

    (place.directory / "grown" / first["sink"]["files"][0]["path"]).unlink()
    (place.directory / "empty.json").write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 1}], "version": 1})
    )
    place.kt("delete-records", "--offset-json-file", "empty.json")
    found = place.kt("pipeline", "verify", "grown.json", "--json", status=3)
    *differences, verdict = [json.loads(line) for line in found.out.splitlines()]
    assert {schema_of("pipeline").kind_of(line) for line in found.out.splitlines()} == {"difference", "verified"}
    assert [(one["item"], one["difference"]) for one in differences] == [
        (f"{topic}-0", "begins with offset 1, not 0"),
        (first["sink"]["files"][0]["path"], "is missing"),
    ]
    assert verdict == {"verified": False, "differences": 2}


def test_a_manifest_counts_everything_in_the_range_whatever_the_query_keeps(place: Place) -> None:
    topic = place.topic("sieved")
    place.send(topic, 0, 40)
    sql = "SELECT offset FROM input WHERE partition = 0 AND offset < 3"
    words = ("pipeline", "run", "--from", f"topic:{topic}", "--sql", sql, "--to", "json:sieved")
    place.kt(*words, "--manifest", "sieved.json")
    content = place.manifest("sieved.json")
    assert (content["sources"][0]["records"], content["sink"]["rows"]) == (40, 3)
    without = json.loads(place.kt(*words, "--mode", "overwrite", "--json").out)
    assert without["sources"][0]["records"] == 3, "without one the reader takes the filter over"


def test_markers_behind_the_last_record_count_once(place: Place) -> None:
    topic = place.topic("marked")
    words = ("pipeline", "run", "--from", "log:data", "--from-option", f"subscribe={topic}", "--to", "json:marked")
    with kafkatools.Producer(bootstrap_servers=place.bootstrap, transactional_id="marked", linger_ms=1000) as producer:
        for count in (3, 6):
            with producer.transaction():
                for number in range(3):
                    producer.send(topic, b"%d" % number, partition=0)
            place.kt(*words, "--manifest", "marked.json", "--resume")
            (partition,) = place.manifest("marked.json")["sources"][0]["partitions"]
            assert (partition["records"], partition["batches"]) == (count, 2 * count // 3)
            assert partition["end_offset"] == partition["last_offset"] + 2
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    assert place.kt("pipeline", "verify", "marked.json").out.startswith(
        "The sources and the sink match the manifest: 6 records"
    )
    committed = ("--from-option", "kafka.isolation.level=read_committed", "--manifest", "committed.json")
    place.kt("pipeline", "run", "--from", f"topic:{topic}", "--to", "json:committed", *committed)
    said = place.kt("pipeline", "verify", "committed.json").out
    assert said.startswith("The sources and the sink match the manifest: 6 records")


def test_the_manifest_of_files_with_damage(place: Place) -> None:
    topic = place.topic("hurt")
    for first in range(0, 40, 10):
        place.send(topic, first, 10)
    copy = place.directory / "copy" / "hurt-0"
    shutil.copytree(place.directory / "data" / "hurt-0", copy)
    segment = copy / "00000000000000000000.log"
    spoilt = bytearray(segment.read_bytes())
    spoilt[100] ^= 1
    segment.write_bytes(spoilt)
    words = ("pipeline", "run", "--from", "log:copy", "--to", "json:hurt", "--manifest", "hurt.json")
    ran = place.kt(*words, status=3)
    assert f"log:copy: 1 damaged range, the first in {segment} at byte 0 (" in ran.err
    content = place.manifest("hurt.json")
    (damage,) = content["sources"][0]["damages"]
    assert (damage["file"], damage["position"], damage["kind"]) == (str(segment), 0, "checksum")
    assert content["sources"][0]["partitions"][0]["first_offset"] > 0
    strict = place.kt(*words, "--mode", "overwrite", "--strict", status=1)
    (line,) = strict.err.splitlines()
    assert line.startswith(f"{segment} at byte 0: ")
    assert place.manifest("hurt.json") == content, "a run that failed leaves no manifest, and the old one as it was"


def test_a_run_that_was_killed_behind_its_journal_is_finished(place: Place) -> None:
    from kafkatools.pipeline.run import recorded_run

    topic = place.topic("cut")
    place.send(topic, 0, 20)
    words = ("pipeline", "run", "--from", f"topic:{topic}", "--to", "json:cut", "--manifest", "cut.json")

    place.kill_at(recorded_run, "_finish", *words)
    assert not (place.directory / "cut.json").exists()
    journal = place.stored("journal", "cut.json.journal")
    assert (journal["delete"], len(journal["move"])) == ([], len(journal["manifest"]["sink"]["files"]))
    assert not list((place.directory / "cut").glob("*.json")), "nothing is to be seen of it"
    assert "--resume completes it" in place.kt(*words, status=1).err
    assert place.kt(*words, "--resume").err.endswith("json:cut: nothing to do\n")
    lines = [line for file in (place.directory / "cut").glob("*.json") for line in file.read_text().splitlines()]
    assert len(lines) == 20 == place.manifest("cut.json")["sink"]["rows"]
    assert not (place.directory / "cut.json.journal").exists()


def test_the_manifest_names_decodings_options_and_the_files_of_a_source(place: Place) -> None:
    topic = place.topic("named")
    place.send(topic, 0, 10)
    source = ("--from", f"topic:{topic}", "--from-option", "kafka.isolation.level=read_committed", "--value", "string")
    sink = ("--to", "json:named", "--to-option", "lineSep=\n", "--partition-by", "partition")
    sql = "SELECT partition, value FROM input"
    place.kt("pipeline", "run", *source, "--sql", sql, *sink, "--manifest", "named.json")
    about = place.manifest("named.json")["pipeline"]
    cluster_id = about["clusters"].pop("input")
    assert len(cluster_id) == 22
    topic_id = about["topic_ids"]["input"][topic]
    assert about == {
        "sources": [
            {
                "name": "input",
                "uri": f"topic:{topic}",
                "options": {"kafka.isolation.level": "read_committed"},
                "key": None,
                "value": {"format": "string", "schema": None, "message": None, "registry": None},
            }
        ],
        "sql": sql,
        "transform": None,
        "stream": False,
        "sink": {"uri": "json:named", "options": {"lineSep": "\n"}, "partition_by": ["partition"]},
        "clusters": {},
        "topic_ids": {"input": {topic: topic_id}},
    }
    path = place.directory / "named.json"
    path.write_text(path.read_text().replace(cluster_id, "anothers-id"))
    resumed = ("--sql", sql, *sink, "--manifest", "named.json", "--resume")
    refused = place.kt("pipeline", "run", *source, *resumed, status=1)
    assert f"another pipeline: cluster of --from is anothers-id there and {cluster_id} here; name" in refused.err
    place.kt("pipeline", "run", "--from", "json:named", "--to", "csv:renamed", "--manifest", "renamed.json")
    (files,) = (one["files"] for one in place.manifest("renamed.json")["sources"])
    assert {place.directory / "named" / one["path"] for one in files} == {*(place.directory / "named").rglob("*.json")}
    assert place.kt("pipeline", "verify", "renamed.json").out.startswith("The sources and the sink match")


def test_a_topic_is_not_written_twice_without_a_question(place: Place) -> None:
    topic = place.topic("asked")
    words = ("pipeline", "run", "--from", f"topic:{topic}", "--to", "topic:copy", "--manifest", "asked.json")
    place.kt(*words, "--sql", "SELEC key, value FROM input", status=1)
    journal = place.directory / "asked.json.journal"
    assert not journal.exists(), "nothing had been written"
    journal.write_text('{"writing": "topic:copy"}')
    asked = place.kt(*words, "--resume", status=1)
    assert asked.err.startswith("asked.json.journal: a run was interrupted while writing to topic:copy, which may hold")


def test_a_stream_from_topic_to_topic_and_on_from_its_checkpoint(place: Place) -> None:
    topic, copy = place.topic("streamed"), place.topic("copied")
    place.send(topic, 0, 30)
    words = (
        "pipeline", "run", "--from", f"topic:{topic}", "--to", f"topic:{copy}", "--stream", "--checkpoint", "state",
        "--trigger", "available-now", "--manifest", "copied.json", "--from-option", "startingOffsets=earliest",
    )  # fmt: skip
    place.kt(*words)
    assert place.values(copy) == sorted(f"v{at}" for at in range(30))
    place.send(topic, 30, 15)
    ran = place.kt(*words, "--json")
    told = json.loads(ran.out)
    assert (told["sources"][0]["records"], told["sink"]["rows"]) == (15, 15)
    assert place.values(copy) == sorted(f"v{at}" for at in range(45))
    content = place.manifest("copied.json")
    assert (content["sources"][0]["records"], content["sink"]["rows"]) == (45, 45)
    assert sum(one["end_offset"] for one in content["sources"][0]["partitions"]) == 45

    belongs = "state/_kt_pipeline.json: the checkpoint belongs to another pipeline: {}; name another --checkpoint"
    source, sink, option = f"topic:{topic}", f"topic:{copy}", "startingOffsets=earliest"
    other, committed = f"topic:{place.topic('streamed-2')}", "isolationLevel=read_committed"
    for old, new, named in (
        (source, other, f"--from is {source} there and {other} here"),
        (sink, other, f"--to is {sink} there and {other} here"),
        (option, committed, "--from-option isolationLevel is not set there and read_committed here"),
    ):
        changed = [new if word == old else word for word in words if word not in ("--manifest", "copied.json")]
        assert place.kt(*changed, status=1).err.startswith(belongs.format(named))
    assert place.manifest("copied.json") == content and place.values("streamed-2") == []


def test_a_stream_to_files_asks_before_it_adds_to_others(place: Place) -> None:
    topic = place.topic("filed")
    place.send(topic, 0, 5)
    (place.directory / "filed").mkdir()
    (place.directory / "filed" / "part-old.json").write_text("{}\n")
    words = (
        "pipeline", "run", "--from", f"topic:{topic}", "--to", "json:filed", "--stream", "--checkpoint", "filing",
        "--trigger", "available-now", "--from-option", "startingOffsets=earliest",
    )  # fmt: skip
    asked = place.kt(*words, "--manifest", "filed.json", status=1)
    assert asked.err == "json:filed already exists, and there is no checkpoint in filing; --mode append adds to it\n"
    assert not (place.directory / "filed.json.journal").exists(), "nothing to complete"
    ran = place.kt(*words, "--mode", "append", "--sql", "SELECT CAST(value AS string) AS v FROM input")
    assert ran.err.splitlines()[-1].startswith("json:filed: 5 rows in ")
    other = place.kt(*words[:8], "other", *words[9:], "--mode", "append", status=1)
    assert other.err.startswith("json:filed has the files of a stream with another checkpoint than other: Spark would")
    assert "the checkpoint belongs to another pipeline: --sql is SELECT CAST" in place.kt(*words, status=1).err
    (place.directory / "filing" / "_kt_pipeline.json").unlink()
    assert place.kt(*words).err.splitlines()[-1].startswith("json:filed: 0 rows in ")
    refused = place.kt(*words[:2], "--from", "log:data", *words[4:], status=1)
    assert refused.err == "log:data cannot be streamed: log files are read once, as they are; run without --stream\n"


@pytest.mark.parametrize("kind", ["json", "topic"])
def test_the_manifest_of_a_stream_that_was_killed_is_completed_at_its_next_start(kind: str, place: Place) -> None:
    topic, name = place.topic(f"ended-{kind}"), f"ended-{kind}.json"
    sink = f"json:{topic}" if kind == "json" else f"topic:{place.topic('ended-copy')}"
    words = (
        "pipeline", "run", "--from", f"topic:{topic}", "--to", sink, "--stream", "--checkpoint", f"state-{kind}",
        "--trigger", "available-now", "--manifest", name, "--from-option", "startingOffsets=earliest",
    )  # fmt: skip
    place.send(topic, 0, 30)
    place.kill_stream(*words)
    assert not (place.directory / name).exists() and (place.directory / f"{name}.journal").exists()
    other = place.kt(*words[:8], "elsewhere", *words[9:], "--mode", "append", status=1)
    assert f"{name}.journal: another run was interrupted while writing to {sink} with --checkpoint" in other.err
    changed = place.kt(*words, "--sql", "SELECT value FROM input", status=1)
    assert f"{name}.journal: a stream of another pipeline was interrupted: --sql is not set there and" in changed.err
    place.send(topic, 30, 15)
    ran = place.kt(*words)
    assert f"{name}: completing the manifest of a stream that was interrupted" in ran.err
    content = place.manifest(name)
    (source,) = content["sources"]
    assert source["records"] == sum(row["records"] for row in source["partitions"]) == 45
    assert content["sink"]["rows"] == (45 if kind == "json" else None), "a topic tells no rows of the first run"
    assert not (place.directory / f"{name}.journal").exists()
    place.kt("pipeline", "verify", name)
    if kind == "json":
        assert sum(file["rows"] for file in content["sink"]["files"]) == 45


def test_a_stream_of_several_sources_counts_each_one_whatever_the_order_of_its_query(place: Place) -> None:
    """Spark lists the sources in the order of the query, and one that the query uses twice two times."""

    def records() -> dict[str, tuple[int, set[str], int]]:
        return {
            source["name"]: (
                source["records"],
                {row["topic"] for row in source["partitions"]},
                sum(row["records"] for row in source["partitions"]),
            )
            for source in place.manifest("several.json")["sources"]
        }

    orders, users = place.topic("several-orders"), place.topic("several-users")
    options = 'from-option = {startingOffsets = "earliest"}'
    (place.directory / "several.toml").write_text(
        f"""
        sql = "SELECT key FROM users UNION ALL SELECT key FROM orders UNION ALL SELECT value AS key FROM users"
        [sources.orders]
        from = "topic:{orders}"
        {options}
        [sources.users]
        from = "topic:{users}"
        {options}
        """
    )
    words = (
        "pipeline", "run", "several.toml", "--to", "json:several", "--stream", "--checkpoint", "several-state",
        "--trigger", "available-now", "--manifest", "several.json",
    )  # fmt: skip
    place.send(orders, 0, 30)
    place.send(users, 0, 12)
    place.kill_stream(*words)
    place.send(users, 12, 3)
    assert "completing the manifest of a stream that was interrupted" in place.kt(*words).err
    assert records() == {"orders": (30, {orders}, 30), "users": (15, {users}, 15)}
    place.kt("pipeline", "verify", "several.json")

    newest = place.directory / "several-state" / "offsets" / "1"
    text = newest.read_text()
    for name in ("orders", "users"):
        assert f'"$source {name}"' in text
        text = re.sub(rf', ?"\$source {name}": ?{{}}', "", text)
    assert "$source" not in text, "as an earlier version wrote it"
    newest.write_text(text)
    newest.with_name(".1.crc").unlink()
    place.send(orders, 30, 5)
    told = json.loads(place.kt(*words, "--json").out)
    assert [(source["name"], source["records"]) for source in told["sources"]] == [("orders", 5), ("users", 0)]
    assert records() == {"orders": (35, {orders}, 35), "users": (15, {users}, 15)}
    place.kt("pipeline", "verify", "several.json")


def test_a_topic_that_was_deleted_does_not_keep_the_manifest_of_a_stream_that_was_killed(place: Place) -> None:
    topic = place.topic("deleted")
    words = (
        "pipeline", "run", "--from", f"topic:{topic}", "--to", "json:deleted", "--stream", "--checkpoint", "state-gone",
        "--trigger", "available-now", "--manifest", "gone.json", "--from-option", "startingOffsets=earliest",
    )  # fmt: skip
    place.send(topic, 0, 30)
    place.kill_stream(*words)
    place.kt("topics", "--delete", "--topic", topic)
    ran = place.kt(*words, status=1)
    assert "gone.json: completing the manifest of a stream that was interrupted" in ran.err
    gone = f"gone.json: the records of topic:{topic} are not counted: {topic}-0 does not exist, its topic was deleted"
    assert gone in ran.err
    assert f"{topic}" in ran.err.splitlines()[-1], "and the stream cannot go on"
    content = place.manifest("gone.json")
    (source,) = content["sources"]
    assert [(row["end_offset"], row["records"], row["checksum"]) for row in source["partitions"]] == [
        (row["end_offset"], None, None) for row in source["partitions"]
    ]
    assert source["records"] is None and sum(row["end_offset"] for row in source["partitions"]) == 30
    assert content["sink"]["rows"] == 30 == sum(file["rows"] for file in content["sink"]["files"])
    assert not (place.directory / "gone.json.journal").exists()


def test_a_resumed_run_leaves_out_what_its_options_left_out(place: Place) -> None:
    """Whole segments are read from before the log start offset, also by verify."""
    log = place.directory / "whole"
    for partition, timestamp in ((0, NOW_MS), (1, NOW_MS - 86_400_000)):
        (log / f"t-{partition}").mkdir(parents=True)
        batch = make_batch([b"v"] * 3, timestamps=[timestamp] * 3)
        (log / f"t-{partition}" / f"{0:020}.log").write_bytes(batch)
    (log / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    options = (f"startingTimestamp={NOW_MS}", "startingOffsetsByTimestampStrategy=latest", "wholeSegments=true")
    words = ["pipeline", "run", "--from", "log:whole", "--to", "json:whole-rows", "--manifest", "whole.json"]
    words += [word for option in options for word in ("--from-option", option)]
    place.kt(*words)
    assert place.manifest("whole.json")["sources"][0]["records"] == 3
    place.kt("pipeline", "verify", "whole.json")
    assert place.kt(*words, "--resume").err == "json:whole-rows: nothing to do\n"


@pytest.mark.parametrize("is_stream", [False, True], ids=["batch", "stream"])
def test_a_topic_that_was_created_again_is_not_continued_where_the_earlier_one_ended(
    is_stream: bool, place: Place
) -> None:
    name = f"again-{is_stream}".lower()
    topic = place.topic(name)
    place.send(topic, 0, 10)
    words = ("pipeline", "run", "--from", f"topic:{topic}", "--to", f"parquet:{name}")
    if is_stream:
        start = ("--trigger", "available-now", "--from-option", "startingOffsets=earliest")
        words = (*words, "--stream", "--checkpoint", f"{name}-state", *start)
        record, resume = f"{name}-state/_kt_pipeline.json", words
    else:
        words = (*words, "--manifest", f"{name}.json")
        record, resume = f"{name}.json", (*words, "--resume")
    place.kt(*words)
    if is_stream:
        path = place.directory / record
        path.write_text(json.dumps({**json.loads(path.read_text()), "topic_ids": {}}))
        path.with_name(f".{path.name}.crc").unlink()
        place.kt(*words)  # the file gets the ids of topics that it does not name
    place.kt("topics", "--delete", "--topic", topic)
    place.topic(topic)
    place.send(topic, 10, 60)

    ran = place.kt(*resume, status=1)
    assert f"{record}: topic {topic} was deleted and created again; name another" in ran.err, ran.err
    if is_stream:
        place.kt(*words, "--from-option", "failOnDataLoss=false")
        place.kt(*words)
