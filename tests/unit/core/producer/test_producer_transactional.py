"""The course of transactions, turn by turn, in both transaction versions."""

from __future__ import annotations

import pytest
from support.transaction_bench import DELIVERY_TIMEOUT_MS, TransactionBench, batches_of, versions_of_broker

from kafkatools.core.errors import (
    ConfigError,
    DecodeError,
    DeliveryTimeout,
    IllegalState,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordTooLarge,
    Timeout,
    TransactionAbortable,
    TransactionAborted,
    TransactionalIdAuthorizationFailed,
)
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.net.client_requests import ClientRequest
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.producer.transaction_manager import ProducerIdAndEpoch, State
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.columns import RowColumns

OUT_OF_ORDER, NOT_COORDINATOR, LOADING, CONCURRENT, FENCED = 45, 16, 14, 51, 90
BUMPED = {"producer_id": 77, "producer_epoch": 1}
GROUP = ConsumerGroupMetadata("g", 3, "member", "instance")


@pytest.fixture(params=[1, 2])
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


def ended(bench: TransactionBench, version: int) -> dict[str, int]:
    """What an EndTxn response says besides the error."""
    return BUMPED if version == 2 else {}


# -- the course --


def test_version_1_names_a_partition_before_its_batch_goes_out() -> None:
    bench = TransactionBench(1).init().begin()
    bench.send()
    bench.turn(2)
    assert bench.waiting() == ["AddPartitionsToTxn"]
    bench.answer_partitions()
    assert bench.waiting() == ["Produce"]
    request = bench.client.requests[0]
    assert request.max_version == 11
    batch = batches_of(request)[0]
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (True, 77, 0, 0)
    result = bench.manager.begin_commit()
    bench.answer_produce()
    request = bench.end(result)
    assert request.max_version == 4
    assert bench.fields(request).committed
    assert bench.manager.state is State.READY
    assert bench.manager.identity == (77, 0)


def test_version_2_names_no_partitions_and_takes_the_epoch_from_the_end() -> None:
    bench = TransactionBench(2).init().begin()
    bench.send()
    bench.turn()
    assert bench.waiting() == ["Produce"]
    # Version 13 names topics by id, and this topic's is not known; version 12 adds the partition all the same.
    assert bench.client.requests[0].max_version == 12
    result = bench.manager.begin_commit()
    bench.answer_produce()
    request = bench.end(result, **BUMPED)
    assert request.max_version is None
    assert bench.manager.identity == (77, 1)
    bench.begin().sent()
    batch = batches_of(bench.take(ApiKey.PRODUCE))[0]
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_sequences_go_on_over_transactions_of_version_1() -> None:
    bench = TransactionBench(1).init().begin()
    bench.sent()
    result = bench.manager.begin_commit()
    bench.answer_produce()
    bench.end(result)
    bench.begin().sent()
    assert batches_of(bench.take(ApiKey.PRODUCE))[0].base_sequence == 1


