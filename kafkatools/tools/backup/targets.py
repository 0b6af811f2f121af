"""Prepare the target topics of a restore: create them, or check that existing ones are empty or an unfinished restore.

Rules: nothing is created before all topics are checked. A topic is created with the partition count and configs of the
source. Timestamps are kept: message.timestamp.type=LogAppendTime is set only when all records are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafkatools.core.admin import configs as topic_settings
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import ConfigChange, incremental_alter_configs
from kafkatools.core.admin.offsets import EARLIEST, LATEST
from kafkatools.core.admin.topics import NewTopic, TopicDescription, create_topics, describe_topics
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.backup.cluster_state import log_offsets
from kafkatools.tools.backup.journal import RestoreMark, Unfinished, mark_unfinished, read_unfinished
from kafkatools.tools.backup.manifest import Manifest, TopicBackup
from kafkatools.tools.copying.client_cluster import topic_configs
from kafkatools.tools.rights import TOPIC, Right, ensure_topic_rights, naming

_TIMESTAMP_TYPE = "message.timestamp.type"
_LOG_APPEND_TIME = "LogAppendTime"
_MIN_ISR = "min.insync.replicas"
_RIGHTS = ("WRITE", "READ")
"""What writing records and committing offsets of a topic need."""
_CREATE, _CONTINUE, _FILL = "create", "continue", "fill"


@dataclass
class Target:
    """A topic to restore. `action`: create, continue (an unfinished restore) or fill (it exists and is empty).
    `was_created`: this run created it. `was_there`: it existed before the restore, so that it keeps its configs.
    `starts` and `ends`: the first offset of the restore and the log end offset of each partition."""

    source: str
    name: str
    backup: TopicBackup
    mark: RestoreMark
    action: str = _CREATE
    topic_id: str | None = None
    was_created: bool = False
    was_there: bool = False
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def has_append_time(self) -> bool:
        """Return whether the source topic has LogAppendTime."""
        return self.backup.configs.get(_TIMESTAMP_TYPE) == _LOG_APPEND_TIME

    @property
    def is_new(self) -> bool:
        """Return whether the restore creates the topic."""
        return self.action == _CREATE


def find_targets(
    admin: AdminClient,
    manifest: Manifest,
    names: Mapping[str, str],
    until_ms: int | None,
    generation: int | None = None,
) -> list[Target]:
    """Return the targets of topics: `names` has target names by source name. `generation`: that of the mark if it is
    not the manifest's. Raises CommandError for a topic that cannot take the restore, KafkaError."""
    described = describe_topics(admin, list(names.values()))
    targets = []
    for source, name in names.items():
        backup = manifest.topics[source]
        number = manifest.generation if generation is None else generation
        mark = RestoreMark(manifest.cluster_id, source, backup.topic_id, number, until_ms)
        target = Target(source, name, backup, mark)
        existing = described[name]
        if existing.error is None:
            _check(admin, target, existing)
        elif not isinstance(existing.error, UnknownTopicOrPartition):
            error = naming(existing.error, Right("DESCRIBE", TOPIC, name))
            raise CommandError(f"Topic {name}: {error}", kind=error.name)
        targets.append(target)
    ensure_topic_rights(admin, [target.name for target in targets if not target.is_new], *_RIGHTS)
    return targets


def _check(admin: AdminClient, target: Target, existing: TopicDescription) -> None:
    """Check a topic that exists. Raises CommandError unless it is empty or an unfinished restore."""
    count = len(target.backup.partitions)
    if len(existing.partitions) != count:
        raise CommandError(
            f"Topic {target.name} has {len(existing.partitions)} partitions, and the backup has {count}",
            hint="Restore to another name with --rename, or delete the topic.",
        )
    target.topic_id = existing.topic_id
    unfinished = read_unfinished(admin, target.mark, target.name, target.topic_id)
    target.ends = _log_offsets(admin, target, LATEST)
    if unfinished is not None:
        target.action, target.was_there = _CONTINUE, not unfinished.is_new
        target.starts = {number: unfinished.starts.get(number, 0) for number in range(count)}
        return
    firsts = _log_offsets(admin, target, EARLIEST)
    filled = [number for number, end in target.ends.items() if end > firsts[number]]
    if filled:
        number = filled[0]
        raise CommandError(
            f"Topic {target.name} is not empty: partition {number} has records up to offset {target.ends[number] - 1}",
            hint="Restore to another name with --rename, or delete the topic.",
            kind="NOT_EMPTY",
        )
    _ensure_keeps_timestamps(admin, target)
    target.action, target.was_there = _FILL, True
    target.starts = dict(target.ends)


def _ensure_keeps_timestamps(admin: AdminClient, target: Target) -> None:
    if any(entry.value == _LOG_APPEND_TIME for entry in topic_configs(admin, target.name, [_TIMESTAMP_TYPE])):
        raise CommandError(
            f"Topic {target.name} has {_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}: the records would get other timestamps",
            hint=f"kt configs --alter --topic {target.name} --add-config {_TIMESTAMP_TYPE}=CreateTime",
        )


