"""Causes around transactions: those that hold a last stable offset, and those that do not end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatools.tools.diagnosis.findings import (
    Finding,
    Place,
    count,
    duration,
    partition_names,
    partition_places,
    places,
)
from kafkatools.tools.diagnosis.observations import (
    CLUSTER,
    GROUP,
    TRANSACTION,
    Observations,
    OpenProducer,
    TopicPartition,
)

HELD_MS = 10_000
"""How long a transaction of a named subject must be open to be a finding."""
HELD_IN_CLUSTER_MS = 60_000
"""The same when the whole cluster is examined: the default of transaction.timeout.ms of producers."""
_ENDING = ("PrepareCommit", "PrepareAbort")
_TimeoutCheckMs = 10_000


def _age_ms(obs: Observations, opened: OpenProducer) -> int:
    """Return how long a transaction is open: since its start, or since its producer's last record if unknown."""
    described = obs.transactions.get(opened.transactional_id or "")
    start_ms = described.start_ms if described is not None else None
    return obs.now_ms - (opened.producer.last_timestamp if start_ms is None else start_ms)


def _held(obs: Observations) -> Iterator[tuple[tuple[str, int], OpenProducer, int, tuple[Place, ...], str]]:
    """Yield partition, first open transaction, its age, the places that it affects, and what it holds up in words."""
    least_ms = HELD_IN_CLUSTER_MS if obs.subject.kind == CLUSTER else HELD_MS
    for key, opened in obs.producers.items():
        end = obs.ends[key]
        holders = [one for one in opened if one.producer.transaction_start_offset <= end.stable_offset]
        if not holders or not _is_in_subject(obs, key):
            continue
        holder = holders[0]
        age_ms = _age_ms(obs, holder)
        stopped = [
            group.group_id
            for group in obs.view.groups
            for part in group.partitions or ()
            if (part.topic, part.partition) == key and part.lag and part.committed >= end.stable_offset
        ]
        if age_ms < least_ms or (obs.subject.kind == GROUP and not stopped) or _waits_for_replicas(obs, key, holder):
            continue
        who = f"group {stopped[0]} waits" if stopped else "consumers with isolation.level=read_committed wait there"
        yield key, holder, age_ms, tuple(("group", name) for name in stopped), who


def _waits_for_replicas(obs: Observations, key: TopicPartition, holder: OpenProducer) -> bool:
    """Return whether a transaction is committed or aborted and its partition cannot accept the marker, which is a
    finding of its own."""
    described, part = obs.transactions.get(holder.transactional_id or ""), obs.partition(key)
    is_ending = described is not None and described.state in _ENDING
    return is_ending and part is not None and (part.is_offline or bool(part.is_under_min_isr))


def _is_in_subject(obs: Observations, key: tuple[str, int]) -> bool:
    if key[0].startswith("__"):
        return False
    return obs.subject.partition in (-1, key[1])


def _stable_evidence(obs: Observations, key: tuple[str, int], holder: OpenProducer) -> tuple[str, ...]:
    end = obs.ends[key]
    producer = holder.producer
    held = end.high_watermark - end.stable_offset
    return (
        f"Last stable offset {end.stable_offset:,}, high watermark {end.high_watermark:,}: up to "
        f"{count(held, 'record')} {'is' if held == 1 else 'are'} held back",
        f"Producer id {producer.producer_id}, epoch {producer.producer_epoch}, transaction from offset "
        f"{producer.transaction_start_offset:,}, last record {duration(max(0, obs.now_ms - producer.last_timestamp))} "
        "ago",
    )


def open_transaction(obs: Observations) -> Iterator[Finding]:
    """A transaction that its coordinator knows holds the last stable offset."""
    for key, holder, age_ms, affected, who in _held(obs):
        if not holder.is_listed or holder.transactional_id is None or obs.subject.kind == TRANSACTION:
            continue
        name = holder.transactional_id
        described = obs.transactions.get(name)
        more = () if described is None else (
            f"State {described.state}, transaction.timeout.ms {described.timeout_ms:,}, coordinator broker "
            f"{described.coordinator}",
        )  # fmt: skip
        yield Finding(
            f"The open transaction of transactional id {name} has held the last stable offset of {key[0]}-{key[1]} "
            f"for {duration(age_ms)}: {who}",
            _stable_evidence(obs, key, holder) + more,
            ("transactions", "forceTerminateTransaction", "--transactionalId", name, "--dry-run"),
            places(affected, ("partition", key), ("transaction", name)),
        )