def test_the_end_waits_for_every_batch(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent(partition=0)
    bench.send(partition=2)
    result = bench.manager.begin_commit()
    bench.turn(2)
    if version == 1:
        assert bench.waiting() == ["Produce", "AddPartitionsToTxn"]
        bench.answer_partitions()
    assert bench.waiting() == ["Produce", "Produce"]
    bench.answer_produce()
    assert bench.waiting() == ["Produce"]
    bench.answer_produce()
    assert bench.waiting() == ["EndTxn"]
    assert not result.is_completed


def test_a_commit_does_not_wait_for_linger(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.accumulator.settings = bench.accumulator.settings._replace(linger_ms=60_000)
    bench.sent()
    assert "Produce" not in bench.waiting()
    bench.manager.begin_commit()
    bench.turn()
    assert bench.waiting() == ["Produce"]


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_an_empty_transaction_ends_without_a_request(version: int, ends: str) -> None:
    bench = TransactionBench(version).init().begin()
    result = bench.manager.begin_commit() if ends == "commit" else bench.manager.begin_abort()
    bench.turn()
    result.wait(0)
    assert bench.waiting() == []
    assert bench.client.poll_timeouts[-1] == 0  # who waits for the end must not wait for the network
    assert bench.manager.state is State.READY


def test_an_abort_fails_what_was_not_sent_and_waits_for_what_was(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    sent = bench.sent()
    unsent = [bench.send(b"x" * 300) for _ in range(3)]
    result = bench.manager.begin_abort()
    bench.turn(2)
    for future in unsent:
        assert isinstance(future.exception(), TransactionAborted)
    assert not sent.done()
    assert bench.waiting() == ["Produce"]
    bench.answer_produce()
    assert sent.get(0).offset == 10
    request = bench.end(result, **ended(bench, version))
    assert not bench.fields(request).committed


def test_rows_belong_to_the_transaction_as_single_records_do(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    future = bench.producer.send_columns("t", RowColumns.of_values([b"a", b"b"]), partition=1)
    bench.turn()
    if version == 1:
        bench.answer_partitions()
    bench.answer_produce()
    result = bench.manager.begin_commit()
    bench.end(result, **ended(bench, version))
    assert [(run.base_offset, run.row_count) for run in future.get(0)] == [(10, 2)]


# -- errors --


def test_a_gap_in_the_sequences_can_only_be_aborted(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    refused = bench.sent()
    bench.answer_produce(OUT_OF_ORDER)
    assert isinstance(refused.exception(), OutOfOrderSequenceNumber)
    with pytest.raises(TransactionAbortable) as raised:
        bench.producer.commit_transaction()
    assert isinstance(raised.value.__cause__, OutOfOrderSequenceNumber)
    with pytest.raises(TransactionAbortable):
        bench.send()
    result = bench.manager.begin_abort()
    bench.turn()
    bench.answer(ApiKey.END_TXN, **ended(bench, version))
    if version == 1:
        request = bench.take(ApiKey.INIT_PRODUCER_ID)
        fields = bench.fields(request)
        assert (fields.producer_id, fields.producer_epoch, request.min_version) == (77, 0, 3)
        assert not result.is_completed
        bench.client.requests.append(request)
        bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=77, producer_epoch=1)
    result.wait(0)
    assert bench.manager.identity == ProducerIdAndEpoch(77, 1)
    bench.begin().sent()
    batch = batches_of(bench.take(ApiKey.PRODUCE))[0]
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_batch_that_fails_while_committing_fails_the_commit(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent()
    result = bench.manager.begin_commit()
    bench.answer_produce(OUT_OF_ORDER)
    with pytest.raises(OutOfOrderSequenceNumber):
        result.wait(0)
    assert "EndTxn" not in bench.waiting()
    assert bench.manager.has_abortable_error


def test_a_later_batch_that_is_out_of_order_is_tried_again(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent(b"0")
    bench.answer_produce(offset=9)
    first = bench.sent(b"1")
    second = bench.sent(b"2")
    early, late = bench.take(ApiKey.PRODUCE), bench.take(ApiKey.PRODUCE)
    bench.client.requests += [late]
    bench.answer_produce(OUT_OF_ORDER)
    assert bench.manager.state is State.IN_TRANSACTION
    bench.client.requests += [early]
    bench.answer_produce()
    bench.clock.advance_ms(100)
    bench.turn()
    bench.answer_produce(offset=11)
    assert (first.get(0).offset, second.get(0).offset) == (10, 11)


def test_a_record_that_never_got_in_keeps_the_rest_from_being_committed(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    giant = bench.producer.send(ProducerRecord("t", b"x" * (2 << 20), partition=0))
    assert isinstance(giant.exception(), RecordTooLarge)
    with pytest.raises(TransactionAbortable, match="max.request.size"):
        bench.producer.commit_transaction()
    result = bench.manager.begin_abort()
    bench.turn()
    if version == 1:
        bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=77, producer_epoch=1)
    result.wait(0)


def test_an_expired_batch_holds_the_end_back_until_its_request_is_over(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    lost = bench.sent()
    bench.clock.advance_ms(DELIVERY_TIMEOUT_MS)
    bench.turn(2)
    assert isinstance(lost.exception(), DeliveryTimeout)
    assert isinstance(bench.manager.last_error, TransactionAbortable)
    bench.manager.begin_abort()
    bench.turn(2)
    assert bench.waiting() == ["Produce"]  # it may still be written: not behind the end marker
    bench.lose(bench.take(ApiKey.PRODUCE))
    assert bench.waiting() == ["EndTxn"]
    bench.answer(ApiKey.END_TXN, **ended(bench, version))
    assert bench.waiting() == (["InitProducerId"] if version == 1 else [])


def test_a_fenced_producer_can_do_nothing_more(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent()
    result = bench.manager.begin_commit()
    bench.answer_produce()
    bench.answer(ApiKey.END_TXN, error_code=FENCED)
    with pytest.raises(ProducerFenced):
        result.wait(0)
    assert bench.producer.has_fatal_error
    for call in (bench.producer.begin_transaction, bench.producer.abort_transaction, bench.send):
        with pytest.raises(ProducerFenced, match="has been fenced by another producer"):
            call()


def test_a_fatal_error_reaches_everybody_who_waits(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    first = bench.sent()
    bench.client.unready.add(2)
    queued = bench.send(b"x" * 300, partition=2)
    offsets = bench.manager.send_offsets({TopicPartition("t", 0): OffsetAndMetadata(1)}, GROUP)
    bench.answer_produce(FENCED)
    bench.turn()
    assert isinstance(first.exception(), ProducerFenced)
    with pytest.raises(ProducerFenced):
        offsets.wait(0)
    assert isinstance(queued.exception(), ProducerFenced)


# -- time --


def test_a_call_that_took_too_long_goes_on_when_repeated(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent()
    with pytest.raises(Timeout, match=r"Timeout expired after 0ms while awaiting EndTxn\(true\)"):
        bench.producer.commit_transaction(0)
    for call, name in (
        (bench.producer.abort_transaction, "abortTransaction"),
        (bench.producer.begin_transaction, "beginTransaction"),
        (bench.send, "send"),
    ):
        with pytest.raises(IllegalState, match=f"`{name}` because the previous call to `commitTransaction` timed out"):
            call()
    bench.answer_produce()
    bench.answer(ApiKey.END_TXN, **ended(bench, version))
    bench.producer.commit_transaction(0)  # sees the result of the first
    bench.producer.begin_transaction()


def test_a_close_aborts_though_a_call_was_never_repeated(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent()
    with pytest.raises(Timeout):
        bench.producer.commit_transaction(0)
    bench.answer_produce(OUT_OF_ORDER)  # now the commit has failed, and nobody has asked
    bench.producer._has_work()
    assert bench.manager.is_aborting


def test_a_close_sends_no_commit_of_records_that_expired(version: int) -> None:
    """A batch expires at the end of a turn. The close begins to abort before the next turn fails the queued commit."""
    bench = TransactionBench(version).init().begin()
    bench.sent()
    bench.answer_produce()
    bench.client.unready.add(2)
    bench.send(partition=2)
    bench.turn()
    if version == 1:
        bench.answer_partitions()
    with pytest.raises(Timeout):
        bench.producer.commit_transaction(0)
    bench.clock.advance_ms(DELIVERY_TIMEOUT_MS + 1)
    while bench.manager.state is State.COMMITTING_TRANSACTION:
        bench.turn()
    bench.producer._has_work()
    bench.turn(3)
    ends = [bench.fields(request) for request in bench.client.requests if request.api_key == ApiKey.END_TXN]
    assert [end.committed for end in ends] == [False]


def test_rows_that_pass_interceptors_are_all_reported(version: int) -> None:
    from kafkatools.core.producer.interceptors import ProducerInterceptors

    class Breaker:
        """Fences the producer at the second record."""

        def __init__(self) -> None:
            self.seen = 0

        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            self.seen += 1
            if self.seen == 2:
                bench.manager.fail(ProducerFenced())
            return record

        def on_acknowledgement(self, metadata: object, error: Exception | None) -> None:
            """Nothing to do."""

        def close(self) -> None:
            """Nothing to do."""

    bench = TransactionBench(version).init().begin()
    bench.producer._interceptors = ProducerInterceptors([Breaker()])
    future = bench.producer.send_columns("t", RowColumns.of_values([b"a", b"b", b"c"]), partition=0)
    bench.turn()
    errors = {row: run.error for run in future.get(0) for row in run.rows}
    assert sorted(errors) == [0, 1, 2]
    assert all(isinstance(error, ProducerFenced) for error in errors.values())


def test_a_time_out_tells_what_stood_in_the_way() -> None:
    bench = TransactionBench()
    with pytest.raises(Timeout, match="while awaiting InitProducerId$"):
        bench.producer.init_transactions(0)
    bench.turn()
    bench.answer_lookup(error_code=15)
    with pytest.raises(Timeout, match="while awaiting InitProducerId: The coordinator is not available"):
        bench.producer.init_transactions(0)


def test_initialization_with_a_producer_id_below_zero_fails() -> None:
    bench = TransactionBench()
    result = bench.manager.initialize_transactions()
    bench.turn()
    bench.answer_lookup()
    bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=-1, producer_epoch=-1)
    with pytest.raises(DecodeError, match="producer id -1"):
        result.wait(0)
    assert bench.manager.has_fatal_error


def test_a_transaction_that_ends_with_an_epoch_below_zero_fails_the_producer() -> None:
    bench = TransactionBench(2).init().begin()
    bench.sent()
    result = bench.manager.begin_commit()
    bench.answer_produce()
    with pytest.raises(DecodeError, match="producer id 77 and epoch -1"):
        bench.end(result, producer_id=77, producer_epoch=-1)
    assert bench.manager.has_fatal_error


def test_initialization_that_took_too_long_goes_on_when_repeated() -> None:
    bench = TransactionBench()
    with pytest.raises(Timeout, match="while awaiting InitProducerId"):
        bench.producer.init_transactions(0)
    bench.turn()
    bench.answer_lookup()
    bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=5, producer_epoch=9)
    bench.producer.init_transactions(0)
    with pytest.raises(IllegalState, match="from state READY to state INITIALIZING"):
        bench.producer.init_transactions(0)


def test_initialization_that_was_not_authorized_may_be_tried_again() -> None:
    bench = TransactionBench()
    first = bench.manager.initialize_transactions()
    bench.turn()
    bench.answer_lookup()
    bench.answer(ApiKey.INIT_PRODUCER_ID, error_code=53)
    with pytest.raises(TransactionalIdAuthorizationFailed):
        first.wait(0)
    second = bench.manager.initialize_transactions()
    bench.turn()
    bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=5, producer_epoch=0)
    second.wait(0)


# -- coordinators --


def end_at(bench: TransactionBench) -> ClientRequest:
    """A transaction whose EndTxn waits for its answer."""
    bench.begin().sent()
    bench.manager.begin_commit()
    bench.answer_produce()
    return bench.client.requests[0]


def test_a_coordinator_that_moved_is_found_again(version: int) -> None:
    bench = TransactionBench(version).init()
    assert end_at(bench).node == 1
    bench.answer(ApiKey.END_TXN, error_code=NOT_COORDINATOR)
    bench.answer_lookup(node=2)
    bench.clock.advance_ms(100)
    bench.turn()
    assert bench.client.requests[0].node == 2
    bench.answer(ApiKey.END_TXN, **ended(bench, version))
    assert bench.manager.state is State.READY


def test_a_lost_connection_is_followed_by_a_lookup_and_the_same_request(version: int) -> None:
    bench = TransactionBench(version).init()
    end_at(bench)
    bench.lose(bench.take(ApiKey.END_TXN))
    assert bench.waiting() == ["FindCoordinator"]
    bench.answer_lookup()
    assert bench.waiting() == ["EndTxn"]


def test_a_coordinator_that_cannot_be_reached_is_looked_up_now_and_then(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent(partition=2)
    bench.manager.begin_commit()
    bench.client.unready.add(1)
    bench.answer_produce()
    bench.turn()
    assert bench.waiting() == ["FindCoordinator"]
    bench.answer_lookup(node=1)
    bench.turn(5)
    assert bench.waiting() == []
    bench.clock.advance_ms(100)
    bench.turn(2)
    assert bench.waiting() == ["FindCoordinator"]
    bench.answer_lookup(node=2)
    assert bench.waiting() == ["EndTxn"]


@pytest.mark.parametrize(("code", "pause_ms"), [(LOADING, 100), (CONCURRENT, 20)])
def test_a_coordinator_that_is_busy_is_asked_again_after_a_pause(code: int, pause_ms: int) -> None:
    bench = TransactionBench(1).init().begin()
    bench.send()
    bench.turn()
    bench.answer_partitions(code)
    assert bench.waiting() == []
    assert bench.client.poll_timeouts[-1] <= pause_ms
    bench.clock.advance_ms(pause_ms - 1)
    bench.turn()
    assert bench.waiting() == []
    bench.clock.advance_ms(1)
    bench.turn()
    assert bench.waiting() == ["AddPartitionsToTxn"]


def test_the_short_pause_is_for_the_first_partitions_only() -> None:
    bench = TransactionBench(1).init().begin()
    bench.sent()
    bench.send(partition=2)
    bench.turn()
    bench.answer_partitions(CONCURRENT)
    bench.clock.advance_ms(20)
    bench.turn()
    assert "AddPartitionsToTxn" not in bench.waiting()


# -- offsets --

OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(5, 2, "m"), TopicPartition("t", 1): OffsetAndMetadata(6)}


def commit_answer(codes: dict[int, int]) -> list[object]:
    from types import SimpleNamespace

    parts = [SimpleNamespace(partition_index=number, error_code=code) for number, code in codes.items()]
    return [SimpleNamespace(name="t", partitions=parts)]


def test_offsets_go_to_the_groups_coordinator_with_its_member(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    result = bench.manager.send_offsets(OFFSETS, GROUP)
    bench.turn()
    if version == 1:
        assert bench.waiting() == ["AddOffsetsToTxn"]
        assert bench.fields(bench.client.requests[0]).group_id == "g"
        bench.answer(ApiKey.ADD_OFFSETS_TO_TXN)
    assert bench.waiting() == ["FindCoordinator"]
    bench.answer_lookup(node=2)
    request = bench.client.requests[0]
    assert (request.node, request.max_version) == (2, 4 if version == 1 else None)
    fields = bench.fields(request)
    assert (fields.group_id, fields.generation_id, fields.member_id, fields.group_instance_id) == (
        *("g", 3, "member", "instance"),
    )
    first = fields.topics[0].partitions[0]
    assert (first.partition_index, first.committed_offset, first.committed_leader_epoch) == (0, 5, 2)
    bench.answer(ApiKey.TXN_OFFSET_COMMIT, topics=commit_answer({0: 0, 1: LOADING}))
    assert not result.is_completed
    bench.clock.advance_ms(100)
    bench.turn()
    (topic,) = bench.fields(bench.client.requests[0]).topics
    assert [part.partition_index for part in topic.partitions] == [1]
    bench.answer(ApiKey.TXN_OFFSET_COMMIT, topics=commit_answer({1: 0}))
    result.wait(0)
    bench.manager.begin_commit()
    bench.turn()
    assert bench.waiting() == ["EndTxn"]


def test_offsets_are_committed_before_the_end(version: int) -> None:
    bench = TransactionBench(version).init().begin()
    bench.sent()
    bench.manager.send_offsets(OFFSETS, GROUP)
    bench.answer_produce()
    with pytest.raises(KafkaError):
        bench.producer.commit_transaction(0)
    bench.turn()
    assert "EndTxn" not in bench.waiting()


def test_group_metadata_without_a_member_is_refused() -> None:
    bench = TransactionBench().init().begin()
    with pytest.raises(IllegalState, match="generationId > 0 but the member.id is unknown"):
        bench.producer.send_offsets_to_transaction(OFFSETS, ConsumerGroupMetadata("g", 2))


# -- the way up to version 2 --


def test_a_newer_version_counts_from_the_next_transaction_on() -> None:
    bench = TransactionBench(1).init().begin()
    bench.sent()
    bench.client.versions = versions_of_broker(2)
    bench.send(partition=2)  # its AddPartitionsToTxn goes over a connection that tells of version 2
    bench.turn()
    bench.answer_partitions()
    result = bench.manager.begin_commit()
    bench.answer_produce()
    bench.answer_produce()
    assert bench.client.requests[0].max_version == 4
    bench.answer(ApiKey.END_TXN)
    assert not result.is_completed
    bench.answer(ApiKey.INIT_PRODUCER_ID, producer_id=77, producer_epoch=1)
    result.wait(0)
    bench.begin().send()
    bench.turn()
    assert bench.waiting() == ["Produce"]


# -- settings --


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"enable.idempotence": "false"}, "Cannot set a transactional.id without also enabling idempotence."),
        ({"acks": "1"}, "Cannot set a transactional.id without also enabling idempotence."),
        (
            {"transaction.two.phase.commit.enable": "true", "transaction.timeout.ms": "5000"},
            "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true.",
        ),
    ],
)
def test_settings_that_contradict_a_transactional_id(settings: dict[str, str], words: str) -> None:
    from kafkatools.core.config import PRODUCER, Config
    from kafkatools.core.producer.assembly import transactions_of

    values = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "tid", **settings}
    with pytest.raises(ConfigError, match=words):
        transactions_of(Config(PRODUCER, values))


def test_transactions_need_a_transactional_id() -> None:
    from kafkatools.core.config import PRODUCER, Config
    from kafkatools.core.producer.producer import Producer

    producer = Producer(Config(PRODUCER, {"bootstrap.servers": "127.0.0.1:1"}), start_thread=False)
    with pytest.raises(IllegalState, match="without enabling transactions by setting the transactional.id"):
        producer.begin_transaction()
    producer.close()
