"""Courses of transactions, told request by request to a broker, and what it answered.

The same stories are told to Apache Kafka 4.3.1 (tests/golden/broker/transaction-stories.json holds its answers) and to
the embedded broker. Producer ids are told as P0, P1... in the order in which a story meets them; times are left out. A
story waits for the markers after each end, which Apache Kafka writes after its answer.
"""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.errors import error_for_code
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "broker" / "transaction-stories.json"
Identity = tuple[int, int]
SETTLING = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR")
UNSETTLED = ("PrepareCommit", "PrepareAbort")


def golden() -> dict[str, list[Any]]:
    """story -> what Apache Kafka answered."""
    answers: dict[str, list[Any]] = json.loads(GOLDEN.read_text())
    return answers


def error(code: int) -> str:
    """The name of an error code."""
    return "OK" if int(code) == 0 else error_for_code(int(code)).name


class Teller:
    """Tells one story; `answers` are what it heard."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.client = RawClient(bootstrap)
        self.name = name
        self.answers: list[Any] = []
        self.producers_met: list[int] = []

    def topic(self, partitions: int = 1, name: str = "t") -> str:
        """A topic of this story."""
        topic = f"{self.name}.{name}"
        self.client.create_topic(topic, partitions)
        return topic

    def _call(self, api: ApiKey, version: int, fields: dict[str, Any], code: Callable[[Any], int]) -> Any:
        """Ask until the broker has taken its place, which takes Apache Kafka a moment."""
        for _ in range(100):
            answer = self.client.call(api, version, fields)
            if error(code(answer)) not in SETTLING:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"never settled: {answer}")

    def find_coordinator(self, key: str, kind: int = 1) -> None:
        """Until there is one."""
        for _ in range(100):
            found = self.client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": [key]})
            if int(found.coordinators[0].error_code) == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"no coordinator: {found}")

    def who(self, producer_id: int) -> str:
        """A producer id as the story tells it."""
        if producer_id < 0:
            return "nobody"
        if producer_id not in self.producers_met:
            self.producers_met.append(producer_id)
        return f"P{self.producers_met.index(producer_id)}"

    def note(self, what: str, *answer: Any) -> None:
        """An answer is part of the story."""
        self.answers.append([what, *answer])

    # -- what a producer asks --------------------------------------------------------------------------------------
    def init(
        self, transactional_id: str, *, version: int = 5, timeout_ms: int = 60000, expected: Identity = (-1, -1)
    ) -> Identity:
        """InitProducerId."""
        fields: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
        if version >= 3:
            fields.update(producer_id=expected[0], producer_epoch=expected[1])
        answer = self._call(ApiKey.INIT_PRODUCER_ID, version, fields, lambda found: found.error_code)
        self.note("init", error(answer.error_code), self.who(answer.producer_id), answer.producer_epoch)
        return answer.producer_id, answer.producer_epoch

    def add(
        self, transactional_id: str, producer: Identity, places: Sequence[tuple[str, int]], *, version: int = 3
    ) -> None:
        """AddPartitionsToTxn of a client."""
        fields = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": self._by_topic(places),
        }
        answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, fields)
        self.note("add", *self._partition_results(answer.results_by_topic_v3_and_below))

    def add_batch(self, *wanted: tuple[str, Identity, Sequence[tuple[str, int]], bool], version: int = 5) -> None:
        """AddPartitionsToTxn of a broker, of several transactions; the last of each says whether only to verify."""
        transactions = [
            {
                "transactional_id": transactional_id,
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "verify_only": verify_only,
                "topics": self._by_topic(places),
            }
            for transactional_id, producer, places, verify_only in wanted
        ]
        answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, {"transactions": transactions})
        results = sorted(answer.results_by_transaction, key=lambda each: str(each.transactional_id))
        self.note("add batch", error(answer.error_code), *(self._partition_results(e.topic_results) for e in results))

    @staticmethod
    def _by_topic(places: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
        topics = sorted({topic for topic, _ in places})
        return [{"name": name, "partitions": [index for topic, index in places if topic == name]} for name in topics]

    @staticmethod
    def _partition_results(topics: Any) -> list[str]:
        results = [
            (str(topic.name), each.partition_index, error(each.partition_error_code))
            for topic in topics
            for each in topic.results_by_partition
        ]
        return [f"{topic.rpartition('.')[2]}-{index} {code}" for topic, index, code in sorted(results)]

    def produce(
        self,
        transactional_id: str | None,
        producer: Identity,
        place: tuple[str, int],
        sequence: int,
        *,
        version: int = 11,
        values: Sequence[bytes] = (b"v",),
    ) -> None:
        """Produce one batch of a transaction."""
        builder = BatchBuilder(
            1 << 16,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
        )
        for value in values:
            builder.append(int(time.time() * 1000), None, value)
        data = {"index": place[1], "records": bytes(builder.close())}
        fields = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 10000,
            "topic_data": [{"name": place[0], "partition_data": [data]}],
        }
        found = self._call(ApiKey.PRODUCE, version, fields, lambda e: e.responses[0].partition_responses[0].error_code)
        answer = found.responses[0].partition_responses[0]
        self.note("produce", error(answer.error_code), answer.base_offset, getattr(answer, "error_message", None))

    def add_offsets(self, transactional_id: str, producer: Identity, group: str, *, version: int = 4) -> None:
        """AddOffsetsToTxn."""
        fields = {
            "transactional_id": transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "group_id": group,
        }
        self.note("add offsets", error(self.client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, fields).error_code))

    def commit_offset(
        self,
        transactional_id: str,
        producer: Identity,
        group: str,
        offset: tuple[str, int, int],
        *,
        version: int = 4,
        member: tuple[str, int] = ("", -1),
    ) -> None:
        """TxnOffsetCommit of one partition: topic, partition, offset."""
        topic, index, position = offset
        partition: dict[str, Any] = {
            "partition_index": index,
            "committed_offset": position,
            "committed_metadata": "m",
        }
        if version >= 2:
            partition["committed_leader_epoch"] = 0
        fields: dict[str, Any] = {
            "transactional_id": transactional_id,
            "group_id": group,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        if version >= 3:
            fields.update(member_id=member[0], generation_id=member[1], group_instance_id=None)
        answer = self.client.call(ApiKey.TXN_OFFSET_COMMIT, version, fields)
        self.note("commit offset", error(answer.topics[0].partitions[0].error_code))

    def end(self, transactional_id: str, producer: Identity, *, commit: bool, version: int = 4) -> Identity:
        """EndTxn, and wait until it is over."""
        fields = {
            "transactional_id": transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "committed": commit,
        }
        answer = self.client.call(ApiKey.END_TXN, version, fields)
        identity = (getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1))
        self.note("end", error(answer.error_code), self.who(identity[0]), identity[1])
        self.settle(transactional_id)
        return identity

    # -- what others see -------------------------------------------------------------------------------------------
    def _described(self, transactional_id: str) -> Any:
        fields = {"transactional_ids": [transactional_id]}
        found = self._call(ApiKey.DESCRIBE_TRANSACTIONS, 0, fields, lambda each: each.transaction_states[0].error_code)
        return found.transaction_states[0]

    def settle(self, transactional_id: str) -> None:
        """Wait for markers; then for what a reader may still miss."""
        for _ in range(200):
            if self._described(transactional_id).transaction_state not in UNSETTLED:
                return
            time.sleep(0.02)

    def describe(self, transactional_id: str) -> None:
        """DescribeTransactions."""
        found = self._described(transactional_id)
        if int(found.error_code):
            self.note("describe", error(found.error_code))
            return
        places = sorted((str(topic.topic), sorted(topic.partitions)) for topic in found.topics)
        self.note(
            "describe",
            error(found.error_code),
            found.transaction_state,
            self.who(found.producer_id),
            found.producer_epoch,
            [f"{topic.rpartition('.')[2]} {indexes}" for topic, indexes in places],
        )

    def producers(self, place: tuple[str, int]) -> None:
        """DescribeProducers."""
        topics = [{"name": place[0], "partition_indexes": [place[1]]}]
        found = self.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": topics}).topics[0].partitions[0]
        states = [
            [
                self.who(each.producer_id),
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            ]
            for each in found.active_producers
        ]
        self.note("producers", error(found.error_code), *states)

    def offset(self, group: str, place: tuple[str, int], *, stable: bool = True) -> None:
        """OffsetFetch."""
        topics = [{"name": place[0], "partition_indexes": [place[1]]}]
        fields = {"group_id": group, "topics": topics, "require_stable": stable}
        answer = self._call(ApiKey.OFFSET_FETCH, 7, fields, lambda each: each.error_code)
        found = answer.topics[0].partitions[0]
        self.note("offset", error(found.error_code), found.committed_offset)

    def read(self, place: tuple[str, int], offset: int = 0, *, committed: bool = True) -> None:
        """Fetch: last stable offset, aborted transactions, batches."""
        wanted = {"partition": place[1], "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        fields = {
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": int(committed),
            "topics": [{"topic": place[0], "partitions": [wanted]}],
        }
        found = self.client.call(ApiKey.FETCH, 12, fields).responses[0].partitions[0]
        aborted = [[self.who(each.producer_id), each.first_offset] for each in found.aborted_transactions or ()]
        batches = [self._batch(each) for each in read_batches(found.records or b"")]
        self.note("read", error(found.error_code), found.high_watermark, found.last_stable_offset, aborted, batches)

    def _batch(self, batch: Any) -> list[Any]:
        assert isinstance(batch, RecordBatch)
        kind = "control" if batch.is_control else "data"
        values = [(record.value or b"").hex() if batch.is_control else str(record.value, "ascii")
                  for record in batch.records()]  # fmt: skip
        return [batch.base_offset, kind, self.who(batch.producer_id), batch.producer_epoch, batch.base_sequence, values]

    def list(self, *, version: int = 2, **filters: Any) -> None:
        """ListTransactions, of this story's ids only."""
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
        if version >= 1:
            fields.setdefault("duration_filter", -1)
        if version >= 2:
            fields.setdefault("transactional_id_pattern", None)
        found = self.client.call(ApiKey.LIST_TRANSACTIONS, version, fields)
        states = sorted(
            [str(each.transactional_id), each.transaction_state, self.who(each.producer_id)]
            for each in found.transaction_states
            if each.transactional_id.startswith(self.name)
        )
        self.note("list", error(found.error_code), sorted(found.unknown_state_filters), states)

    def marker(
        self, place: tuple[str, int], producer: Identity, *, commit: bool, coordinator_epoch: int, version: int = 1
    ) -> None:
        """WriteTxnMarkers."""
        marker: dict[str, Any] = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "transaction_result": commit,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": place[0], "partition_indexes": [place[1]]}],
        }
        if version >= 2:
            marker["transaction_version"] = 2
        answer = self.client.call(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]}).markers[0]
        self.note("marker", self.who(answer.producer_id), error(answer.topics[0].partitions[0].error_code))


