"""Which pipelines are the same: what is compared, and how a difference is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.checkpoint_identity import ensure_same_pipeline
from kafkatools.pipeline.run.identity import difference, identity
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
