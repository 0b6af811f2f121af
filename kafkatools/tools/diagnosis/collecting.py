"""Collect the Observations of one subject: a snapshot by `tools/monitor`, then the facts beside it in parallel.

Nothing here judges. A request that fails leaves a line in `unknown`; only a subject that does not exist ends the
command, with CommandError.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quotas import EntityQuotas, QuotaComponent, describe_client_quotas
from kafkatools.core.admin.transactions import describe_transactions
from kafkatools.core.closing import Closing
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.diagnosis import sources
from kafkatools.tools.diagnosis.next_batches import next_batches
from kafkatools.tools.diagnosis.observations import (
    BROKER,
    CLUSTER,
    GROUP,
    PARTITION,
    TOPIC,
    TRANSACTION,
    NextBatch,
    Observations,
    Subject,
    TopicPartition,
)
from kafkatools.tools.diagnosis.subjects import Subjects
from kafkatools.tools.monitor.collector import DEFAULT_PATIENCE_MS, ClusterCollector
from kafkatools.tools.monitor.view import ClusterView

TIMEOUT_MS = 5000
"""How long a source waits for a broker or a coordinator."""
MAX_BATCHES = 20
"""How many partitions' next batches are read: those with the largest lag."""
_QUOTA_KINDS = (("client-id",), ("user",), ("user", "client-id"))