Story = Callable[[Teller], None]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    """One of the stories."""
    STORIES[tell.__name__] = tell
    return tell


def tell(bootstrap: str, name: str) -> list[Any]:
    """Tell a story to a broker; gives its answers."""
    teller = Teller(bootstrap, name)
    teller.find_coordinator(name)
    with teller.client:
        STORIES[name](teller)
    answers: list[Any] = json.loads(json.dumps(teller.answers))
    return answers


@story
def old_client(s: Teller) -> None:
    """Transaction version 1: partitions are added, epochs stay."""
    t, x = s.topic(2), "old_client.x"
    p = s.init(x, version=4)
    s.describe(x)
    s.produce(x, p, (t, 0), 0)  # not added yet
    s.produce(x, p, (t, 0), 0, version=9)
    s.add(x, p, [(t, 0)])
    s.produce(x, p, (t, 0), 0, values=[b"a", b"b"])
    s.produce(x, p, (t, 0), 0, values=[b"a", b"b"])
    s.describe(x)
    s.producers((t, 0))
    s.read((t, 0))
    s.end(x, p, commit=True)
    s.end(x, p, commit=True)
    s.end(x, p, commit=False)
    s.describe(x)
    s.producers((t, 0))
    s.read((t, 0))
    s.add(x, p, [(t, 0), (t, 1)])
    s.produce(x, p, (t, 0), 2, values=[b"c"])
    s.produce(x, p, (t, 1), 0, values=[b"d"])
    s.end(x, p, commit=False)
    s.end(x, p, commit=False)
    s.end(x, p, commit=True)
    s.read((t, 0))
    s.read((t, 1))
    s.read((t, 1), committed=False)
    s.end(x, (p[0], p[1] + 1), commit=True)
    s.end(x, (p[0], p[1] - 1), commit=True, version=1)
    s.end(x, (p[0] + 1000, p[1]), commit=True)
    s.end("", p, commit=True)
    s.end(x + ".unknown", p, commit=True)


