"""Open a broker on what a loss of power left, and hold it against the facts."""

from __future__ import annotations

from random import Random
from typing import Any

from support.crash.broker import WALL_MS, Broker
from support.crash.course import GROUP
from support.crash.disk import PowerDisk
from support.crash.facts import Facts, Lost, Read, Sent, Topic, Transaction, hold, read_log
from support.manual_clock import ManualClock

from kafkatools.core.log.partition.partition_log import PartitionLog

OFFSET_FETCH = 9
RESTARTED_MS = 3_600_000
FSYNC = "fsync"


def check(disk: PowerDisk, facts: Facts, durability: str, directory: str, rng: Random) -> None:
    """Raises Lost."""
    clock = ManualClock(now_ms=10_000_000, wall_ms=WALL_MS + RESTARTED_MS)
    try:
        broker = Broker(disk, directory, durability, rng, clock)
    except Exception as error:
        raise Lost(f"the broker does not start: {type(error).__name__}: {error}") from error
    try:
        broker.settle()
        _Check(broker, facts, is_durable=durability == FSYNC).run()
    except Lost:
        raise
    except Exception as error:
        raise Lost(f"the broker fails after its start: {type(error).__name__}: {error}; {broker.reports}") from error
    finally:
        broker.abandon()


class _Check:
    def __init__(self, broker: Broker, facts: Facts, *, is_durable: bool) -> None:
        self.broker = broker
        self.facts = facts
        self.is_durable = is_durable
        self._visible: dict[int, set[bool]] = {}

    def run(self) -> None:
        known = {topic.topic_id: topic for topic in self.facts.topics if topic.topic_id is not None}
        for name in {topic.name for topic in self.facts.topics}:
            self._check_topic(name)
        for state in self.broker.node.image.topics.values():
            topic = known.get(state.topic_id)
            if topic is not None:
                self._check_records(topic)
        if self.is_durable:
            self._check_transactions()
            self._check_producer_ids()
        self._check_offsets()
        hold(not self.broker.reports, f"the broker reports {self.broker.reports}")

    def _check_topic(self, name: str) -> None:
        lives = self.facts.of(name)
        state = self.broker.node.image.topics.get(name)
        if not self.is_durable:
            return
        for topic in lives:
            is_here = state is not None and state.topic_id == topic.topic_id
            if topic.topic_id is not None and topic.deletion is None:
                hold(is_here, f"the topic {name} is gone")
            hold(not (is_here and topic.deletion == "acknowledged"), f"the deleted topic {name} is back")
        last = lives[-1]
        if state is not None and state.topic_id == last.topic_id and last.retention.acknowledged >= 0:
            value = self.broker.node.image.configs.get((2, name), {}).get("retention.ms")
            last.retention.check(f"retention.ms of {name}", value, may_be_lost=False)

    # records

    def _check_records(self, topic: Topic) -> None:
        for index in range(topic.partitions):
            try:
                partition = self.broker.node.replicas.get(topic.name, index)
            except Exception as error:
                raise Lost(f"{topic.name}-{index} is not served: {error!r}") from error
            log = partition.log
            name = f"{topic.name}-{index}"
            hold(log.log_start_offset <= topic.start[index], f"{name} begins at {log.log_start_offset}")
            # of a compacted log no one can tell a lost end of a segment from what was compacted
            read = read_log(log, may_end_in_hole=topic.is_compacted and not self.is_durable)
            sent = topic.records[index]
            if not self.is_durable and len(self.facts.of(topic.name)) > 1:
                # the deletion may be lost and the records of the next topic of that name kept: nothing else is there
                sent = [each for life in self.facts.of(topic.name) for each in life.records.get(index, ())]
                self._check_known(name, read, sent)
                continue
            self._check_known(name, read, sent)
            if topic.is_compacted:
                self._check_newest(name, read, sent)
            else:
                self._check_order(name, read, sent, log)
            self._note_visible(read, sent)

    def _check_known(self, name: str, read: list[Read], sent: list[Sent]) -> None:
        known = {each.value: each for each in sent}
        seen = set()
        for each in read:
            hold(each.value in known, f"{name} has a record at {each.offset} that was not sent: {each.value!r}")
            assert each.value is not None
            match = known[each.value]
            hold(each.key == match.key, f"{name} has another key at {each.offset}")
            hold(match.offset in (None, each.offset), f"{name}: a record moved from {match.offset} to {each.offset}")
            hold(each.value not in seen, f"{name} has a record twice, at {each.offset}")
            seen.add(each.value)

    def _check_order(self, name: str, read: list[Read], sent: list[Sent], log: PartitionLog) -> None:
        values = [each.value for each in sent]
        order = [values.index(each.value) for each in read]
        hold(order == sorted(order), f"{name} is out of order")
        hold(not order or order == list(range(order[0], order[0] + len(order))), f"{name} has a gap")
        if self.is_durable:
            found = {each.value for each in read}
            for each in sent:
                is_there = each.offset is None or each.offset < log.log_start_offset or each.value in found
                hold(is_there, f"{name} lost the acknowledged record at {each.offset}")

    def _check_newest(self, name: str, read: list[Read], sent: list[Sent]) -> None:
        if not self.is_durable:
            return
        there = {each.value for each in read}
        newest: dict[bytes | None, Sent] = {}
        for each in sent:
            if each.offset is not None and _is_visible(each.transaction):
                newest[each.key] = each
        for key, wanted in newest.items():
            later = {each.value for each in sent if each.key == key and each.order >= wanted.order}
            hold(there & later, f"{name} lost the newest value of {key!r}, acknowledged at {wanted.offset}")

    # transactions

    def _note_visible(self, read: list[Read], sent: list[Sent]) -> None:
        transactions = {each.value: each.transaction for each in sent}
        for each in read:
            transaction = transactions.get(each.value or b"")
            if transaction is not None:
                self._visible.setdefault(transaction.number, set()).add(each.is_visible)

    def _check_transactions(self) -> None:
        for transaction in self.facts.transactions:
            seen = self._visible.get(transaction.number, set())
            name = f"transaction {transaction.number} ({transaction.outcome})"
            hold(len(seen) < 2, f"{name} is committed in one place and not in another")
            if transaction.outcome != "commit":
                hold(True not in seen, f"{name} is visible")
            elif transaction.is_acknowledged:
                hold(False not in seen, f"{name} is not visible")

    def _check_producer_ids(self) -> None:
        answer = self.broker.ask(22, 4, transactional_id=None, transaction_timeout=1000)
        hold(int(answer.error_code) == 0, f"no producer id: {answer}")
        hold(answer.producer_id not in self.facts.producer_ids, f"producer id {answer.producer_id} is given twice")

    # commits

    def _check_offsets(self) -> None:
        if "__consumer_offsets" not in self.broker.node.image.topics:
            hold(
                not self.is_durable or all(each.acknowledged < 0 for each in self.facts.offsets.values()), "no commits"
            )
            return
        for (topic, index), register in self.facts.offsets.items():
            topics = [{"name": topic, "partition_indexes": [index]}]
            group = {"group_id": GROUP, "topics": topics}

            def code(answer: Any) -> Any:
                return answer.groups[0].error_code

            answer = self.broker.ask_again(OFFSET_FETCH, 8, {"groups": [group], "require_stable": False}, code, (14,))
            found = answer.groups[0].topics[0].partitions[0]
            value = found.committed_offset if found.committed_offset >= 0 else None
            register.check(f"the commit of {topic}-{index}", value, may_be_lost=not self.is_durable)


def _is_visible(transaction: Transaction | None) -> bool:
    return transaction is None or (transaction.outcome == "commit" and transaction.is_acknowledged)