class Collecting(Closing):
    """Collects one or two Observations of a subject; a context manager. `connect` returns a new AdminClient."""

    def __init__(self, connect: sources.Connect, subject: Subject, principal: str = "") -> None:
        self._connect = connect
        self._subject = subject
        self._principal = principal
        self._stack = ExitStack()
        self._collector: ClusterCollector | None = None
        self._first: Observations | None = None
        self._unknown: list[str] = []

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    def collect(self) -> Observations:
        """Return the Observations of a snapshot; those of a second call have both snapshots. Raises KafkaError when no
        broker describes the cluster, CommandError for a subject that does not exist."""
        self._unknown = []
        collector = self._collector or self._prepare()
        view = collector.collect()
        if self._subject.kind == BROKER:
            _ensure_broker(view, int(self._subject.name))
        self._unknown += [problem.message for problem in view.problems]
        facts = self._facts(view)
        found = Observations(
            subject=self._subject,
            view=view,
            now_ms=view.time_ms,
            principal=self._principal,
            transactions=facts.pop("transactions", {}),
            **facts,
        )
        if self._first is not None:
            found = found._replace(
                earlier=self._first.view,
                earlier_descriptions=self._first.descriptions,
                earlier_pending=self._first.pending,
            )
        self._first = self._first or found
        return found._replace(unknown=tuple(dict.fromkeys(self._unknown)))

    def _prepare(self) -> ClusterCollector:
        """Look the subject up and open the collector. Raises CommandError, KafkaError."""
        admin, aside, apart = (self._stack.enter_context(self._connect()) for _ in range(3))
        scope = Subjects(admin, TIMEOUT_MS, self._unknown.append).scope(self._subject)
        self._collector = ClusterCollector(admin, aside, scope, DEFAULT_PATIENCE_MS, apart)
        return self._collector

    def _facts(self, view: ClusterView) -> dict[str, Any]:
        """Return the fields of Observations that are not of the snapshot, as far as the subject needs them."""
        kind, facts = self._subject.kind, dict[str, Any]()
        unseen = self._unknown.append
        weak = {part.topic for part in view.partitions if part.is_under_replicated}
        users = [topic.name for topic in view.topics if not topic.is_internal]
        topics = sorted(weak) if kind == CLUSTER else users if kind in (GROUP, TOPIC, PARTITION) else []
        types = {group.group_id: group.type for group in view.groups}
        turn: dict[str, sources.Source] = {}
        if types:
            turn["members of groups"] = lambda admin: facts.update(
                descriptions=sources.group_descriptions(admin, types, TIMEOUT_MS, unseen)
            )
        if kind in (CLUSTER, GROUP, TOPIC, PARTITION, TRANSACTION):
            turn["ends of logs"] = lambda admin: facts.update(ends=sources.log_ends(admin, view, TIMEOUT_MS, unseen))
        if topics:
            turn["settings of topics"] = lambda admin: facts.update(
                settings=sources.topic_settings(admin, topics, unseen)
            )
        if weak:
            alive = [broker.id for broker in view.brokers if broker.is_responding]
            turn["throttles of brokers"] = lambda admin: facts.update(rates=sources.broker_rates(admin, alive))
        if kind == GROUP and types:
            turn["pending offsets"] = lambda admin: facts.update(
                pending=sources.pending_offsets(admin, types, TIMEOUT_MS)
            )
            turn["client quotas"] = lambda admin: facts.update(quotas=_quotas(admin))
        if self._principal:
            turn["ACLs"] = lambda admin: facts.update(acls=sources.acls_of(admin))
        sources.in_parallel(self._connect, turn, unseen)
        self._second_turn(view, facts)
        return facts

    def _second_turn(self, view: ClusterView, facts: dict[str, Any]) -> None:
        """Request what depends on the first facts: open transactions and the next batches of groups."""
        unseen = self._unknown.append
        held = [key for key, end in facts.get("ends", {}).items() if end.stable_offset < end.high_watermark]
        turn: dict[str, sources.Source] = {}
        if held:

            def transactions(admin: AdminClient) -> None:
                producers, described = sources.open_producers(admin, held, unseen)
                facts.update(producers=producers, transactions=described)

            turn["open transactions"] = transactions
        lagging = [
            (part.lag, group.group_id, (part.topic, part.partition), part.committed)
            for group in view.groups
            for part in group.partitions or ()
            if part.lag and _is_readable(view, (part.topic, part.partition), part.committed)
        ]
        if lagging and self._subject.kind == GROUP:
            largest = sorted(lagging, reverse=True)[:MAX_BATCHES]
            turn["next records"] = lambda admin: facts.update(batches=self._batches(admin, view, largest))
        sources.in_parallel(self._connect, turn, unseen)
        if self._subject.kind == TRANSACTION:
            sources.in_parallel(self._connect, {"transaction": lambda admin: self._own(admin, facts)}, unseen)

    def _own(self, admin: AdminClient, facts: dict[str, Any]) -> None:
        description = describe_transactions(admin, [self._subject.name])[self._subject.name]
        if isinstance(description, KafkaError):
            raise description
        facts["transactions"] = {**facts.get("transactions", {}), self._subject.name: description}

    def _batches(
        self, admin: AdminClient, view: ClusterView, lagging: list[tuple[int, str, TopicPartition, int]]
    ) -> dict[tuple[str, TopicPartition], NextBatch]:
        """Return the batches at the committed offsets of one group, by group and partition."""
        offsets = {key: committed for _, _, key, committed in lagging}
        leaders = {key: view.by_partition[key].leader for key in offsets}
        found: dict[tuple[str, TopicPartition], NextBatch] = {}
        for key, batch in next_batches(admin, offsets, leaders, TIMEOUT_MS).items():
            if isinstance(batch, NextBatch):
                found[self._subject.name, key] = batch
            elif batch.name != "OFFSET_OUT_OF_RANGE":
                self._unknown.append(f"next record of {key[0]}-{key[1]}: {batch}")
        return found


def _ensure_broker(view: ClusterView, broker: int) -> None:
    """Raise CommandError unless the broker is registered or has replicas."""
    registered = [found.id for found in view.brokers]
    if broker not in registered and not any(broker in part.replicas for part in view.partitions):
        text = ", ".join(map(str, registered))
        raise CommandError(f"Broker '{broker}' does not exist: the brokers are {text}", kind="BROKER_NOT_FOUND")


def _is_readable(view: ClusterView, key: TopicPartition, committed: int) -> bool:
    """Return whether the partition has a leader and still has the committed offset."""
    part = view.by_partition.get(key)
    return part is not None and not part.is_offline and committed >= (part.start_offset or 0)


def _quotas(admin: AdminClient) -> tuple[EntityQuotas, ...]:
    """Return the client quotas of users and client ids, defaults included."""
    return tuple(
        quota
        for kinds in _QUOTA_KINDS
        for quota in describe_client_quotas(admin, [QuotaComponent(kind) for kind in kinds])
    )