@story
def new_client(s: Teller) -> None:
    """Transaction version 2: produce adds partitions, every end raises the epoch."""
    t, x = s.topic(2), "new_client.x"
    p = s.init(x)
    s.produce(x, p, (t, 0), 1, version=12)  # the first must be sequence 0
    s.produce(x, p, (t, 0), 0, version=12, values=[b"a"])
    s.produce(x, p, (t, 0), 1, version=12, values=[b"b"])
    s.describe(x)
    q = s.end(x, p, commit=True, version=5)
    s.end(x, p, commit=True, version=5)
    s.end(x, p, commit=False, version=5)
    s.end(x, q, commit=True, version=5)
    s.describe(x)
    s.producers((t, 0))
    s.produce(x, p, (t, 0), 2, version=12)
    s.produce(x, q, (t, 1), 0, version=12, values=[b"c"])
    r = s.end(x, q, commit=False, version=5)
    s.end(x, q, commit=False, version=5)
    s.end(x, q, commit=True, version=5)
    e = s.end(x, r, commit=False, version=5)  # nothing was written
    s.describe(x)
    s.read((t, 0))
    s.read((t, 1))
    s.produce(x, e, (t, 0), 0, version=12, values=[b"d"])
    s.end(x, (e[0], e[1] - 1), commit=True, version=5)
    s.end(x, (e[0], e[1] + 1), commit=True, version=5)
    s.end(x, e, commit=True, version=5)
    s.producers((t, 0))
    y = "new_client.y"
    p = s.init(y)
    s.end(y, p, commit=True, version=5)
    s.end(y, (p[0], p[1] + 1), commit=False, version=5)
    p = s.end(y, p, commit=False, version=5)
    s.describe(y)


