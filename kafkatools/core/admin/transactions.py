"""List, describe, abort and fence transactions, find hanging ones (KafkaAdminClient, KIP-664).

Each requested broker, transactional id or partition ends with a result or its own error. A transaction hangs when a
partition has held it open beyond the maximum timeout and no coordinator knows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import (
    TRANSACTION,
    CoordinatorRequest,
    listing_errors,
    one_key_each,
    send_to_coordinators,
)
from kafkatools.core.admin.leaders import LeaderRequest, send_to_leaders
from kafkatools.core.admin.results import by_partition, refusal
from kafkatools.core.errors import (
    KafkaError,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
    UnsupportedVersion,
)
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import topic_fields

TopicPartition = tuple[str, int]

_FIRST_LIST_WITH_DURATION = 1
_FIRST_LIST_WITH_PATTERN = 2
_PARTITIONS_A_REQUEST = 500
_UNDESCRIBED = (TransactionalIdAuthorizationFailed, UnsupportedVersion)


class TransactionListing(NamedTuple):
    """A listed transactional id, its coordinator's broker id and its state as in Kafka (`Ongoing`, ...)."""

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionListings(NamedTuple):
    """Transactional ids of all brokers, sorted, and errors by broker id. The error under NOBODY means that ids may be
    missing, because __transaction_state partitions have no leader. `has_responses`: at least one broker answered."""

    transactions: list[TransactionListing]
    errors: dict[int, KafkaError]
    has_responses: bool = True


class TransactionDescription(NamedTuple):
    """A described transactional id. `start_ms` (ms since 1970) is None before the producer's first transaction."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


class ProducerState(NamedTuple):
    """An active producer of a partition; `last_timestamp` in ms. Epoch and start offset are -1 if absent."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class OpenTransaction(NamedTuple):
    """A producer's open transaction in one partition."""

    topic: str
    partition: int
    producer: ProducerState


def list_transactions(
    admin: AdminClient,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[int] = (),
    duration_ms: int = -1,
    pattern: str | None = None,
) -> TransactionListings:
    """Return the transactional ids of all coordinators, and errors by broker; empty filters match all. `duration_ms`:
    only transactions running longer (-1: all); `pattern`: only ids matching this RE2 expression. A broker too old for
    these two has the error UnsupportedVersion. Raises KafkaError when the brokers cannot be listed."""

    def fields(version: int) -> Fields:
        filters: Fields = {"state_filters": tuple(states), "producer_id_filters": tuple(producer_ids)}
        if version >= _FIRST_LIST_WITH_DURATION:
            filters["duration_filter"] = duration_ms
        elif duration_ms >= 0:
            raise UnsupportedVersion("The broker is too old to filter transactions by duration")
        if version >= _FIRST_LIST_WITH_PATTERN:
            filters["transactional_id_pattern"] = pattern
        elif pattern:
            raise UnsupportedVersion("The broker is too old to filter transactions by a pattern")
        return filters

    results = admin.send_to_brokers(admin.brokers(), ApiKey.LIST_TRANSACTIONS, fields, _listed)
    listings = [listing for result in results.values() if not isinstance(result, KafkaError) for listing in result]
    return TransactionListings(sorted(listings), *listing_errors(admin, results, TRANSACTION))


def _listed(response: BrokerResponse) -> list[TransactionListing] | KafkaError:
    return error_in(response.entity) or [
        TransactionListing(state.transactional_id, response.node, state.producer_id, state.transaction_state)
        for state in response.entity.transaction_states
    ]


def describe_transactions(
    admin: AdminClient, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | KafkaError]:
    """Return a description or error by transactional id; TransactionalIdNotFound for an id its coordinator does not
    know."""
    request = CoordinatorRequest(
        ApiKey.DESCRIBE_TRANSACTIONS, lambda keys, version: {"transactional_ids": tuple(keys)}, _read_descriptions
    )
    return send_to_coordinators(admin, transactional_ids, request, TRANSACTION)


def _read_descriptions(response: BrokerResponse, keys: list[str]) -> dict[str, TransactionDescription | KafkaError]:
    return {
        state.transactional_id: error_in(state) or _description(state, response.node)
        for state in response.entity.transaction_states
    }


def _description(state: Entity, node: int) -> TransactionDescription:
    start_ms = state.transaction_start_time
    return TransactionDescription(
        state.transactional_id,
        node,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout,
        start_ms if start_ms >= 0 else None,
        tuple((topic.topic, partition) for topic in state.topics for partition in topic.partitions),
    )


def describe_producers(
    admin: AdminClient, partitions: Iterable[TopicPartition], broker: int | None = None
) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    """Return the active producers of each partition, as reported by its leader or by `broker`, or the partition's
    error."""
    results: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
    requested = list(dict.fromkeys(partitions))
    for start in range(0, len(requested), _PARTITIONS_A_REQUEST):
        chunk = requested[start : start + _PARTITIONS_A_REQUEST]
        if broker is None:
            request = LeaderRequest(ApiKey.DESCRIBE_PRODUCERS, lambda keys, _: _topics(keys), _read_producers)
            results.update(send_to_leaders(admin, chunk, request))
            continue
        results |= admin.send_by_node(
            dict.fromkeys(chunk, broker),
            lambda node, keys: BrokerRequest(node, ApiKey.DESCRIBE_PRODUCERS, _topics(keys)),
            lambda response, _: _read_producers(response.entity),
            admin.deadline_ms(),
        )
    return results