def hanging_transaction(obs: Observations) -> Iterator[Finding]:
    """A transaction that no coordinator knows, or not in this partition, holds the last stable offset."""
    for key, holder, age_ms, affected, who in _held(obs):
        if holder.is_listed:
            continue
        start = str(holder.producer.transaction_start_offset)
        yield Finding(
            f"A hanging transaction of producer id {holder.producer.producer_id} has held the last stable offset of "
            f"{key[0]}-{key[1]} for {duration(age_ms)}: no coordinator will end it, and {who}",
            _stable_evidence(obs, key, holder),
            (
                *("transactions", "abort", "--topic", key[0], "--partition", str(key[1])),
                *("--start-offset", start, "--dry-run"),
            ),
            places(affected, ("partition", key)),
        )


def overdue_transaction(obs: Observations) -> Iterator[Finding]:
    """A transaction is ongoing for longer than its timeout, after which its coordinator should have aborted it."""
    for name, described in obs.transactions.items():
        if described.state != "Ongoing" or described.start_ms is None:
            continue
        age_ms = obs.now_ms - described.start_ms
        if age_ms <= described.timeout_ms + _TimeoutCheckMs:
            continue
        yield Finding(
            f"The transaction of {name} has been open for {duration(age_ms)}, longer than its timeout of "
            f"{duration(described.timeout_ms)}: its coordinator, broker {described.coordinator}, did not abort it",
            (f"Partitions {partition_names(described.partitions)}",),
            ("transactions", "forceTerminateTransaction", "--transactionalId", name, "--dry-run"),
            places(("transaction", name), partition_places(described.partitions)),
        )


def long_transaction(obs: Observations) -> Iterator[Finding]:
    """The transaction that the user asked about is open: its producer has not committed or aborted it."""
    described = obs.transactions.get(obs.subject.name) if obs.subject.kind == TRANSACTION else None
    if described is None or described.state != "Ongoing" or described.start_ms is None:
        return
    age_ms = obs.now_ms - described.start_ms
    if age_ms < HELD_MS:
        return
    left_ms = described.timeout_ms - age_ms
    yield Finding(
        f"The producer of transactional id {described.transactional_id} has neither committed nor aborted its "
        f"transaction, which has been open for {duration(age_ms)}",
        (
            f"Partitions {partition_names(described.partitions)}",
            f"Producer id {described.producer_id}, epoch {described.producer_epoch}",
            f"Its coordinator aborts it in {duration(left_ms)}" if left_ms > 0 else "Its timeout is over",
        ),
        ("transactions", "forceTerminateTransaction", "--transactionalId", described.transactional_id, "--dry-run"),
        places(("transaction", described.transactional_id), partition_places(described.partitions)),
    )


_MAX_REFUSALS = 3


def _refusals(obs: Observations, keys: Iterable[TopicPartition]) -> list[str]:
    """Return lines about the partitions that cannot accept a marker: without a leader, or with too small an ISR."""
    lines = []
    for key in keys:
        part = obs.partition(key)
        if part is not None and (part.is_offline or part.is_under_min_isr):
            reason = "no leader" if part.is_offline else f"min.insync.replicas {part.min_isr}"
            isr = ", ".join(map(str, part.isr)) or "empty"
            lines.append(f"{key[0]}-{key[1]} refuses the marker: ISR {isr}, {reason}")
    return lines[:_MAX_REFUSALS]


def ending_transaction(obs: Observations) -> Iterator[Finding]:
    """A transaction is committed or aborted, and its markers are not written to all partitions."""
    for name, described in obs.transactions.items():
        if described.state not in _ENDING or described.start_ms is None or obs.now_ms - described.start_ms < HELD_MS:
            continue
        yield Finding(
            f"The transaction of {name} is in state {described.state}: markers are not written to "
            f"{partition_names(described.partitions)}",
            (
                f"Started {duration(obs.now_ms - described.start_ms)} ago, coordinator broker {described.coordinator}",
                *_refusals(obs, described.partitions),
            ),
            ("transactions", "describe", "--transactional-id", name),
            places(("transaction", name), partition_places(described.partitions)),
        )