@story
def fencing(s: Teller) -> None:
    """A second producer of the same transactional id ends the first."""
    t, x = s.topic(), "fencing.x"
    p = s.init(x)
    q = s.init(x)
    s.add(x, p, [(t, 0)])
    s.add(x, p, [(t, 0)], version=1)
    s.produce(x, p, (t, 0), 0, version=12)
    s.produce(x, p, (t, 0), 0)
    s.end(x, p, commit=True)
    s.end(x, p, commit=True, version=5)
    s.produce(x, q, (t, 0), 0, version=12, values=[b"open"])
    s.init(x)
    s.settle(x)
    s.describe(x)
    r = s.init(x)
    s.produce(x, q, (t, 0), 1, version=12)
    s.produce(x, q, (t, 0), 1)
    s.end(x, q, commit=True, version=5)
    s.read((t, 0))
    s.producers((t, 0))
    s.produce(x, r, (t, 0), 0, version=12, values=[b"new"])
    s.end(x, r, commit=True, version=5)
    s.read((t, 0))


@story
def recovery(s: Teller) -> None:
    """A producer goes on after an error and names the identity it has (KIP-360)."""
    t, x = s.topic(), "recovery.x"
    p = s.init(x, version=4)
    q = s.init(x, version=4, expected=p)
    again = s.init(x, version=4, expected=p)
    assert again == q
    s.init(x, version=4, expected=(q[0], q[1] + 5))
    s.init(x, version=3, expected=(q[0], q[1] + 5))
    s.init(x, version=4, expected=(q[0] + 500, q[1]))
    s.init(x, version=4, expected=(q[0], -1))
    s.init(x, version=4, expected=(-1, 0))
    s.add(x, q, [(t, 0)])
    s.produce(x, q, (t, 0), 0)
    s.init(x, version=4, expected=q)
    s.settle(x)
    r = s.init(x, version=4, expected=q)
    s.init(x, version=4, expected=r)
    s.init(x + ".new", version=4, expected=(77, 3))
    s.init(x, timeout_ms=900001)
    s.init(x, timeout_ms=0)
    s.init("")
    s.describe(x)
    s.describe(x + ".unknown")
    s.describe("")
    s.read((t, 0))


