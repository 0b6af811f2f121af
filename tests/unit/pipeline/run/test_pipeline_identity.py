"""Which pipelines are the same: what is compared, and how a difference is named."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.checkpoint_identity import ensure_same_pipeline
from kafkatools.pipeline.run.identity import difference, identity, without_passwords
from kafkatools.pipeline.run.spec import Pipeline, pipeline_from


def made(**values: Any) -> Pipeline:
    return pipeline_from({"from": "topic:a", "to": "json:/out", "stream": True, "checkpoint": "/c", **values}, {})


def found(before: Pipeline, present: Pipeline) -> str | None:
    recorded = json.loads(json.dumps(identity(before)))
    return difference(recorded, identity(present))


@pytest.mark.parametrize(
    ("before", "present", "named"),
    [
        ({}, {"from": "topic:b"}, "--from is topic:a there and topic:b here"),
        ({}, {"to": "json:/other"}, "--to is json:/out there and json:/other here"),
        ({}, {"to": "topic:t"}, "--from-option includeHeaders is not set there and true here"),
        ({}, {"sql": "SELECT 1"}, "--sql is not set there and SELECT 1 here"),
        ({"sql": "SELECT 1"}, {"transform": "m:f"}, "--sql is SELECT 1 there and not set here"),
        ({}, {"value": "string"}, "--value is not set there and string here"),
        ({}, {"partition-by": ["topic"]}, "--partition-by is not set there and topic here"),
        ({}, {"to-option": {"sep": ";"}}, "--to-option sep is not set there and ; here"),
        (
            {},
            {"from-option": {"includeMetadata": "true"}},
            "--from-option includeMetadata is not set there and true here",
        ),
        (
            {"from-option": {"kafka.isolation.level": "read_committed"}},
            {},
            "--from-option isolationLevel is read_committed there and not set here",
        ),
        (
            {"sources": {"l": {"from": "topic:a"}}, "from": None, "sql": "SELECT * FROM l"},
            {"sources": {"l": {"from": "topic:b"}}, "from": None, "sql": "SELECT * FROM l"},
            "sources.l.from is topic:a there and topic:b here",
        ),
    ],
)
def test_a_difference_is_named_as_its_option(before: Any, present: Any, named: str) -> None:
    assert found(made(**before), made(**present)) == named


def test_options_that_do_not_change_rows_may_differ() -> None:
    first = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "5", "kafka.request.timeout.ms": "9"}
    second = {"failOnDataLoss": "false", "MINPARTITIONS": "7", "includeMetadata": "false"}
    assert found(made(**{"from-option": first}), made(**{"from-option": second}, mode="append", trigger="5")) is None
    assert found(made(), made(**{"to-option": {"Compression": "gzip", "mergeSchema": "true"}})) is None
    level = {"from-option": {"kafka.isolation.level": "read_committed"}}
    assert found(made(**level), made(**{"from-option": {"isolationLevel": "read_committed"}})) is None
    assert found(made(**{"from-option": {"isolationLevel": "read_uncommitted"}}), made()) is None
    batch = {"stream": False, "checkpoint": None}
    assert found(made(**batch, **{"from-option": {"startingOffsets": "earliest"}}), made(**batch)) is not None


BATCH: dict[str, Any] = {"stream": False, "checkpoint": None}


@pytest.mark.parametrize(
    ("before", "present"),
    [
        ({"from": "topic:a,b"}, {"from": "topic:b,,a"}),
        ({"to": "json:/out"}, {"to": "json:/x/../out/"}),
        ({"to": "json:/out"}, {"to": "json:file:///out"}),
        ({"to": "json:s3a://b/out"}, {"to": "json:s3a://b/out/"}),
        ({"to": "json:out"}, {"to": "json:./out"}),
        ({"to": "json:out", **BATCH}, {"to": f"json:{pathlib.Path('out').absolute()}", **BATCH}),
        ({"value": "json", "value-schema": "s", **BATCH}, {"value": "json", "value-schema": "./s", **BATCH}),
        ({"value": "json"}, {"value": "json", "value-schema": "next.json"}),
        ({"from-option": {"includeHeaders": "TRUE"}}, {"from-option": {"includeheaders": "true"}}),
        ({"from-option": {"assign": '{"a":[0],"b":[1]}'}}, {"from-option": {"assign": '{"b": [1], "a": [0]}'}}),
        ({"from-option": {"subscribe": "a, b"}}, {"from-option": {"SUBSCRIBE": "b,a"}}),
        ({"to": "csv:/out"}, {"to": "csv:/out", "to-option": {"header": "True"}}),
        ({"to-option": {"lineSep": "|"}}, {"to-option": {"LINESEP": "|"}}),
        ({"to-option": {"sep": ";"}}, {"to-option": {"delimiter": ";"}}),
        ({"from-option": {"table": "records", "wholeSegments": "false"}}, {}),
        ({"from-option": {"reportPath": "/r", "pushFilters": "true"}}, {}),
        ({"to-option": {"fs.s3a.secret.key": "old"}}, {"to-option": {"fs.s3a.secret.key": "new"}}),
        ({"to": "json:ftp://u:old@h/out"}, {"to": "json:ftp://u:new@h/out"}),
    ],
)
def test_two_spellings_of_one_pipeline_are_equal(before: Any, present: Any) -> None:
    assert found(made(**before), made(**present)) is None


def test_the_same_relative_path_of_another_directory_is_another_sink_of_a_stream(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = json.loads(json.dumps(identity(made(to="json:out"))))
    batch = identity(made(to="json:out", **BATCH))
    monkeypatch.chdir(tmp_path)
    named = difference(recorded, identity(made(to="json:out")))
    assert named is not None and named.endswith(f" there and json:{tmp_path}/out here")
    assert difference(batch, identity(made(to="json:out", **BATCH))) is None, "a manifest moves with its directory"


def test_nothing_secret_is_recorded_or_shown() -> None:
    secret = {"fs.s3a.access.key": "xyzzy", "Password": "xyzzy", "kafka.ssl.key.password": "xyzzy"}
    pipeline = made(to="json:ftp://u:xyzzy@h/out", **{"to-option": secret, "from-option": secret})
    recorded = without_passwords(identity(pipeline))
    assert "xyzzy" not in json.dumps(recorded) and recorded["sink"]["uri"] == "json:ftp://u@h/out"
    assert difference(recorded, identity(pipeline)) is None
    recorded["sink"]["options"] = dict(secret)  # as an earlier version wrote it
    assert difference(recorded, identity(pipeline)) is None
    assert "xyzzy" not in str(found(pipeline, made()))


def test_long_queries_are_shown_where_they_differ() -> None:
    columns = ", ".join(f"column{number}" for number in range(100))
    named = found(made(sql=f"SELECT {columns} FROM one"), made(sql=f"SELECT {columns} FROM other"))
    assert named is not None and len(named) < 200
    assert "FROM one there and ..." in named and named.endswith("FROM other here")


def test_clusters_are_compared_where_both_are_known() -> None:
    one = identity(made())
    known = {**one, "clusters": {"input": "A"}}
    other = {**one, "clusters": {"input": "B"}}
    assert difference(one, known) is None and difference(known, one) is None and difference(known, known) is None
    assert difference(known, other) == "cluster of --from is A there and B here"


def test_a_checkpoint_of_another_pipeline_is_an_error() -> None:
    one, other = identity(made()), identity(replace(made(), sql="SELECT 1"))
    ensure_same_pipeline("c/f", json.dumps(one), one)
    with pytest.raises(PipelineError, match="^c/f: the checkpoint belongs to another pipeline: --sql is not set there"):
        ensure_same_pipeline("c/f", json.dumps(one), other)
    for text in ("{", "[]", "{}", '{"sources": 1}'):
        with pytest.raises(PipelineError, match="^c/f is not the identity of a pipeline; delete the file"):
            ensure_same_pipeline("c/f", text, one)
