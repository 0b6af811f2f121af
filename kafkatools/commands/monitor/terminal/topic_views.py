"""The views of topics and partitions: all topics, all partitions, one topic, one broker and one partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkatools.commands.monitor.tables import BAD, GOOD, WARNING
from kafkatools.commands.monitor.terminal import columns as c
from kafkatools.commands.monitor.terminal import places
from kafkatools.commands.monitor.terminal.columns import Cell, Column
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.commands.monitor.terminal.views import Target, View
from kafkatools.tools.diagnosis.observations import BROKER, GROUP, PARTITION, TOPIC, Subject
from kafkatools.tools.monitor.assessment import Health, health_of, partition_notes
from kafkatools.tools.monitor.figures import UNKNOWN, ids
from kafkatools.tools.monitor.view import GroupPartition, GroupView, PartitionView, TopicView

_MOODS = {Health.BROKEN: BAD, Health.DEGRADED: WARNING, Health.GOOD: GOOD}
_STATES = {Health.BROKEN: "broken", Health.DEGRADED: "degraded", Health.GOOD: "ok"}

STATES: dict[str, Callable[[PartitionView], bool]] = {
    "offline": lambda part: part.is_offline,
    "under-min-isr": lambda part: part.is_under_min_isr,
    "at-min-isr": lambda part: part.is_at_min_isr,
    "under-replicated": lambda part: part.is_under_replicated,
    "moving": lambda part: bool(part.adding_replicas or part.removing_replicas),
    "not-preferred": lambda part: not part.is_preferred,
}
"""The states by which the overview opens partitions."""


# -- topics --


def _topics(model: Model, target: Target) -> list[TopicView]:
    return sorted(model.view.topics, key=lambda topic: (health_of(topic), topic.is_internal, topic.name))


def _under_min_isr(model: Model, topic: TopicView) -> Cell:
    return c.at_least(topic.under_min_isr, topic.least_under_min_isr)


def _topic_rate(model: Model, topic: TopicView) -> Cell:
    return c.rate(topic.messages_in, is_unknown=topic.has_unknown_ends)


def _topic_bytes(model: Model, topic: TopicView) -> Cell:
    is_first = model.before is None
    return Cell("-", None) if topic.bytes_in is None and is_first else c.size(topic.bytes_in)


def _factor(topic: TopicView) -> int:
    return max((len(part.replicas) - len(part.adding_replicas) for part in topic.partitions), default=0)


TOPICS = View(
    "Topics",
    (
        Column("Topic", lambda model, topic: c.text(topic.name), is_number=False, least=24),
        Column("State", lambda model, topic: c.text(_STATES[health_of(topic)], int(health_of(topic))),
               "broken: a partition rejects acks=all; degraded: one is under-replicated", is_number=False),
        Column("Parts", lambda model, topic: c.number(len(topic.partitions)), "partitions"),
        Column("RF", lambda model, topic: c.number(_factor(topic)), "replication factor"),
        Column("Offl", lambda model, topic: c.number(sum(part.is_offline for part in topic.partitions)),
               "partitions without a leader"),
        Column("<Min", _under_min_isr, "partitions under min.insync.replicas"),
        Column("URP", lambda model, topic: c.number(sum(part.is_under_replicated for part in topic.partitions)),
               "under-replicated partitions"),
        Column("Msg/s", _topic_rate, "records per second that come in"),
        Column("Size", lambda model, topic: c.size(topic.size_bytes), "bytes of the leaders' logs"),
        Column("Bytes/s", _topic_bytes, "growth of the leaders' logs per second"),
    ),
    _topics,
    key=lambda topic: topic.name,
    opens=lambda model, topic: Place(places.TOPIC, (topic.name,)),
    subject=lambda topic: Subject(TOPIC, topic.name),
    mood=lambda topic: _MOODS[health_of(topic)],
    when_empty=lambda model, target: "no topic",
)  # fmt: skip


# -- partitions --


def state_of(part: PartitionView) -> str:
    """Return the worst state of a partition in one word: offline, <min, urp, moving, not pref, ok."""
    if part.is_offline:
        return "offline"
    if part.is_under_min_isr:
        return "<min"
    if part.is_under_replicated:
        return "urp"
    if part.adding_replicas or part.removing_replicas:
        return "moving"
    return "ok" if part.is_preferred else "not pref"


def _mood(part: PartitionView) -> str:
    if part.is_offline or part.is_under_min_isr:
        return BAD
    return WARNING if part.is_under_replicated else GOOD


def leader_cell(part: PartitionView | None) -> Cell:
    """Return a cell with the leader's id, `none` without a leader, `?` for a partition that is not in view."""
    if part is None:
        return Cell(UNKNOWN, None)
    return Cell("none", -1) if part.is_offline else Cell(str(part.leader), part.leader)


