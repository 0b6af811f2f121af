"""Causes of partitions that accept no writes, serve no reads, or have replicas that do not follow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkatools.core.admin.replication_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kafkatools.tools.diagnosis.findings import Finding, count, names, partition_names, partition_places, places
from kafkatools.tools.diagnosis.observations import CLUSTER, PARTITION, TOPIC, Observations
from kafkatools.tools.monitor.figures import size
from kafkatools.tools.monitor.view import ClusterView, PartitionView


def _keys(parts: Iterable[PartitionView]) -> list[tuple[str, int]]:
    return [(part.topic, part.partition) for part in parts]


def _describe(obs: Observations, parts: Sequence[PartitionView], *report: str) -> tuple[str, ...]:
    topics = sorted({part.topic for part in parts})
    if obs.subject.kind in (TOPIC, PARTITION) or len(topics) == 1:
        return ("topics", "--describe", "--topic", topics[0])
    return ("topics", "--describe", *report)


def _state(part: PartitionView) -> str:
    return (
        f"{part.topic}-{part.partition}: leader {part.leader if part.leader >= 0 else 'none'}, replicas "
        f"{', '.join(map(str, part.replicas))}, ISR {', '.join(map(str, part.isr)) or 'empty'}, leader epoch "
        f"{part.leader_epoch}"
    )


def _at_brokers(brokers: Iterable[int]) -> list[tuple[str, object]]:
    return [("broker", broker) for broker in brokers]


def partition_offline(obs: Observations) -> Iterator[Finding]:
    """Partitions have no leader, so they can be neither read nor written."""
    offline = [part for part in obs.partitions() if part.is_offline]
    if not offline:
        return
    waits_for = sorted({broker for part in offline for broker in (*part.isr, *(part.elr or ()))})
    yield Finding(
        f"{count(len(offline), 'partition')} without a leader: {partition_names(_keys(offline))} "
        f"{'waits' if len(offline) == 1 else 'wait'} for broker {names(waits_for)}",
        tuple(map(_state, offline[:3])),
        _describe(obs, offline, "--unavailable-partitions"),
        places(partition_places(_keys(offline)), _at_brokers(b for part in offline for b in part.replicas)),
    )


def _out_of_sync(parts: Sequence[PartitionView]) -> list[int]:
    """The brokers with replicas that are not in sync."""
    return sorted({broker for part in parts for broker in part.replicas if broker not in part.isr})


def _brokers(brokers: Sequence[int]) -> str:
    return f"broker {brokers[0]} is" if len(brokers) == 1 else f"brokers {names(brokers)} are"


def under_min_isr(obs: Observations) -> Iterator[Finding]:
    """Partitions have fewer in-sync replicas than min.insync.replicas: producers with acks=all are refused."""
    weak = [part for part in obs.partitions() if part.is_under_min_isr and not part.is_offline]
    if not weak:
        return
    missing = _out_of_sync(weak)
    yield Finding(
        f"{count(len(weak), 'partition')} under min.insync.replicas: {partition_names(_keys(weak))} "
        f"{'refuses' if len(weak) == 1 else 'refuse'} acks=all with NOT_ENOUGH_REPLICAS; {_brokers(missing)} not in "
        "sync",
        tuple(f"{_state(part)}, min.insync.replicas {part.min_isr}" for part in weak[:3]),
        _describe(obs, weak, "--under-min-isr-partitions"),
        places(partition_places(_keys(weak)), _at_brokers(missing)),
    )


def under_replicated(obs: Observations) -> Iterator[Finding]:
    """Replicas are not in sync with their leaders, although enough others are."""
    weak = [
        part
        for part in obs.partitions()
        if part.is_under_replicated and not part.is_offline and not part.is_under_min_isr
    ]
    if not weak:
        return
    missing = _out_of_sync(weak)
    yield Finding(
        f"{count(len(weak), 'partition')} under-replicated: {partition_names(_keys(weak))}; {_brokers(missing)} not in "
        "sync",
        tuple(map(_state, weak[:3])),
        _describe(obs, weak, "--under-replicated-partitions"),
        places(partition_places(_keys(weak)), _at_brokers(missing)),
    )


def replication_throttled(obs: Observations) -> Iterator[Finding]:
    """A replication throttle holds replicas back, and no reassignment that it could belong to is going on."""
    by_topic: dict[str, list[PartitionView]] = {}
    for part in obs.partitions():
        if part.is_under_replicated and not (part.adding_replicas or part.removing_replicas):
            by_topic.setdefault(part.topic, []).append(part)
    for topic, parts in by_topic.items():
        settings = obs.settings.get(topic, {})
        throttled = [(broker, name, value) for part in parts for broker, name, value in _throttles(obs, part, settings)]
        if throttled:
            broker, name, value = throttled[0]
            yield Finding(
                f"The throttle {name}={value} of broker {broker} holds back the replication of {topic}, and no "
                "reassignment is going on",
                tuple(map(_state, parts[:3])),
                ("configs", "--describe", "--entity-type", "brokers", "--entity-name", str(broker)),
                places(partition_places(_keys(parts))),
            )


def _throttles(obs: Observations, part: PartitionView, settings: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield the rates that apply to the replication of a partition: broker, setting, value."""
    behind = [broker for broker in part.replicas if broker not in part.isr]
    pairs = [(FOLLOWER_RATE, FOLLOWER_REPLICAS, broker) for broker in behind]
    pairs += [(LEADER_RATE, LEADER_REPLICAS, part.leader)]
    for rate, replicas, broker in pairs:
        value = obs.rates.get(broker, {}).get(rate)
        listed = [entry.strip() for entry in settings.get(replicas, "").split(",")]
        members = {f"{part.partition}:{one}" for one in (behind if rate == LEADER_RATE else [broker])}
        members |= {f"{part.partition}:{broker}", "*"}
        if value and value != str((1 << 63) - 1) and members & set(listed):
            yield broker, rate, value


