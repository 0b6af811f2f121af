"""The sources of `kt why` beside the snapshots of `tools/monitor`: each asks for one kind of fact.

A source raises KafkaError if it cannot see anything. What it cannot see in part goes to `unseen`, a line for each
reason. `in_parallel` runs several, each with a client of its own, since an AdminClient is for one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kafkatools.core.admin.acls import Acl, describe_acls
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, TOPIC, describe_configs
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import SHARE, GroupDescription, NotConsumers, describe_groups, describe_share_groups
from kafkatools.core.admin.offsets import LATEST, READ_COMMITTED, list_offsets
from kafkatools.core.admin.quorum import MetadataQuorum, read_quorum
from kafkatools.core.admin.replication_throttles import BROKER_THROTTLES, TOPIC_THROTTLES
from kafkatools.core.admin.transactions import (
    ProducerState,
    TransactionDescription,
    describe_producers,
    describe_transactions,
    list_transactions,
)
from kafkatools.core.errors import GroupIdNotFound, KafkaError, SecurityDisabled, UnknownTopicOrPartition
from kafkatools.tools import rights
from kafkatools.tools.diagnosis.findings import names
from kafkatools.tools.diagnosis.observations import LogEnds, OpenProducer, TopicPartition
from kafkatools.tools.monitor.snapshot import controller_requests
from kafkatools.tools.monitor.view import ClusterView
from kafkatools.tools.rights import Right, naming

Connect = Callable[[], AdminClient]
Report = Callable[[str], None]
Source = Callable[[AdminClient], object]

_TOPIC_SETTINGS = (
    *("retention.ms", "retention.bytes", "segment.bytes", "cleanup.policy"),
    *("min.insync.replicas", "message.timestamp.type", *TOPIC_THROTTLES),
)


def in_parallel(connect: Connect, sources: Mapping[str, Source], report: Report) -> set[str]:
    """Run the sources, each on a thread with its own client. Return the names of those that failed; `report` gets a
    line for each."""

    def run(item: tuple[str, Source]) -> tuple[str, KafkaError | None]:
        with connect() as admin:
            try:
                item[1](admin)
            except KafkaError as error:
                return item[0], error
        return item[0], None

    if not sources:
        return set()
    with ThreadPoolExecutor(len(sources)) as threads:
        outcomes = list(threads.map(run, sources.items()))
    for name, error in outcomes:
        if error is not None:
            report(f"{name}: {error}")
    return {name for name, error in outcomes if error is not None}


def late_quorum(admin: AdminClient, brokers: Iterable[int], timeout_ms: int) -> MetadataQuorum | None:
    """Return the controller quorum as the first of these brokers reports it, None if none does within `timeout_ms`.
    Brokers forward the request, and hold it back while there is no controller."""
    admin.refresh_cluster(timeout_ms)
    requests = [controller_requests(broker)["quorum"] for broker in brokers]
    for response in admin.send_all(requests, admin.deadline_ms(timeout_ms)):
        quorum = response.error or read_quorum(response.entity)
        if isinstance(quorum, MetadataQuorum):
            return quorum
    return None


def group_descriptions(
    admin: AdminClient, types: Mapping[str, str], timeout_ms: int, report: Report
) -> dict[str, GroupDescription]:
    """Return the descriptions of groups, given their types, without those that are gone or are not of consumers."""
    shares = [name for name, kind in types.items() if kind == SHARE]
    others = [name for name, kind in types.items() if kind != SHARE]
    described = describe_groups(admin, others, timeout_ms) if others else {}
    if shares:
        described |= describe_share_groups(admin, shares, timeout_ms)
    failed: dict[str, list[str]] = {}
    for name, description in described.items():
        if description.error is not None and not isinstance(description.error, (GroupIdNotFound, NotConsumers)):
            failed.setdefault(str(description.error), []).append(name)
    for text, groups in failed.items():
        report(f"members of {names(groups)}: {text}")
    return {name: description for name, description in described.items() if description.error is None}


def pending_offsets(
    admin: AdminClient, groups: Iterable[str], timeout_ms: int
) -> dict[str, tuple[TopicPartition, ...]]:
    """Return for each group the partitions whose committed offsets wait for a transaction to end."""
    offsets = fetch_offsets(admin, groups, require_stable=True, timeout_ms=timeout_ms)
    pending = {
        name: tuple(sorted(key for key, error in group.errors.items() if error.name == "UNSTABLE_OFFSET_COMMIT"))
        for name, group in offsets.items()
    }
    return {name: keys for name, keys in pending.items() if keys}


def log_ends(admin: AdminClient, view: ClusterView, timeout_ms: int, report: Report) -> dict[TopicPartition, LogEnds]:
    """Return high watermarks and last stable offsets of the partitions in view that have a responding leader."""
    responding = {broker.id for broker in view.brokers if broker.is_responding}
    keys = {key: LATEST for key, part in view.by_partition.items() if part.leader in responding}
    if not keys:
        return {}
    # The last stable offset first: later it could pass a high watermark that was requested before.
    stable = list_offsets(admin, keys, isolation_level=READ_COMMITTED, timeout_ms=timeout_ms, leaderless_ms=0)
    ends = list_offsets(admin, keys, timeout_ms=timeout_ms, leaderless_ms=0)
    failed: dict[str, list[str]] = {}
    found = {}
    for key in keys:
        error = stable[key].error or ends[key].error
        if error is None:
            found[key] = LogEnds(ends[key].offset, stable[key].offset)
        elif not isinstance(error, UnknownTopicOrPartition):
            failed.setdefault(str(error), []).append(f"{key[0]}-{key[1]}")
    for text, partitions in failed.items():
        report(f"end of {names(partitions)}: {text}")
    return found


def open_producers(
    admin: AdminClient, held: Iterable[TopicPartition], report: Report
) -> tuple[dict[TopicPartition, tuple[OpenProducer, ...]], dict[str, TransactionDescription]]:
    """Return the producers with an open transaction in these partitions, and the transactions that coordinators know of
    them."""
    states = describe_producers(admin, held)
    producers = {}
    for key, active in states.items():
        if isinstance(active, KafkaError):
            report(f"producers of {key[0]}-{key[1]}: {active}")
        else:
            producers[key] = [producer for producer in active if producer.transaction_start_offset >= 0]
    ids = {producer.producer_id for active in producers.values() for producer in active}
    if not ids:
        return {}, {}
    listings = list_transactions(admin, producer_ids=ids)
    for error in listings.errors.values():
        report(f"transactions: {error}")
    by_producer = {listing.producer_id: listing.transactional_id for listing in listings.transactions}
    described = describe_transactions(admin, by_producer.values()) if by_producer else {}
    known = {name: item for name, item in described.items() if not isinstance(item, KafkaError)}
    return {
        key: tuple(_open_producer(producer, key, by_producer, known, bool(listings.errors)) for producer in active)
        for key, active in producers.items()
    }, known


def _open_producer(
    producer: ProducerState,
    key: TopicPartition,
    by_producer: Mapping[int, str],
    known: Mapping[str, TransactionDescription],
    is_partly_listed: bool,
) -> OpenProducer:
    """Return a producer with its transactional id. It is listed only if its coordinator's transaction has the
    partition (TransactionsCommand.FindHangingTransactionsCommand); an incomplete list counts as listed."""
    name = by_producer.get(producer.producer_id)
    description = known.get(name) if name is not None else None
    is_listed = is_partly_listed or (name is not None and description is None)
    return OpenProducer(
        producer,
        name,
        is_listed or (description is not None and key in description.partitions),
    )


def topic_settings(admin: AdminClient, topics: Iterable[str], report: Report) -> dict[str, dict[str, str]]:
    """Return the settings of topics that causes look at."""
    found = {}
    for (_, name), resource in describe_configs(
        admin, [(TOPIC, topic) for topic in topics], names=_TOPIC_SETTINGS
    ).items():
        if resource.error is None:
            found[name] = {entry.name: entry.value or "" for entry in resource.entries}
        elif not isinstance(resource.error, UnknownTopicOrPartition):
            error = naming(resource.error, Right("DESCRIBE_CONFIGS", rights.TOPIC, name))
            report(f"settings of topic {name}: {error}")
    return found


def broker_rates(admin: AdminClient, brokers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Return the replication throttles that brokers report."""
    resources = [(BROKER, str(broker)) for broker in brokers]
    configs = describe_configs(admin, resources, names=BROKER_THROTTLES) if resources else {}
    return {
        int(name): {entry.name: entry.value for entry in resource.entries if entry.value}
        for (_, name), resource in configs.items()
        if resource.error is None
    }


def acls_of(admin: AdminClient) -> tuple[Acl, ...] | None:
    """Return all ACLs, None if the cluster has no authorizer: then everything is permitted."""
    try:
        return tuple(describe_acls(admin))
    except SecurityDisabled:
        return None
