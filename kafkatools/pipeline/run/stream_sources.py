"""Which source of the pipeline each source of Spark's streaming query is.

Rules: Spark lists the sources of a query in the order of its plan, a source once for each use, and the checkpoint has
their offsets in the same order (MicroBatchExecution.sources). So the position says nothing about the pipeline, and the
description of a Python source is only an object id. The reader of a pipeline with several sources writes the source's
name into its offsets. Offsets without it, from the checkpoint of an earlier version or of Spark's Kafka source, belong
to the only source that reads their topics. Any other source has its path in the description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from kafkatools.core.java.patterns import java_pattern
from kafkatools.core.json_texts import parse_json
from kafkatools.core.json_values import JsonValue
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.spec import Pipeline, Source
from kafkatools.pipeline.sources.live import offsets as live_offsets
from kafkatools.pipeline.sources.live.options import OptionReader
from kafkatools.pipeline.uris import TOPIC

SourceOffsets = dict[str, dict[str, int]]
"""Offsets by topic and partition number as text, as in Spark's JSON."""

_HADOOP_FILE = re.compile(r"^file:/(?!/)")
"""Matches the start of a local path as Hadoop writes it."""


def source_name(pipeline: Pipeline, offsets: JsonValue, description: str = "") -> str | None:
    """Return the name of the pipeline's source that has these offsets in Spark's checkpoint or progress. `description`
    is that of Spark's progress. None if several sources are possible."""
    if len(pipeline.sources) == 1:
        return pipeline.sources[0].name
    names = {source.name for source in pipeline.sources}
    name = live_offsets.source_of(offsets) if isinstance(offsets, dict) else None
    if name in names:
        return name
    topics = set(topic_offsets(offsets))
    if topics:
        found = [
            source for source in pipeline.sources if source.uri.kind == TOPIC and topics <= _topics(source, topics)
        ]
    else:
        others = [source for source in pipeline.sources if source.uri.kind != TOPIC]
        found = [source for source in others if _is_described(source, description)]
    return found[0].name if len(found) == 1 else None


def parsed(value: JsonValue) -> JsonValue:
    """Return the JSON of an offset in Spark's checkpoint or progress, which may be a text; None if it is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        content: JsonValue = parse_json(value)
    except ValueError:
        return None
    return content


def topic_offsets(value: JsonValue) -> SourceOffsets:
    """Return Kafka offsets from Spark's JSON, without the source's name and the beginning of a first batch; empty for
    the offsets of another source."""
    if not isinstance(value, dict):
        return {}
    try:
        return live_offsets.to_json(live_offsets.from_json(value))
    except PipelineError:  # a source of files has a log of its own
        return {}


def lowest(offsets: Iterable[SourceOffsets]) -> SourceOffsets:
    """Return the lowest offset of each partition: where a source begins that the query uses several times."""
    return _merged(offsets, min)


def highest(offsets: Iterable[SourceOffsets]) -> SourceOffsets:
    """Return the highest offset of each partition: where a source ends that the query uses several times."""
    return _merged(offsets, max)


def _merged(offsets: Iterable[SourceOffsets], choose: Callable[[int, int], int]) -> SourceOffsets:
    merged: SourceOffsets = {}
    for topics in offsets:
        for topic, partitions in topics.items():
            found = merged.setdefault(topic, {})
            for partition, offset in partitions.items():
                found[partition] = choose(found.get(partition, offset), offset)
    return merged


def _topics(source: Source, topics: set[str]) -> set[str]:
    """Return those of `topics` that the source reads according to its options."""
    named = {"subscribe": source.uri.target} if source.uri.target else {}
    subscription = OptionReader({**named, **source.options}).subscription()
    if subscription is None:
        return set()
    if subscription.pattern:
        pattern = java_pattern(subscription.pattern)
        return {topic for topic in topics if pattern.search(topic)}
    return topics & {*subscription.topics, *(partition.topic for partition in subscription.partitions)}


def _is_described(source: Source, description: str) -> bool:
    """Return whether Spark describes the source so: "FileStreamSource[file:/path]", "DeltaSource[file:/path]"."""
    _, bracket, path = description.removesuffix("]").partition("[")
    path = _HADOOP_FILE.sub("file:///", path)
    return bool(bracket) and storage.normal(path) == storage.normal(source.uri.target)