def _topics(partitions: Sequence[TopicPartition]) -> Fields:
    entries = ((partition, partition[1]) for partition in partitions)
    return {"topics": topic_fields(entries, partitions="partition_indexes")}


def _read_producers(entity: Entity) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    return by_partition(entity.topics, lambda part: error_in(part) or list(map(_producer, part.active_producers)))


def _producer(state: Entity) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        state.current_txn_start_offset,
    )


def abort_transaction(
    admin: AdminClient, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> KafkaError | None:
    """Write an abort marker into one partition (WriteTxnMarkers to its leader); return the error or None."""
    topic, index = partition
    marker = {
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "transaction_result": False,
        "coordinator_epoch": coordinator_epoch,
        "topics": [{"name": topic, "partition_indexes": (index,)}],
    }

    def read(entity: Entity) -> dict[TopicPartition, str | KafkaError]:
        return {
            (topic_result.name, part.partition_index): error_in(part) or "written"
            for marker_result in entity.markers
            for topic_result in marker_result.topics
            for part in topic_result.partitions
        }

    request = LeaderRequest(ApiKey.WRITE_TXN_MARKERS, lambda keys, _: {"markers": [marker]}, read)
    return refusal(send_to_leaders(admin, [partition], request)[partition])


def force_terminate(admin: AdminClient, transactional_id: str) -> KafkaError | None:
    """Abort a transactional id's open transaction and fence its producer with InitProducerId; return the error or None.
    An unknown id returns TransactionalIdNotFound, because InitProducerId would create it. A coordinator that cannot
    say whether it knows the id is an error too, unless it is too old or the user may not describe the id."""
    description = describe_transactions(admin, [transactional_id])[transactional_id]
    if isinstance(description, KafkaError) and not isinstance(description, _UNDESCRIBED):
        return description

    def build(key: str, version: int) -> Fields:
        return {"transactional_id": key, "transaction_timeout": admin.config.request_timeout_ms}

    def read(response: BrokerResponse, key: str) -> str | KafkaError:
        return error_in(response.entity) or "fenced"

    request = one_key_each(ApiKey.INIT_PRODUCER_ID, build, read)
    return refusal(send_to_coordinators(admin, [transactional_id], request, TRANSACTION)[transactional_id])


class HangingTransactions(NamedTuple):
    """Hanging transactions, sorted, and errors by partition."""

    transactions: list[OpenTransaction]
    errors: dict[TopicPartition, KafkaError]


def find_hanging(
    admin: AdminClient, partitions: Iterable[TopicPartition], max_timeout_ms: int, broker: int | None = None
) -> HangingTransactions:
    """Return transactions open in partitions, without a record of their producer for more than `max_timeout_ms`, that
    no coordinator knows; and errors by partition. `broker`: the replica to ask instead of the leaders. Raises
    KafkaError when a coordinator cannot be asked, since no transaction can then be called hanging."""
    producers = describe_producers(admin, partitions, broker)
    now_ms = admin.clock.wall_ms()
    errors = {key: active for key, active in producers.items() if isinstance(active, KafkaError)}
    candidates = [
        OpenTransaction(*key, producer)
        for key, active in producers.items()
        if not isinstance(active, KafkaError)
        for producer in active
        if producer.transaction_start_offset >= 0 and now_ms - producer.last_timestamp > max_timeout_ms
    ]
    if candidates:
        partitions_by_producer = _coordinator_partitions(
            admin, {candidate.producer.producer_id for candidate in candidates}
        )
        candidates = [
            candidate
            for candidate in candidates
            if (candidate.topic, candidate.partition) not in partitions_by_producer[candidate.producer.producer_id]
        ]
    return HangingTransactions(sorted(candidates), errors)


def _coordinator_partitions(admin: AdminClient, producer_ids: Collection[int]) -> Mapping[int, set[TopicPartition]]:
    """Return, by producer id, the partitions of the transactions that coordinators know."""
    partitions: dict[int, set[TopicPartition]] = {producer_id: set() for producer_id in producer_ids}
    listings = list_transactions(admin, producer_ids=producer_ids)
    if listings.errors:
        raise next(iter(listings.errors.values()))
    ids = {
        listing.transactional_id: listing.producer_id
        for listing in listings.transactions
        if listing.producer_id in partitions
    }
    for transactional_id, description in describe_transactions(admin, ids).items():
        if isinstance(description, TransactionDescription):
            partitions[ids[transactional_id]].update(description.partitions)
        elif not isinstance(description, TransactionalIdNotFound):
            raise description
    return partitions