def _log_offsets(admin: AdminClient, target: Target, which: int) -> dict[int, int]:
    """Return the first or the end offset of each partition. Raises KafkaError."""
    keys = [(target.name, number) for number in range(len(target.backup.partitions))]
    found = {}
    for (_, number), offset in log_offsets(admin, keys, which).items():
        if offset.error is not None:
            raise naming(offset.error, Right("DESCRIBE", TOPIC, target.name))
        found[number] = offset.offset
    return found


def create_missing(
    admin: AdminClient, targets: Sequence[Target], replication: int | None, note: Callable[[str], None]
) -> None:
    """Create the missing topics and mark all. `replication`: the number of replicas, None: that of the source, at most
    one for each broker. Raises CommandError, KafkaError."""
    new = validate_missing(admin, targets, replication, note)
    missing = {target.name: target for target in targets if target.is_new}
    failure: CommandError | None = None
    for name, created in create_topics(admin, new).items() if new else ():
        if created.error is not None:
            failure = failure or _not_created(name, created.error)
        else:
            missing[name].was_created, missing[name].topic_id = True, created.topic_id
    if failure is not None:
        raise failure
    _wait_for(admin, list(missing.values()))
    ensure_topic_rights(admin, missing, *_RIGHTS)
    for target in targets:
        if target.action != _CONTINUE:
            unfinished = Unfinished(target.starts, is_new=not target.was_there)
            mark_unfinished(admin, target.mark, target.name, target.topic_id, unfinished)


def validate_missing(
    admin: AdminClient, targets: Sequence[Target], replication: int | None, note: Callable[[str], None]
) -> list[NewTopic]:
    """Return the topics to create, once brokers have confirmed that all of them can be. `replication`: as in
    `create_missing`. Raises CommandError, KafkaError."""
    missing = [target for target in targets if target.is_new]
    brokers = len(admin.brokers()) if missing else 0
    new = [_new_topic(target, replication or min(target.backup.replication, brokers), note) for target in missing]
    for name, checked in create_topics(admin, new, validate_only=True).items() if new else ():
        if checked.error is not None:
            raise _not_created(name, checked.error)
    return new


def _not_created(name: str, failure: KafkaError) -> CommandError:
    error = naming(failure, Right("CREATE", TOPIC, name))
    return CommandError(f"Topic {name} cannot be created: {error}", kind=error.name)


def _new_topic(target: Target, replication: int, note: Callable[[str], None]) -> NewTopic:
    configs = dict(target.backup.configs)
    if target.has_append_time:
        del configs[_TIMESTAMP_TYPE]
    if replication < target.backup.replication:
        note(f"{target.name} gets {replication} replicas: the source has {target.backup.replication}")
        if int(configs.get(_MIN_ISR, "1")) > replication:
            configs[_MIN_ISR] = str(replication)
            note(f"{target.name} gets {_MIN_ISR}={replication}: it has no more replicas")
    for name in target.backup.hidden_configs:
        note(f"{target.name} is restored without its config {name}, whose value brokers do not reveal")
    return NewTopic(target.name, len(target.backup.partitions), replication, configs=configs)


def _wait_for(admin: AdminClient, targets: Sequence[Target]) -> None:
    """Wait until the brokers have the new topics with all leaders, and read ids and offsets."""
    deadline_ms = admin.deadline_ms()
    attempts = 0
    waiting = list(targets)
    while waiting:
        described = describe_topics(admin, [target.name for target in waiting])
        failure: KafkaError | None = None
        for target in list(waiting):
            topic = described[target.name]
            if topic.error is None and all(part.leader >= 0 for part in topic.partitions):
                target.topic_id = topic.topic_id
                target.ends = _log_offsets(admin, target, LATEST)
                target.starts = dict(target.ends)
                waiting.remove(target)
            failure = topic.error
        if waiting and not admin.wait_before_retry(attempts, deadline_ms):
            raise failure or CommandError(f"Topic {waiting[0].name} was created and has no leaders yet")
        attempts += 1


def set_append_times(admin: AdminClient, targets: Iterable[Target], note: Callable[[str], None]) -> list[str]:
    """Set LogAppendTime on the topics whose source has it, once all records are there: it would have replaced their
    timestamps. A topic that was there keeps its configs, and `note` gets a line. Returns a line about each failure."""
    failures = []
    for target in targets:
        if target.has_append_time and target.was_there:
            note(f"{target.name} was there and keeps its {_TIMESTAMP_TYPE}: that of the source is {_LOG_APPEND_TIME}")
        elif target.has_append_time:
            change = ConfigChange(_TIMESTAMP_TYPE, _LOG_APPEND_TIME)
            resource = (topic_settings.TOPIC, target.name)
            error = incremental_alter_configs(admin, {resource: [change]})[resource]
            if error is not None:
                error = naming(error, Right("ALTER_CONFIGS", TOPIC, target.name))
                failures.append(f"{_TIMESTAMP_TYPE}={_LOG_APPEND_TIME} was not set on {target.name}: {error}")
    return failures