def reassignment_stuck(obs: Observations) -> Iterator[Finding]:
    """A reassignment adds replicas on brokers that are not alive, or on brokers that copy nothing."""
    yield from _waiting_reassignment(obs)
    yield from _idle_reassignment(obs)


def _idle_reassignment(obs: Observations) -> Iterator[Finding]:
    """A new replica on a broker that is alive did not grow between two snapshots, and is smaller than the leader."""
    if obs.earlier is None:
        return
    before, after = _sizes(obs.earlier), _sizes(obs.view)
    for part in obs.partitions():
        key = part.topic, part.partition
        idle = [
            broker
            for broker in part.adding_replicas
            if broker not in part.isr
            and after.get((broker, key)) is not None
            and before.get((broker, key)) == after.get((broker, key))
            and (part.size_bytes or 0) > after[broker, key]
        ]
        if not idle:
            continue
        throttles = [
            f"{name}={value} of broker {broker}"
            for broker, name, value in _throttles(obs, part, obs.settings.get(part.topic, {}))
        ]
        yield Finding(
            f"The reassignment of {part.topic}-{part.partition} does not progress: broker {names(idle)} copied nothing "
            f"in {obs.seconds or 0:.1f} s",
            (
                f"Broker {idle[0]} has {size(after[idle[0], key])}, leader {part.leader} {size(part.size_bytes or 0)}",
                *(f"Throttle {text}" for text in throttles[:3]),
                f"{_state(part)}, adding {', '.join(map(str, part.adding_replicas))}",
            ),
            ("reassign-partitions", "--list"),
            places(("partition", key), _at_brokers(idle)),
        )


def _sizes(view: ClusterView) -> dict[tuple[int, tuple[str, int]], int]:
    """Return the sizes of replicas in bytes by broker and partition."""
    return {
        (broker.id, (replica.topic, replica.partition)): replica.size_bytes
        for broker in view.brokers
        for path in broker.log_dirs or ()
        for replica in path.replicas
        if not replica.is_future
    }


def _waiting_reassignment(obs: Observations) -> Iterator[Finding]:
    """A reassignment adds replicas on brokers that are not alive."""
    alive = {broker.id for broker in obs.view.brokers if broker.is_alive}
    stuck = [part for part in obs.partitions() if set(part.adding_replicas) - alive]
    if not stuck:
        return
    away = sorted({broker for part in stuck for broker in part.adding_replicas if broker not in alive})
    yield Finding(
        f"The reassignment of {partition_names(_keys(stuck))} waits for broker {names(away)}, which is not alive",
        tuple(f"{_state(part)}, adding {', '.join(map(str, part.adding_replicas))}" for part in stuck[:3]),
        ("reassign-partitions", "--list"),
        places(partition_places(_keys(stuck)), _at_brokers(away), [("cluster", "")] * (obs.subject.kind == CLUSTER)),
    )
