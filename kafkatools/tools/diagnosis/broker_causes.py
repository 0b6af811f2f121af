"""Causes at brokers and in the controller quorum. For a group, topic, partition or transaction, a broker is a cause
only if a partition of the subject suffers from it."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatools.tools.diagnosis.findings import (
    Finding,
    Place,
    count,
    duration,
    names,
    partition_names,
    partition_places,
    places,
)
from kafkatools.tools.diagnosis.observations import BROKER, CLUSTER, GROUP, TRANSACTION, Observations, TopicPartition
from kafkatools.tools.monitor.figures import size
from kafkatools.tools.monitor.view import NO_BROKER, BrokerView, PartitionView

_Keys = frozenset[TopicPartition]


def _suffering(obs: Observations, broker: int, served: _Keys = frozenset()) -> list[PartitionView]:
    """Return the partitions of the subject that lack this broker: as leader, or also in the ISR. `served` are those
    that it serves nevertheless. A replica that is being added counts too: the broker that described the topic may not
    list it among the replicas yet."""
    only_offline = obs.subject.kind in (GROUP, TRANSACTION)
    return [
        part
        for part in obs.partitions()
        if (broker in part.replicas or broker in part.adding_replicas)
        and (part.topic, part.partition) not in served
        and (part.is_offline or (not only_offline and broker not in part.isr) or broker == part.leader)
    ]


def _matters(obs: Observations, broker: int, served: _Keys = frozenset()) -> bool:
    """Return whether the broker's state concerns the subject."""
    kind = obs.subject.kind
    if kind == BROKER:
        return obs.subject.name == str(broker)
    has_no_coordinator = kind == GROUP and not obs.view.groups and bool(obs.view.unlisted)
    return kind == CLUSTER or has_no_coordinator or bool(_suffering(obs, broker, served))


def _finding(
    obs: Observations, broker: int, sentence: str, evidence: tuple[str, ...], *command: str, served: _Keys = frozenset()
) -> Finding:
    parts = _suffering(obs, broker, served)
    keys = [(part.topic, part.partition) for part in parts]
    affected: list[Place] = [("cluster", "")]
    affected += [
        ("group", group.group_id)
        for group in obs.view.groups
        if any((part.topic, part.partition) in keys for part in group.partitions or ())
    ]
    text = f"{count(len(keys), 'partition')} {'is' if len(keys) == 1 else 'are'} affected"
    lines = (*evidence, f"{text}: {partition_names(keys)}") if keys else evidence
    return Finding(sentence, lines, command, places(("broker", broker), affected, partition_places(keys)))


def broker_offline(obs: Observations) -> Iterator[Finding]:
    """A broker is fenced or not registered, so the controller gets no heartbeat from it."""
    registered = {broker.id: broker for broker in obs.view.brokers}
    used = {broker for part in obs.view.partitions for broker in part.replicas}
    for broker in sorted(used | registered.keys()):
        found = registered.get(broker)
        if (found is not None and found.is_alive) or not _matters(obs, broker):
            continue
        where = f" ({found.host}:{found.port})" if found is not None else ""
        state = "fenced" if found is not None else "not registered"
        yield _finding(
            obs,
            broker,
            f"Broker {broker}{where} is not alive: it is {state}, the controller gets no heartbeat from it",
            (f"{sum(b.is_alive for b in obs.view.brokers)} of {count(len(used | registered.keys()), 'broker')} alive",),
            "doctor",
        )


def broker_silent(obs: Observations) -> Iterator[Finding]:
    """A broker is registered and not fenced, but did not respond: it hangs, or its address cannot be reached."""
    has_controller = obs.view.controller != NO_BROKER
    if not has_controller and obs.subject.kind in (CLUSTER, BROKER):
        return  # evidence of no_controller: without a controller a dead broker stays registered
    for broker in obs.view.brokers:
        if broker.is_responding or not broker.is_alive or not _matters(obs, broker.id):
            continue
        errors = [p.error for p in obs.view.problems if p.broker == broker.id and p.what == "no response"]
        yield _finding(
            obs,
            broker.id,
            f"Broker {broker.id} ({broker.host}:{broker.port}) does not respond, "
            + (
                "although the controller counts it as alive"
                if has_controller
                else "and there is no active controller to replace it"
            ),
            tuple(errors[:1]),
            "doctor",
        )


