"""The tree of nodes of Kafka's metadata shell (org.apache.kafka.image.node, RootShellNode).

A node is a text (a file) or a Directory. Directories make their children on demand: a cluster may have a million
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import MetadataImage, TopicState
from kafkatools.core.java.text import java_double
from kafkatools.core.protocol.uuids import uuid_text
from kafkatools.core.secrets import is_secret_name
from kafkatools.tools.metadata_shell import node_texts
from kafkatools.tools.metadata_shell.loading import LoadedMetadata

_RESOURCE_TYPES = {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_QUOTA_TYPES = {"client-id": "clientId", "ip": "ip", "user": "user"}
_NO_PRODUCER_ID = 0


class Directory(NamedTuple):
    """A directory: the names of its children, and a function that makes the child of a name (None: there is none)."""

    names: Iterable[str]
    child: Callable[[str], Node | None]

    def sorted_names(self) -> list[str]:
        """Return the names in the order of Java's String.compareTo."""
        return sorted(self.names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


Node = str | Directory


def _of(children: Mapping[str, Callable[[], Node]]) -> Directory:
    """Return a directory of children that are made on demand."""

    def child(name: str) -> Node | None:
        make = children.get(name)
        return None if make is None else make()

    return Directory(children, child)


def root_node(loaded: LoadedMetadata, version: str, with_secrets: bool) -> Directory:
    """Return the root of the tree. `version` is shown as that of the shell."""
    local = _of({"commitId": lambda: "unknown", "version": lambda: version})
    return _of({"local": lambda: local, "image": lambda: _image(loaded, with_secrets)})


def _image(loaded: LoadedMetadata, with_secrets: bool) -> Directory:
    image = loaded.image
    producer_id = -1 if image.next_producer_id == _NO_PRODUCER_ID else image.next_producer_id
    return _of(
        {
            "acls": lambda: _of({"byId": lambda: _acls(image)}),
            "clientQuotas": lambda: _quotas(image),
            "cluster": lambda: _of({"brokers": lambda: _brokers(image), "controllers": lambda: _controllers(image)}),
            "configs": lambda: _configs(image, with_secrets),
            "delegationToken": lambda: _tokens(image, with_secrets),
            "features": lambda: _features(image),
            "producerIds": lambda: _of({"nextProducerId": lambda: str(producer_id)}),
            "provenance": lambda: node_texts.provenance_text(loaded.provenance),
            "scram": lambda: _credentials(image, with_secrets),
            "topics": lambda: _of({"byId": lambda: _topics_by_id(image), "byName": lambda: _topics_by_name(image)}),
        }
    )


def _acls(image: MetadataImage) -> Directory:
    by_id = {uuid_text(acl_id): acl for acl_id, acl in image.acls.by_id.items()}
    return Directory(by_id, lambda name: node_texts.acl_text(by_id[name]) if name in by_id else None)


def _quotas(image: MetadataImage) -> Directory:
    by_name = {_quota_name(entity): quotas for entity, quotas in image.client_quotas.by_entity.items()}

    def child(name: str) -> Node | None:
        quotas = by_name.get(name)
        if quotas is None:
            return None
        return Directory(quotas, lambda key: java_double(quotas[key]) if key in quotas else None)

    return Directory(by_name, child)


def _quota_name(entity: Iterable[tuple[str, str | None]]) -> str:
    """Return the name of a quota's entity. A default entity has empty parentheses; Kafka's shell gives all of them the
    same empty name, which cannot be shown."""
    parts = (f"{_QUOTA_TYPES.get(kind, kind)}({_escaped(name or '')})" for kind, name in sorted(entity))
    return "_".join(parts)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _brokers(image: MetadataImage) -> Directory:
    by_name = {str(broker_id): broker for broker_id, broker in image.brokers.items()}

    def child(name: str) -> Node | None:
        broker = by_name.get(name)
        return None if broker is None else node_texts.broker_text(broker, image.registrations[broker.broker_id])

    return Directory(by_name, child)


def _controllers(image: MetadataImage) -> Directory:
    by_name = {str(controller_id): record for controller_id, record in image.controllers.items()}
    return Directory(by_name, lambda name: node_texts.controller_text(by_name[name]) if name in by_name else None)


def _configs(image: MetadataImage, with_secrets: bool) -> Directory:
    by_name = {
        _RESOURCE_TYPES.get(kind, str(kind)) + (f":{name}" if name else ""): values
        for (kind, name), values in image.configs.items()
    }

    def child(name: str) -> Node | None:
        values = by_name.get(name)
        if values is None:
            return None
        shown = {
            key: value if with_secrets or not is_secret_name(key) else node_texts.REDACTED
            for key, value in values.items()
        }
        return Directory(shown, shown.get)

    return Directory(by_name, child)


def _tokens(image: MetadataImage, with_secrets: bool) -> Directory:
    tokens = image.delegation_tokens
    return Directory(tokens, lambda name: node_texts.token_text(tokens[name], with_secrets) if name in tokens else None)


def _features(image: MetadataImage) -> Directory:
    levels = dict(image.features)
    texts = {"metadataVersion": node_texts.metadata_version_text(levels.pop(METADATA_VERSION, None))}
    texts |= {f"finalized_{name}": str(level) for name, level in levels.items()}
    return Directory(texts, texts.get)


def _credentials(image: MetadataImage, with_secrets: bool) -> Directory:
    def of(mechanism: int) -> Directory:
        by_user = {user: records[mechanism] for user, records in image.scram.by_user.items() if mechanism in records}
        return Directory(
            by_user, lambda user: node_texts.credential_text(by_user[user], with_secrets) if user in by_user else None
        )

    return _of({name: partial(of, mechanism) for mechanism, name in _MECHANISMS.items()})


def _topics_by_name(image: MetadataImage) -> Directory:
    topics = image.topics
    return Directory(topics, lambda name: _topic(topics[name]) if name in topics else None)


def _topics_by_id(image: MetadataImage) -> Directory:
    topics = {uuid_text(topic_id): topic for topic_id, topic in image.topics_by_id.items()}
    return Directory(topics, lambda name: _topic(topics[name]) if name in topics else None)


def _topic(topic: TopicState) -> Directory:
    partitions = {str(number): partition for number, partition in topic.partitions.items()}

    def child(name: str) -> Node | None:
        if name == "name":
            return topic.name
        if name == "id":
            return uuid_text(topic.topic_id)
        return node_texts.partition_text(partitions[name]) if name in partitions else None

    return Directory(["name", "id", *partitions], child)


def walk(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Yield a node and all nodes below it with their paths, each directory before its children in sorted order."""
    yield path, node
    if isinstance(node, Directory):
        for name in node.sorted_names():
            child = node.child(name)
            if child is not None:
                yield from walk(f"{path.rstrip('/')}/{name}", child)
