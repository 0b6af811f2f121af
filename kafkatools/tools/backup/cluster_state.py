"""Read the state of a cluster that a backup has beside the records: topics, configs, groups, ACLs and quotas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin import configs as topic_configs
from kafkatools.core.admin.acls import UNKNOWN, describe_acls
from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.configs import describe_configs
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import SHARE, list_groups
from kafkatools.core.admin.leaders import LeaderRequest, TopicPartition, send_to_leaders
from kafkatools.core.admin.offsets import PartitionOffset, list_offsets
from kafkatools.core.admin.quotas import describe_client_quotas
from kafkatools.core.admin.share_groups import list_share_group_offsets
from kafkatools.core.admin.topics import TopicDescription, describe_all_topics, describe_topics
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import topic_fields
from kafkatools.exit_status import CommandError
from kafkatools.output import counted
from kafkatools.tools.backup.manifest import GroupOffset, Manifest, QuotaBackup
from kafkatools.tools.declared.present import TRANSIENT_CONFIGS
from kafkatools.tools.rights import GROUP, READ_ACLS, READ_QUOTAS, TOPIC, Right, naming

_CONFIGS_AT_A_TIME = 500
_GROUPS_AT_A_TIME = 500
_CONSUMER_REPLICA = -1


class TopicConfigs:
    """The configs of a topic: its own values, the names of sensitive ones, and all effective values."""

    def __init__(self, own: dict[str, str], hidden: list[str], effective: Mapping[str, str | None]) -> None:
        self.own, self.hidden, self.effective = own, hidden, effective

    @property
    def is_compacted(self) -> bool:
        """Return whether the cleanup policy includes compaction."""
        return "compact" in (self.effective.get("cleanup.policy") or "")

    def number(self, name: str) -> int | None:
        """Return an effective value that is a number, None if it is not known."""
        value = self.effective.get(name)
        return int(value) if value is not None and value.lstrip("-").isdigit() else None


def requested_topics(admin: AdminClient, names: Collection[str], notes: list[str]) -> dict[str, TopicDescription]:
    """Return the topics with these names, or without names all that are not internal and do not begin with `__`,
    sorted; brokers list only those that the user may describe. Adds a note about names that begin so. Raises
    CommandError for a name that does not exist, KafkaError."""
    topics = {}
    left_out = []
    for name, description in sorted(describe_all_topics(admin).items()):
        if not names and name.startswith("__") and not description.is_internal:
            left_out.append(name)
        if name not in names if names else description.is_internal or name.startswith("__"):
            continue
        if isinstance(description.error, UnknownTopicOrPartition):
            continue
        if description.error is not None:
            raise description.error
        topics[name] = description
    if left_out:
        count = counted(len(left_out), "topic")
        notes.append(f"Left out, since the name begins with __: {count}, such as {left_out[0]}. Name it with --topic")
    absent = [name for name in names if name not in topics]
    for name, description in describe_topics(admin, absent).items() if absent else ():
        if description.error is not None and not isinstance(description.error, UnknownTopicOrPartition):
            error = naming(description.error, Right("DESCRIBE", TOPIC, name))
            raise type(error)(f"Topic {name}: {error}")
        raise CommandError(f"Topic {name} does not exist", kind="UNKNOWN_TOPIC_OR_PARTITION")
    return topics


def read_configs(admin: AdminClient, topics: Iterable[str]) -> dict[str, TopicConfigs]:
    """Return the configs of topics. Raises KafkaError."""
    names = list(topics)
    found: dict[str, TopicConfigs] = {}
    for at in range(0, len(names), _CONFIGS_AT_A_TIME):
        resources = [(topic_configs.TOPIC, name) for name in names[at : at + _CONFIGS_AT_A_TIME]]
        for (_, name), config in describe_configs(admin, resources).items():
            if config.error is not None:
                raise naming(config.error, Right("DESCRIBE_CONFIGS", TOPIC, name))
            own = [item for item in config.entries if item.source == topic_configs.TOPIC_CONFIG]
            found[name] = TopicConfigs(
                {
                    item.name: item.value
                    for item in own
                    if item.value is not None and item.name not in TRANSIENT_CONFIGS
                },
                [item.name for item in own if item.value is None],
                {item.name: item.value for item in config.entries},
            )
    return found


def log_offsets(
    admin: AdminClient, partitions: Collection[TopicPartition], timestamp: int
) -> dict[TopicPartition, PartitionOffset]:
    """Return the first or the end offset of each partition, or its error."""
    return list_offsets(admin, dict.fromkeys(partitions, timestamp)) if partitions else {}


def epoch_ends(
    admin: AdminClient, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
    """Return for each partition and leader epoch the largest epoch up to it that the log has, and the end offset of
    that epoch; (-1, -1) for none (OffsetForLeaderEpoch, KIP-101)."""
    if not epochs:
        return {}

    def build(partitions: list[TopicPartition], remaining_ms: int) -> Fields:
        entries = (
            (key, {"partition": key[1], "current_leader_epoch": -1, "leader_epoch": epochs[key]}) for key in partitions
        )
        return {"replica_id": _CONSUMER_REPLICA, "topics": topic_fields(entries, "topic")}

    def read(entity: Entity) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
        return {
            (topic.topic, part.partition): error_in(part) or (part.leader_epoch, part.end_offset)
            for topic in entity.topics
            for part in topic.partitions
        }

    request = LeaderRequest(ApiKey.OFFSET_FOR_LEADER_EPOCH, build, read, 3)
    return send_to_leaders(admin, epochs, request)


class StateNotes(NamedTuple):
    """Lines about state that is not in the manifest. `unread`: the kinds of state that could not be read."""

    lines: list[str]
    unread: list[str]


def read_groups(admin: AdminClient, manifest: Manifest, now_ms: int) -> StateNotes:
    """Add the committed offsets of all groups, as far as they are of topics in the manifest. A note counts the share
    groups of these topics."""
    notes: list[str] = []
    unread: list[str] = []
    listing = list_groups(admin)
    if listing.errors:
        failure = next(iter(listing.errors.values()))
        unread.append("groups")
        manifest.unknown["groups"] = str(failure)
        notes.append(f"Group offsets may be incomplete: {failure}")
    shares = _share_groups_of(
        admin, [group.group_id for group in listing.groups if group.type == SHARE], manifest.topics
    )
    if shares:
        verb = "is" if len(shares) == 1 else "are"
        count = counted(len(shares), "share group")
        notes.append(f"{count} {verb} not in the backup, such as {shares[0]}: only committed offsets are")
    names = sorted(group.group_id for group in listing.groups if group.type != SHARE)
    for at in range(0, len(names), _GROUPS_AT_A_TIME):
        for name, group in fetch_offsets(admin, names[at : at + _GROUPS_AT_A_TIME]).items():
            error = group.error or next(iter(group.errors.values()), None)
            if error is not None:
                error = naming(error, Right("DESCRIBE", GROUP, name))
                unread.append(f"group {name}")
                manifest.unknown[f"group {name}"] = str(error)
                notes.append(f"The offsets of group {name} are not in the backup: {error}")
            offsets = [
                GroupOffset(topic, partition, item.offset, item.leader_epoch, item.metadata)
                for (topic, partition), item in sorted(group.offsets.items())
                if topic in manifest.topics
            ]
            if offsets:
                manifest.groups[name] = offsets
    manifest.groups_ms = now_ms
    return StateNotes(notes, unread)


def _share_groups_of(admin: AdminClient, groups: list[str], topics: Collection[str]) -> list[str]:
    """Return the share groups that have offsets of these topics, or whose offsets cannot be read."""
    found = list_share_group_offsets(admin, groups) if groups else {}
    return [
        group
        for group, state in found.items()
        if state.error is not None or any(topic in topics for topic, _ in (*state.offsets, *state.errors))
    ]


def read_access(admin: AdminClient, manifest: Manifest) -> StateNotes:
    """Add ACLs and quotas. A cluster without an authorizer has no ACLs."""
    notes: list[str] = []
    unread: list[str] = []
    try:
        acls = describe_acls(admin)
        manifest.acls = [
            acl._asdict() for acl in sorted(acls) if UNKNOWN not in (acl.resource_type, acl.operation, acl.permission)
        ]
    except KafkaError as failure:
        error = naming(failure, READ_ACLS)
        manifest.unknown["acls"] = str(error)
        if error.name != "SECURITY_DISABLED":
            unread.append("ACLs")
            notes.append(f"ACLs are not in the backup: {error}")
    try:
        quotas = describe_client_quotas(admin, [], strict=False)
        manifest.quotas = [QuotaBackup(list(item.entity), dict(item.values)) for item in quotas]
    except KafkaError as failure:
        error = naming(failure, READ_QUOTAS)
        manifest.unknown["quotas"] = str(error)
        unread.append("quotas")
        notes.append(f"Quotas are not in the backup: {error}")
    return StateNotes(notes, unread)