def _rate(model: Model, part: PartitionView) -> Cell:
    is_unknown = not part.is_offline and (part.end_offset is None or _had_no_end(model, part))
    return c.rate(model.messages_in(part), is_unknown=is_unknown)


def _had_no_end(model: Model, part: PartitionView) -> bool:
    old = None if model.before is None else model.before.by_partition.get((part.topic, part.partition))
    return old is not None and old.end_offset is None


def _start(model: Model, part: PartitionView) -> Cell:
    starts = {} if model.details is None else model.details.starts
    start = starts.get((part.topic, part.partition), part.start_offset)
    return Cell("...", None) if start is None and model.details is None else c.number(start)


def _list(brokers: tuple[int, ...] | None) -> Cell:
    """Return a cell of broker ids, `none` without any, `-` if the cluster does not report them."""
    return Cell(ids(brokers) or "none", () if brokers is None else brokers)


_STATE = Column(
    "State", lambda model, part: c.text(state_of(part)),
    "offline; <min: under min.insync.replicas; urp: under-replicated; moving; not pref: not the preferred leader",
    is_number=False,
)  # fmt: skip
_NAME = Column(
    "Partition",
    lambda model, part: c.text(f"{part.topic}-{part.partition}", (part.topic, part.partition)),
    is_number=False,
    least=24,
)
_NUMBER = Column("Part", lambda model, part: c.number(part.partition), "partition")
_LEADER = Column("Leader", lambda model, part: leader_cell(part), "broker id")
_ISR = Column("ISR", lambda model, part: _list(part.isr), "in-sync replicas", is_number=False, is_list=True)
_REPLICAS = Column(
    "Replicas", lambda model, part: _list(part.replicas), "broker ids, the preferred leader first",
    is_number=False, is_list=True,
)  # fmt: skip
_START = Column("Start", _start, "log start offset")
_END = Column("End", lambda model, part: c.number(part.end_offset), "log end offset")
_RATE = Column("Msg/s", _rate, "records per second that come in")
_SIZE = Column("Size", lambda model, part: c.size(part.size_bytes), "bytes of the leader's log")
_ELR = Column("ELR", lambda model, part: _list(part.elr), "eligible leader replicas", is_number=False, is_list=True)
_MIN = Column("Min", lambda model, part: c.number(part.min_isr), "min.insync.replicas")
_NOTES = Column("Notes", lambda model, part: c.text(", ".join(partition_notes(part))), is_number=False)


def _partitions(model: Model, target: Target) -> Sequence[PartitionView]:
    if not target:
        return list(model.view.partitions)
    is_in_state = STATES[str(target[0])]
    return [part for part in model.view.partitions if is_in_state(part)]


def _of_topic(model: Model, target: Target) -> Sequence[PartitionView]:
    topic = model.topics.get(str(target[0]))
    return () if topic is None else topic.partitions


def _topic_gone(model: Model, target: Target) -> str:
    return "the topic is gone" if str(target[0]) not in model.topics else "no partition"


def _of_broker(model: Model, target: Target) -> Sequence[PartitionView]:
    return [part for part in model.view.partitions if target[0] in part.replicas]


def _partition_view(
    title: str,
    columns: Sequence[Column],
    rows: Callable[[Model, Target], Sequence[PartitionView]],
    when_empty: Callable[[Model, Target], str] = lambda model, target: "no partition",
) -> View:
    return View(
        title,
        columns,
        rows,
        key=lambda part: (part.topic, part.partition),
        opens=lambda model, part: Place(places.PARTITION, (part.topic, part.partition)),
        subject=lambda part: Subject(PARTITION, part.topic, part.partition),
        mood=_mood,
        when_empty=when_empty,
    )


