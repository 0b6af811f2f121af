"""Names of the pipeline's JSON and TOML objects. `run/manifest.py`, `run/batch.py` and `run/recorded_*.py` make those
of manifests and journals; `run/spec.py` lists and checks the keys of pipeline files."""

from __future__ import annotations

from typing import Any

# A manifest's entry for one partition: the batches that a run read, from `start_offset` up to, not including,
# `end_offset`. `first_offset` and `last_offset` belong to the records; both are None if there was no record. `records`,
# `batches` and `checksum` (hexadecimal) are None if not counted, as for streams without readers' reports: then
# `first_offset` is the start offset and `last_offset` None.
PartitionContent = dict[str, Any]

# A manifest's entry for one input or output file; `size` in bytes.
FileContent = dict[str, Any]

# A manifest's entry for one source. `partitions` and `damages` are empty for other sources than Kafka; `files` is None
# unless the source is a directory of files. `records` and the counts of keys and values are None if not counted.
SourceContent = dict[str, Any]

# A manifest's entry for the sink. `rows` is None if not counted, `files` is None if the sink has no files or they
# cannot be listed. `version` is that of a Delta table or the snapshot id of an Iceberg table after the run, else None.
SinkContent = dict[str, Any]

# The part of a pipeline's definition that determines its output, without the options of sources and sink that may be
# secret. A run resumes another run only if both are equal. `clusters` has the cluster ids of topics, by the names of
# sources and by "" of the sink, `topic_ids` the ids of the topics that are read, by source and topic.
PipelineIdentity = dict[str, Any]

# The manifest of a run. `runs` counts the first run and each run that resumed it; times are epoch milliseconds.
ManifestContent = dict[str, Any]

# The file moves that complete a run: files to delete, and files to move from `staging` into `directory`. A sink that is
# not a directory of files has only `writing`: the URI of the sink that may hold part of the rows; a table also has
# `version`: the one before the run, None if there was no table. A running stream has `streaming`, the URI of its sink,
# `checkpoint`, `pipeline`, its identity, `batch`, the number of the last micro-batch that the manifest has (-1: none),
# `starts`, the offsets after it by source (None while unknown), `files`, the files of the sink by then (None if it has
# none), `runs`, that of the manifest by then (0 without one), and `started_ms`.
Journal = dict[str, Any]

# Spark's progress of one trigger of a stream, as in its JSON.
TriggerProgress = dict[str, Any]

# The values of a pipeline file by key. Each table in `sources` has the keys that describe a source.
PipelineValues = dict[str, Any]