def log_dir_offline(obs: Observations) -> Iterator[Finding]:
    """A broker cannot use a log directory: its replicas there are offline."""
    for broker in obs.view.brokers:
        served = frozenset(
            (replica.topic, replica.partition)
            for path in broker.log_dirs or ()
            for replica in path.replicas
            if path.error is None
        )
        if not broker.offline_log_dirs or not _matters(obs, broker.id, served):
            continue
        errors = [str(path.error) for path in broker.log_dirs or () if path.error is not None]
        yield _finding(
            obs,
            broker.id,
            f"Broker {broker.id} cannot use log directory {', '.join(broker.offline_log_dirs)}: its replicas there are "
            "offline",
            tuple(errors[:1]),
            *("log-dirs", "--describe", "--broker-list", str(broker.id)),
            served=served,
        )


FULL = 0.03
"""The share of usable space from which on a log directory counts as full."""


def disk_full(obs: Observations) -> Iterator[Finding]:
    """The volume of a log directory has almost no space left; the broker will fail to append."""
    for broker in obs.view.brokers:
        if not _is_used(obs, broker):
            continue
        for path in broker.log_dirs or ():
            if path.error is None and path.total_bytes > 0 and path.usable_bytes / path.total_bytes < FULL:
                yield Finding(
                    f"The disk of broker {broker.id} is almost full: {size(path.usable_bytes)} of "
                    f"{size(path.total_bytes)} are left in {path.path}",
                    (f"Its replicas take {size(broker.log_bytes)}",),
                    ("log-dirs", "--describe", "--broker-list", str(broker.id)),
                    places(("broker", broker.id)),
                )


def _is_used(obs: Observations, broker: BrokerView) -> bool:
    kind = obs.subject.kind
    if kind in (BROKER, CLUSTER):
        return kind == CLUSTER or obs.subject.name == str(broker.id)
    return any(part.leader == broker.id for part in obs.partitions())


def no_controller(obs: Observations) -> Iterator[Finding]:
    """No controller is active: no leader can be elected and no metadata changed."""
    if obs.view.controller != NO_BROKER:
        return
    errors = [problem.message for problem in obs.view.problems if problem.what == "quorum"]
    silent = [f"{b.id} ({b.host}:{b.port})" for b in obs.view.brokers if b.is_alive and not b.is_responding]
    lines = [f"Brokers that do not respond: {names(silent)}"] if silent else []
    yield Finding(
        "The cluster has no active controller: leaders are not elected, topics and settings cannot change",
        (*errors[:1], *lines),
        ("doctor",),
        places(("cluster", "")),
    )


_BEHIND_MS = 30_000


def voter_behind(obs: Observations) -> Iterator[Finding]:
    """A voter of the controller quorum does not fetch the metadata log: a further failure may stop the quorum."""
    quorum = obs.view.quorum
    if quorum is None or obs.subject.kind not in (CLUSTER, BROKER):
        return
    # The leader's own time stamp is its present: so clocks of this machine and of the brokers may differ.
    now_ms = max((voter.last_caught_up_timestamp for voter in quorum.voters if voter.id == quorum.leader_id), default=0)
    late, sentences = quorum.late_voters, {}
    for voter in quorum.voters:
        behind_ms = now_ms - voter.last_caught_up_timestamp if voter.last_caught_up_timestamp > 0 else 0
        if voter in late:
            sentences[voter] = f"has not fetched since controller {quorum.leader_id} became active"
        elif voter.id != quorum.leader_id and behind_ms >= _BEHIND_MS:
            sentences[voter] = f"has not caught up for {duration(behind_ms)}"
    for voter, sentence in sentences.items():
        if obs.subject.kind == BROKER and obs.subject.name != str(voter.id):
            continue
        end = "is unknown" if voter.end is None else f"is offset {voter.end:,}"
        yield Finding(
            f"Voter {voter.id} of the controller quorum {sentence}: {len(quorum.voters) - len(sentences)} of "
            f"{len(quorum.voters)} voters are current",
            (f"The end of its log {end}, the high watermark is {quorum.high_watermark:,}",),
            ("metadata-quorum", "describe", "--replication", "--human-readable"),
            places(("broker", voter.id), ("cluster", "")),
        )
