"""The identity of the pipeline to which a checkpoint belongs, in the file `_kt_pipeline.json` of the checkpoint.

Rules: Spark notes in a checkpoint neither topics nor sinks, so it continues the offsets of one topic in another one,
and takes rows for written that another sink has. A checkpoint without the file, of Spark's own Kafka source or an
earlier version, gets one at the next start; ids of topics that the file does not name are added to it. A checkpoint in
which no micro-batch is planned belongs to the pipeline that starts next: otherwise a mistake in a first command would
need another checkpoint.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from kafkatools.core.json_texts import parse_json
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.identity import difference, identity_with_clusters, topic_difference, without_passwords
from kafkatools.pipeline.run.spec import Pipeline
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.types import PipelineIdentity

FILE = "_kt_pipeline.json"


def claim_checkpoint(spark: SparkSession, pipeline: Pipeline, identity: PipelineIdentity | None = None) -> None:
    """Record in the checkpoint of a stream that it belongs to this pipeline. `identity`: that of the pipeline with its
    clusters, if it is known. Raises PipelineError if the checkpoint belongs to another one. Does nothing over Spark
    Connect, where the checkpoint may be on another machine."""
    assert pipeline.checkpoint is not None
    directory = Directory(spark, uris.absolute(pipeline.checkpoint))
    if not directory.can_move:
        return
    present = identity or identity_with_clusters(pipeline)
    text = directory.read_text(FILE)
    if text is not None and any(name.isdigit() for name in directory.log_names("offsets")):
        ensure_same_pipeline(f"{pipeline.checkpoint}/{FILE}", text, present)
        recorded = parse_json(text).get("topic_ids", {})
        ids = {name: {**recorded.get(name, {}), **topics} for name, topics in present["topic_ids"].items()}
        if ids == recorded:
            return
        present = {**present, "topic_ids": ids}
    directory.write_text(FILE, json.dumps(without_passwords(present), indent=1) + "\n")


def ensure_same_pipeline(path: str, text: str, present: PipelineIdentity) -> None:
    """Raise PipelineError if the file of a checkpoint has the identity of another pipeline, or none, and if a topic was
    created again since."""
    try:
        recorded = parse_json(text)
        found, replaced_topic = difference(recorded, present), topic_difference(recorded, present)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(
            f"{path} is not the identity of a pipeline; delete the file to continue the checkpoint with this one"
        ) from None
    if found is not None:
        raise PipelineError(
            f"{path}: the checkpoint belongs to another pipeline: {found}; name another --checkpoint, or delete this "
            "file to continue the checkpoint with the changed pipeline"
        )
    if replaced_topic is not None:
        raise PipelineError(
            f"{path}: {replaced_topic}; name another --checkpoint to read it from its start, or set "
            "failOnDataLoss=false to continue at the earlier offsets"
        )