PARTITIONS = _partition_view(
    "Partitions", (_NAME, _STATE, _LEADER, _ISR, _END, _RATE, _SIZE, _REPLICAS, _ELR, _MIN, _NOTES), _partitions
)
ONE_TOPIC = _partition_view(
    "Topic",
    (_NUMBER, _STATE, _LEADER, _ISR, _START, _END, _RATE, _SIZE, _REPLICAS, _ELR, _MIN, _NOTES),
    _of_topic,
    _topic_gone,
)
ONE_BROKER = _partition_view(
    "Broker", (_NAME, _STATE, _LEADER, _ISR, _END, _RATE, _SIZE, _REPLICAS, _ELR, _MIN, _NOTES), _of_broker,
    lambda model, target: "no replica on this broker",
)  # fmt: skip


# -- one partition --


class _Replica(NamedTuple):
    """A replica of a partition."""

    part: PartitionView
    broker: int


class _Reader(NamedTuple):
    """A group that committed in a partition."""

    group: GroupView
    part: GroupPartition


def _replicas_and_readers(model: Model, target: Target) -> Sequence[_Replica | _Reader]:
    topic, partition = str(target[0]), int(target[1])
    part = model.view.by_partition.get((topic, partition))
    if part is None:
        return ()
    readers = [
        _Reader(group, committed)
        for group in model.view.groups
        for committed in group.partitions or ()
        if committed.topic == topic and committed.partition == partition
    ]
    return [*(_Replica(part, broker) for broker in part.replicas), *readers]


def _role(model: Model, item: _Replica | _Reader) -> Cell:
    if isinstance(item, _Reader):
        return c.text(item.group.state)
    part, broker = item
    words = ["leader"] if broker == part.leader else []
    words += ["in sync"] if broker in part.isr and not words else []
    words += ["offline"] if broker in part.offline_replicas else [] if broker in part.isr else ["not in sync"]
    words += ["new"] if broker in part.adding_replicas else ["leaving"] if broker in part.removing_replicas else []
    return c.text(", ".join(words))


def _replica_size(model: Model, item: _Replica | _Reader) -> Cell:
    if isinstance(item, _Reader):
        return Cell("-", None)
    for broker in model.view.brokers:
        if broker.id == item.broker and broker.log_dirs is not None:
            sizes = [
                replica.size_bytes
                for path in broker.log_dirs
                for replica in path.replicas
                if (replica.topic, replica.partition) == (item.part.topic, item.part.partition)
                and not replica.is_future
            ]
            return c.size(sizes[0] if sizes else None)
    return c.size(None)


def _offset(model: Model, item: _Replica | _Reader) -> Cell:
    if isinstance(item, _Reader):
        return c.number(item.part.committed)
    return c.number(item.part.end_offset) if item.broker == item.part.leader else Cell("-", None)


ONE_PARTITION = View(
    "Partition",
    (
        Column(
            "What",
            lambda model, item: c.text(
                f"group {item.group.group_id}" if isinstance(item, _Reader) else f"replica on {item.broker}"
            ),
            "a replica and its broker, or a group that committed here",
            is_number=False,
            least=24,
        ),
        Column("State", _role, "of the replica or the group", is_number=False),
        Column("Offset", _offset, "the leader's log end, or what the group committed"),
        Column(
            "Lag",
            lambda model, item: c.number(item.part.lag) if isinstance(item, _Reader) else Cell("-", None),
            "of the group in this partition",
        ),
        Column("Size", _replica_size, "bytes of the replica's log"),
    ),
    _replicas_and_readers,
    key=lambda item: ("group", item.group.group_id) if isinstance(item, _Reader) else ("replica", item.broker),
    opens=lambda model, item: (
        Place(places.GROUP, (item.group.group_id,))
        if isinstance(item, _Reader)
        else Place(places.BROKER, (item.broker,))
    ),
    subject=lambda item: (
        Subject(GROUP, item.group.group_id) if isinstance(item, _Reader) else Subject(BROKER, str(item.broker))
    ),
    when_empty=lambda model, target: "the partition is gone",
)
