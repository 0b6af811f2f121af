"""Formats log directories as Apache Kafka's storage tool does: meta.properties, bootstrap.checkpoint and voters.

`plan` validates the directories without a change, `write_directory` writes one of them. A directory with a
meta.properties counts as formatted. Source, including messages: Formatter, BootstrapDirectory, MetaPropertiesEnsemble.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import FileSystem, write_atomically
from kafkatools.core.log.format.checkpoints import read_meta_properties, write_meta_properties
from kafkatools.core.log.format.filenames import META_PROPERTIES
from kafkatools.core.protocol import uuids
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.scram_credentials import ScramCredential
    from kafkatools.core.protocol.entities import Entity

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
METADATA_PARTITION = "__cluster_metadata-0"
_FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
MOVED = (
    "If you moved your data, make sure your configured node id matches. If you intend to create a new node, you should "
    "remove all data in your data directories."
)


class FormatterError(KafkaError):
    """A directory cannot be formatted as requested."""


class Voter(NamedTuple):
    """A controller of a dynamic quorum (KIP-853); `directory_id` is in Kafka's text form."""

    node_id: int
    host: str
    port: int
    directory_id: str


class FormatRequest(NamedTuple):
    """The directories to format and their content. `levels` has every feature; `voters` is empty in a static quorum."""

    cluster_id: str
    node_id: int
    directories: Sequence[str]
    metadata_directory: str
    levels: Mapping[str, int]
    credentials: Sequence[ScramCredential] = ()
    voters: Sequence[Voter] = ()
    controller_listener: str = "CONTROLLER"
    ignore_formatted: bool = False


class PlannedDirectory(NamedTuple):
    """A directory to format, its kind in Kafka's words (`metadata directory`) and its new id."""

    path: str
    kind: str
    directory_id: str


def random_uuid() -> str:
    """Return a random id in Kafka's text form."""
    return uuid_text(uuids.random_uuid())


def plan(files: FileSystem, request: FormatRequest) -> list[PlannedDirectory]:
    """Return the directories to format, the metadata directory first. Raises FormatterError for a directory of another
    cluster or node, or one that is already formatted."""
    empty = []
    for path in sorted({*request.directories, request.metadata_directory}):
        properties = posixpath.join(path, META_PROPERTIES)
        if not files.exists(properties):
            empty.append(path)
            continue
        _verify(read_meta_properties(files, properties), path, request)
        if not request.ignore_formatted:
            raise FormatterError(
                f"Log directory {path} is already formatted. Use --ignore-formatted to ignore this directory and "
                "format the others."
            )
    empty.sort(key=lambda path: path != request.metadata_directory)
    return [_planned(path, request) for path in empty]


def _verify(properties: Mapping[str, str], path: str, request: FormatRequest) -> None:
    """Refuse a directory of another cluster or node, even with --ignore-formatted."""
    meta_path = posixpath.join(path, META_PROPERTIES)
    if properties.get("cluster.id") != request.cluster_id:
        raise FormatterError(
            f"Invalid cluster.id in: {meta_path}. "
            f"Expected {request.cluster_id}, but read {properties.get('cluster.id')}"
        )
    if properties.get("node.id") != str(request.node_id):
        stored = properties.get("node.id")
        raise FormatterError(
            f"Stored node id {stored} doesn't match previous node id {request.node_id} in {meta_path}. {MOVED}"
        )


def _planned(path: str, request: FormatRequest) -> PlannedDirectory:
    if path != request.metadata_directory:
        return PlannedDirectory(path, "data directory", random_uuid())
    if not request.voters:
        return PlannedDirectory(path, "metadata directory", random_uuid())
    for voter in request.voters:
        if voter.node_id == request.node_id:
            return PlannedDirectory(path, "dynamic metadata voter directory", voter.directory_id)
    return PlannedDirectory(path, "dynamic metadata directory", random_uuid())


def bootstrap_records(request: FormatRequest) -> list[Entity]:
    """Return the first metadata records of a new cluster: feature levels above 0, then SCRAM credentials."""
    from kafkatools.core.protocol.schemas.metadata import FeatureLevelRecord, UserScramCredentialRecord

    other_features = sorted(name for name in request.levels if name not in (METADATA_VERSION, "kraft.version"))
    records = [
        FeatureLevelRecord(name=name, feature_level=request.levels[name])
        for name in (METADATA_VERSION, *other_features)
        if request.levels[name] > 0
    ]
    records += [UserScramCredentialRecord(**credential._asdict()) for credential in request.credentials]
    return records


def read_bootstrap_records(files: FileSystem, directory: str) -> list[Entity]:
    """Return the first records of a new cluster, from a formatted metadata directory; none without the file."""
    from kafkatools.core.broker.metadata.metadata_log import data_records

    path = posixpath.join(directory, BOOTSTRAP_CHECKPOINT)
    return list(data_records(files.read_bytes(path))) if files.exists(path) else []


def write_directory(files: FileSystem, request: FormatRequest, directory: PlannedDirectory, now_ms: int) -> None:
    """Format one directory, which is created if necessary. meta.properties is written last, since it marks the
    directory as formatted. Raises OSError."""
    from kafkatools.core.broker.metadata.snapshot import encode_snapshot

    files.make_directory(directory.path)
    data = encode_snapshot(bootstrap_records(request), 0, last_contained_timestamp=0, wall_ms=now_ms)
    write_atomically(files, posixpath.join(directory.path, BOOTSTRAP_CHECKPOINT), data)
    if "dynamic" in directory.kind:
        folder = posixpath.join(directory.path, METADATA_PARTITION)
        files.make_directory(folder)
        voters = _voter_records(request)
        snapshot = encode_snapshot((), 0, last_contained_timestamp=now_ms, wall_ms=now_ms, quorum_records=voters)
        write_atomically(files, posixpath.join(folder, _FIRST_SNAPSHOT), snapshot)
    properties = {
        "version": "1",
        "cluster.id": request.cluster_id,
        "node.id": str(request.node_id),
        "directory.id": directory.directory_id,
    }
    write_meta_properties(files, posixpath.join(directory.path, META_PROPERTIES), properties, now_ms)


def _voter_records(request: FormatRequest) -> list[tuple[bytes, bytes]]:
    """Return the KRaft version and the voters as control records of a dynamic quorum's first snapshot (KIP-853)."""
    from kafkatools.core.protocol.schemas.snapshot import KRaftVersionRecord, VotersRecord, encode_record

    voters = [
        {
            "voter_id": voter.node_id,
            "voter_directory_id": uuid_from_text(voter.directory_id),
            "endpoints": [{"name": request.controller_listener, "host": voter.host, "port": voter.port}],
            "k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for voter in request.voters
    ]
    return [encode_record(KRaftVersionRecord(k_raft_version=1)), encode_record(VotersRecord(voters=voters))]
