"""The identity of the pipeline to which a checkpoint belongs, in the file `_kt_pipeline.json` of the checkpoint.

Rules: Spark notes in a checkpoint neither topics nor sinks, so it continues the offsets of one topic in another one,
and takes rows for written that another sink has. A checkpoint without the file, of Spark's own Kafka source or an
earlier version, gets one at the next start. A checkpoint in which no micro-batch is planned belongs to the pipeline
that starts next: otherwise a mistake in a first command would need another checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from pyspark.sql import SparkSession

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import ADMIN
from kafkatools.core.errors import KafkaError
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.identity import difference, identity
from kafkatools.pipeline.run.spec import Pipeline
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.types import PipelineIdentity

FILE = "_kt_pipeline.json"


def stream_identity(pipeline: Pipeline) -> PipelineIdentity:
    """Return the identity of a stream, with the cluster ids of its topics. Raises PipelineError if a cluster does not
    answer."""
    clusters = [(source.name, source.cluster) for source in pipeline.sources]
    clusters.append(("", pipeline.sink.cluster if pipeline.sink.uri.kind == uris.TOPIC else None))
    return {**identity(pipeline), "clusters": _cluster_ids(clusters)}


def _cluster_ids(clusters: Iterable[tuple[str, uris.Cluster | None]]) -> dict[str, str | None]:
    by_address: dict[str, str | None] = {}
    ids: dict[str, str | None] = {}
    for name, cluster in clusters:
        if cluster is None:
            continue
        if cluster.bootstrap not in by_address:
            settings = {setting: value for setting, value in cluster.settings.items() if setting in ADMIN}
            try:
                with AdminClient(cluster.bootstrap, settings, SystemClock()) as admin:
                    by_address[cluster.bootstrap] = describe_cluster(admin).cluster_id
            except KafkaError as error:
                raise PipelineError(f"{cluster.bootstrap}: {error}") from error
        ids[name] = by_address[cluster.bootstrap]
    return ids


def claim_checkpoint(spark: SparkSession, pipeline: Pipeline) -> None:
    """Record in the checkpoint of a stream that it belongs to this pipeline. Raises PipelineError if it belongs to
    another one. Does nothing over Spark Connect, where the checkpoint may be on another machine."""
    assert pipeline.checkpoint is not None
    directory = Directory(spark, uris.absolute(pipeline.checkpoint))
    if not directory.can_move:
        return
    present = stream_identity(pipeline)
    text = directory.read_text(FILE)
    if text is not None and any(name.isdigit() for name in directory.log_names("offsets")):
        ensure_same_pipeline(f"{pipeline.checkpoint}/{FILE}", text, present)
        return
    directory.write_text(FILE, json.dumps(present, indent=1) + "\n")


def ensure_same_pipeline(path: str, text: str, present: PipelineIdentity) -> None:
    """Raise PipelineError if the file of a checkpoint has the identity of another pipeline, or none."""
    try:
        found = difference(json.loads(text), present)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise PipelineError(
            f"{path} is not the identity of a pipeline; delete the file to continue the checkpoint with this one"
        ) from None
    if found is not None:
        raise PipelineError(
            f"{path}: the checkpoint belongs to another pipeline: {found}; name another --checkpoint, or delete this "
            "file to continue the checkpoint with the changed pipeline"
        )