@story
def offsets(s: Teller) -> None:
    """Offsets of groups in transactions (KIP-447)."""
    t, x, g = s.topic(), "offsets.x", "offsets.g"
    s.find_coordinator(g, kind=0)
    p = s.init(x, version=4)
    s.commit_offset(x, p, g, (t, 0, 5))
    s.commit_offset(x, p, g, (t, 0, 5), version=3)
    s.add_offsets(x, p, g)
    s.add_offsets(x, (p[0], p[1] + 1), g)
    s.add_offsets(x, (p[0], p[1] + 1), g, version=1)
    s.add_offsets(x, (p[0] + 1000, p[1]), g)
    s.commit_offset(x, p, g, (t, 0, 5))
    s.offset(g, (t, 0))
    s.offset(g, (t, 0), stable=False)
    s.commit_offset(x, p, g, (t, 9, 5))
    s.commit_offset(x, p, g, (t, 0, 5), member=("m", 3))
    s.commit_offset(x, p, g + ".other", (t, 0, 5), member=("m", 3))
    s.end(x, p, commit=True)
    s.offset(g, (t, 0))
    s.add_offsets(x, p, g)
    s.commit_offset(x, p, g, (t, 0, 9), version=0)
    s.offset(g, (t, 0))
    s.offset(g, (t, 0), stable=False)
    s.end(x, p, commit=False)
    s.offset(g, (t, 0))
    p = s.init(x)
    s.commit_offset(x, p, g, (t, 0, 11), version=5)
    s.describe(x)
    s.offset(g, (t, 0))
    q = s.end(x, p, commit=True, version=5)
    s.offset(g, (t, 0))
    s.commit_offset(x, p, g, (t, 0, 12), version=5)
    s.commit_offset(x, q, "", (t, 0, 12), version=5)
    s.commit_offset(x, q, g, (t, 0, 12), version=5)
    s.commit_offset(x, q, g, (t, 0, 13), version=5)
    s.end(x, q, commit=False, version=5)
    s.offset(g, (t, 0))


