"""Pipelines as data: URIs, files, what goes together; manifests and their sums. Nothing here needs Spark."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import manifest
from kafkatools.pipeline.run.identity import identity
from kafkatools.pipeline.run.spec import Decoding, pipeline_from, read_toml
from kafkatools.tools.schemas.wire_format import schema_id


def made(**values: Any) -> Any:
    given = {name.replace("_", "-"): value for name, value in values.items()}
    return pipeline_from({"from": "topic:a", "to": "console:", **given}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders", "Invalid source 'orders': it must begin with one of topic:, log:, parquet:, json:, csv:,"),
        ("kafka:orders", "kafka: is not a kind of source; use one of topic:"),
        ("log:", "log: needs a path"),
        ("parquet:", "parquet: needs a path after the colon"),
        ("iceberg:", "iceberg: needs a table after the colon"),
        ("console:", "console: is not a kind of source"),
        ("topic: ,", "The source 'topic: ,' names no topic"),
    ],
)
def test_what_is_no_source(text: str, message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        uris.parse_source(text)
    assert str(refused.value).startswith(message)


def test_blanks_around_the_topics_of_a_source_are_ignored() -> None:
    assert uris.parse_source("topic:a, b,,a ").topics == ("a", "b")


def test_what_is_no_sink() -> None:
    for text, message in (
        ("log:x", "log: is not a kind of sink"),
        ("topic:a,b", "The sink topic:a,b must name exactly one topic"),
        ("console:x", "console: takes nothing after the colon, not 'x'"),
    ):
        with pytest.raises(PipelineError, match=message):
            uris.parse_sink(text)


def test_a_url_stays_a_path_and_a_path_becomes_absolute(tmp_path: pathlib.Path) -> None:
    assert uris.path_of(uris.parse_source("parquet:s3a://bucket/x")) == "s3a://bucket/x"
    assert uris.path_of(uris.parse_source("parquet:x")) == str(pathlib.Path("x").absolute())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sql": "SELECT 1", "transform": "a:b"}, "--sql and --transform cannot be used together"),
        ({"sql": " ; "}, "--sql contains no SQL statement"),
        ({"mode": "replace"}, "--mode must be one of append, overwrite, error, ignore, not 'replace'"),
        ({"trigger": "5"}, "--trigger can only be used with --stream"),
        (
            {"stream": True, "checkpoint": "c", "trigger": "soon"},
            "--trigger must be available-now or a number of seconds, not 'soon'",
        ),
        ({"resume": True}, "--resume needs --manifest FILE"),
        ({"to": "json:x", "merge_by": ["key"]}, "--merge-by needs a table as the sink: --to delta:PATH or iceberg:"),
        (
            {"to": "delta:x", "merge_by": ["key"], "mode": "append"},
            "--merge-by and --mode append cannot be used together; omit --mode",
        ),
        ({"value": "xml"}, "--value must be one of binary, string, json, avro, protobuf, not 'xml'"),
        ({"value": "avro"}, "--value avro needs --value-schema FILE or --schema-registry URL"),
        ({"key_schema": "x"}, "--key-schema needs --key json, avro or protobuf"),
        (
            {"from": "csv:x", "value": "json"},
            "--value json decodes records of topic: and log:; csv:x already has typed",
        ),
        ({"value": "avro", "schema_registry": "host:8081"}, "--schema-registry must be http://HOST:PORT"),
        ({"value": "avro", "schema_registry": "http://host:none"}, "--schema-registry must be http://HOST:PORT"),
        ({"sources": {"a": {"from": "topic:a"}}}, "A pipeline needs either --from URI or"),
        ({"from": "", "sources": {"a": {"from": "topic:a"}}, "value": "json"}, "--value needs --from; with [sourc"),
        ({"sql_file": "/nowhere.sql"}, "/nowhere.sql cannot be read: No such file or directory"),
    ],
)
def test_what_does_not_go_together(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as refused:
        made(**values)
    assert str(refused.value).startswith(message)


def test_a_registry_may_have_an_ipv6_address() -> None:
    value = made(value="avro", schema_registry="http://[::1]:8081/").sources[0].value
    assert value is not None and value.registry == "http://[::1]:8081"


def test_a_registry_url_is_kept_without_its_password() -> None:
    found = made(value="avro", schema_registry="https://me:p%40ss@host:8081/").sources[0].value
    assert found == Decoding("avro", None, None, "https://host:8081", ("me", "p@ss"))


def test_headers_go_from_topic_to_topic_unless_somebody_says_otherwise() -> None:
    assert made(to="topic:b").sources[0].options == {"includeHeaders": "true"}
    assert made(to="topic:b", from_option={"INCLUDEHEADERS": False}).sources[0].options == {"INCLUDEHEADERS": "false"}
    assert made().sources[0].options == {}


def test_a_file_with_mistakes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.toml"
    for text, message in (
        ("form = 1", "unknown key form; the keys are from, "),
        ("stream = 1", "stream must be true or false"),
        ("[sources]\na = 1", "sources.a must be a table"),
        ("[sources.a]\nto = 'x'", "unknown key sources.a.to; the keys are "),
        ("[sources.a]\nfrom = 1", "sources.a.from must be a text"),
        ("partition-by = 'x'", "partition-by must be a list of texts"),
        ("from = ", "Invalid value"),
    ):
        path.write_text(text)
        with pytest.raises(PipelineError) as refused:
            read_toml(str(path))
        assert str(refused.value).startswith(f"{path}: {message}")
    with pytest.raises(PipelineError, match=r"^/nowhere\.toml: No such file"):
        read_toml("/nowhere.toml")
    path.write_text("trigger = 0.5")
    assert read_toml(str(path)) == {"trigger": 0.5}
    path.write_bytes(b"\xef\xbb\xbfto = 'console:'\n")
    assert read_toml(str(path)) == {"to": "console:"}, "with a byte order mark"


# -- manifests --


def partition(first: int, last: int, checksum: int, **more: Any) -> dict[str, Any]:
    row = {"topic": "t", "partition": 0, "first_offset": first, "last_offset": last, "start_offset": first,
           "end_offset": last + 1, "records": last - first + 1,
           "batches": 1, "checksum": f"{checksum:016x}", "files": ["a"]}  # fmt: skip
    return row | more


def test_partitions_of_two_runs_add_up() -> None:
    (row,) = manifest.merged_partitions([partition(3, 9, 2**64 - 1)], [partition(10, 19, 3, files=["b"])])
    assert row == partition(3, 19, 2, batches=2, files=["a", "b"])
    empty = partition(0, -1, 0, first_offset=None, last_offset=None, end_offset=20, files=[])
    assert manifest.merged_partitions([row], [empty])[0]["last_offset"] == 19
    (unknown,) = manifest.merged_partitions([row], [partition(20, 29, 0) | {"records": None, "checksum": None}])
    assert (unknown["records"], unknown["checksum"], unknown["last_offset"]) == (None, None, 29)


def test_where_the_next_run_begins() -> None:
    source = {"partitions": [partition(3, 9, 1)]}
    present, starts = [("t", 0), ("t", 1), ("t", 2)], {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}
    assert json.loads(manifest.next_offsets(source, present, starts)) == {"t": {"0": 10, "1": 6, "2": -2}}
    options = manifest.range_options(source)
    assert json.loads(options["assign"]) == {"t": [0]}
    assert json.loads(options["startingOffsets"]) == {"t": {"0": 3}}
    assert json.loads(options["endingOffsets"]) == {"t": {"0": 10}}


def test_differences_name_the_first_thing_that_differs() -> None:
    was = [partition(3, 9, 1)]
    assert manifest.partition_differences("u", was, [partition(3, 9, 1)]) == []
    for now, problem in (
        ([], "none of its 7 records is present"),
        ([partition(4, 9, 1)], "begins with offset 4, not 3"),
        ([partition(3, 8, 1)], "ends with offset 8, not 9"),
        ([partition(3, 9, 1, records=6)], "has 6 records, not 7"),
        ([partition(3, 9, 5)], "has the checksum 0000000000000005, not 0000000000000001"),
    ):
        assert manifest.partition_differences("u", was, now) == [manifest.Difference("u", "t-0", problem)]
    files = [{"path": "f", "size": 3, "rows": 2}]
    assert manifest.file_differences("u", files, {"f": (3, 2)}) == []
    assert manifest.file_differences("u", files, {"f": (3, 1)})[0].problem == "has 1 rows, not 2"
    assert manifest.file_differences("u", files, {"f": (4, 2)})[0].problem == "has 4 bytes, not 3"


def test_secrets_are_in_no_manifest() -> None:
    pipeline = made(from_option={"kafka.sasl.jaas.config": "secret", "startingOffsets": "earliest"},
                    value="avro", schema_registry="http://me:secret@host")  # fmt: skip
    text = json.dumps(identity(pipeline))
    assert "secret" not in text and "startingOffsets" in text


def test_a_manifest_tells_the_isolation_level_by_either_name() -> None:
    for option in ("isolationLevel", "kafka.isolation.level"):
        pipeline = made(from_option={option: "read_committed"})
        assert identity(pipeline)["sources"][0]["options"] == {option: "read_committed"}


def test_what_is_no_manifest(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.json"
    assert manifest.read_manifest(str(path)) is None
    for text, message in (
        ("{", "cannot be read: it is not JSON"),
        ("[]", "cannot be read: it is not a JSON object"),
        (
            '{"manifest": 2, "pipeline": {}, "sources": [], "sink": {}}',
            "is a manifest of version 2; supported is version 1",
        ),
    ):
        path.write_text(text)
        with pytest.raises(PipelineError, match=message):
            manifest.read_manifest(str(path))
    with pytest.raises(PipelineError, match="there is no directory"):
        manifest.ensure_writable(str(tmp_path / "nowhere" / "m.json"))


def test_the_id_in_front_of_a_value() -> None:
    assert schema_id(b"\0\0\0\1\2rest") == 258
    assert schema_id(b"\1\0\0\1\2rest") is None
    assert schema_id(b"\0\0\0\1") is None