@story
def batched(s: Teller) -> None:
    """AddPartitionsToTxn as brokers send it, and what keeps partitions from being added."""
    t, x, y = s.topic(2), "batched.x", "batched.y"
    p, q = s.init(x), s.init(y)
    s.add_batch((x, p, [(t, 0)], True), (y, q, [(t, 1)], False))
    s.add_batch((x, p, [(t, 0), (t, 1)], False), (y, q, [(t, 0), (t, 1)], True), version=4)
    s.describe(x)
    s.add_batch((x, (p[0], 9), [(t, 0)], True), (y, (q[0] + 1000, 0), [(t, 0)], True))
    s.add_batch((x, p, [(t, 0), ("batched.missing", 0), (t, 7)], False))
    s.add_batch((x + ".unknown", p, [(t, 0)], False))
    s.add_batch(("", p, [(t, 0)], False))
    s.add_batch(("", p, [(t, 0)], True))
    s.add(x, p, [(t, 0), ("batched.missing", 0), (t, 7)])
    s.add(x, p, [("__consumer_offsets", 0)])
    s.add("", p, [(t, 0)])
    s.end(x, p, commit=True, version=5)
    s.end(y, q, commit=False, version=5)


@story
def listing(s: Teller) -> None:
    """ListTransactions and its filters."""
    t = s.topic()
    x, y, z = (f"listing.{name}" for name in "xyz")
    p, q, r = s.init(x), s.init(y), s.init(z)
    s.produce(x, p, (t, 0), 0, version=12)
    s.produce(y, q, (t, 0), 0, version=12)
    s.end(y, q, commit=True, version=5)
    s.list()
    s.list(version=0)
    s.list(state_filters=["Ongoing"])
    s.list(state_filters=["Ongoing", "Empty", "Bogus"])
    s.list(state_filters=["Bogus"])
    s.list(producer_id_filters=[p[0], r[0]])
    s.list(state_filters=["Ongoing"], duration_filter=0, version=1)
    s.list(state_filters=["Ongoing"], duration_filter=3600000)
    s.list(transactional_id_pattern="listing\\.[xz]")
    s.list(transactional_id_pattern="listing")
    s.list(transactional_id_pattern="")
    s.list(transactional_id_pattern="(")
    s.end(x, p, commit=False, version=5)


@story
def markers(s: Teller) -> None:
    """Markers written from outside, as kafka-transactions.sh --abort does."""
    t, x = s.topic(), "markers.x"
    s.init(x)
    p = s.init(x)
    s.produce(x, p, (t, 0), 0, version=12, values=[b"hanging"])
    s.marker((t, 0), (p[0], p[1] - 1), commit=False, coordinator_epoch=0)
    s.marker((t, 0), p, commit=False, coordinator_epoch=0, version=2)
    s.marker((t, 0), (p[0], p[1] - 1), commit=False, coordinator_epoch=0, version=2)
    s.producers((t, 0))
    s.marker((t, 0), p, commit=False, coordinator_epoch=7)
    s.read((t, 0))
    s.producers((t, 0))
    s.marker((t, 0), p, commit=False, coordinator_epoch=3)
    s.marker((t, 0), p, commit=True, coordinator_epoch=7)
    s.marker((t, 5), p, commit=True, coordinator_epoch=7)
    s.marker((t, 0), (p[0] + 1000, 0), commit=True, coordinator_epoch=0)
    s.producers((t, 5))
    s.read((t, 0), committed=False)


@story
def plain_records(s: Teller) -> None:
    """Idempotent and transactional records do not mix; a transactional id is needed."""
    t, x = s.topic(), "plain_records.x"
    p = s.init(x)
    s.produce(None, p, (t, 0), 0)
    s.produce(x, p, (t, 0), 1, version=12)
    s.produce(None, p, (t, 0), 2)
    s.end(x, p, commit=True, version=5)
    p = s.init(x)
    s.produce(x, p, (t, 0), 5, version=12)
    s.produce("plain_records.other", p, (t, 0), 2, version=12)
    s.produce("plain_records.other", p, (t, 0), 2, version=11)
    s.produce("plain_records.other", p, (t, 0), 2, version=10)
    s.read((t, 0))
