"""Brokers that replicate one partition over a network and disks that fail as a seed says: one thread, counted time.

Fetches go through the real handlers and the bytes of the wire. The controller is perfect (it is no part of what is
tested): it sees who is dead, elects from the ISR, and tells the brokers in order but late. A broker dies at any moment
and comes back with all that it wrote, or, after a loss of power, with what was synced; then it is out of the ISR before
it is in the cluster again (an unclean stop, as for KIP-966). Rules: what was acknowledged with acks=all and
min.insync.replicas=2 is at its offset in the end, on every replica; replicas are the same, byte for byte.
"""

from __future__ import annotations

import heapq
import struct
import uuid
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

from support.faulty_files import FaultyFileSystem
from support.manual_clock import ManualClock
from support.whole_messages import decode_all

from kafkatools.core.broker.metadata.image import (
    BrokerState,
    MetadataDelta,
    MetadataImage,
    PartitionState,
    TopicState,
)
from kafkatools.core.broker.node import single_node_config
from kafkatools.core.broker.replicas.cluster import Cluster, ReplicationSettings
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus
from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager, Surroundings
from kafkatools.core.broker.replicas.replication import Replication
from kafkatools.core.broker.server.apis import BROKER_APIS
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.requests import DELAYED, FileRegion, Request
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.batch import read_batches
from kafkatools.core.records.builder import BatchBuilder

TOPIC, TOPIC_ID = "t", uuid.UUID(int=7)
DIRECTORY = "/data"
NO_LEADER = -1
PRODUCE, FETCH, LIST_OFFSETS, ALTER_PARTITION = 0, 1, 2, 56
HEADER_BYTES = 8
FLEXIBLE_SINCE = {int(key): key.first_flexible_version for key in ApiKey}
NEWEST = {int(key): key.last_version for key in ApiKey}
INELIGIBLE_REPLICA, INVALID_UPDATE_VERSION, FENCED_LEADER_EPOCH, NEW_LEADER_ELECTED = 107, 95, 74, 109
SETTINGS = ReplicationSettings(
    lag_time_max_ms=200, fetch_wait_max_ms=50, fetch_backoff_ms=50, socket_timeout_ms=100, fetch_max_bytes=4096
)


def batch_of(*values: int, producer: tuple[int, int, int] | None = None) -> memoryview:
    """A client's batch; `producer` is (id, epoch, first sequence)."""
    header: dict[str, Any] = {}
    if producer is not None:
        header = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": producer[2]}
    builder = BatchBuilder(1024, **header)
    for value in values:
        builder.append(1_700_000_000_000, None, struct.pack(">q", value))
    return memoryview(bytearray(builder.close()))


class Violation(AssertionError):
    """Records were lost, or replicas differ."""


class _Connection:
    """Where a handler's answer goes."""

    def __init__(self, answer: Callable[[bytes], None]) -> None:
        self._answer = answer
        self.client_host = "simulation"
        self.acceptor = SimpleNamespace(name="PLAINTEXT")
        self.last_written = None

    def complete(self, response: Any) -> None:
        self._answer(b"".join(_bytes_of(part) for part in response))

    def throttle(self, delay_ms: int) -> None:
        """Nobody is throttled."""

    def use_shortcut(self, shortcut: object) -> None:
        """Every request is dispatched."""


def _bytes_of(part: Any) -> bytes:
    return part.file.read_at(part.position, part.size_bytes) if isinstance(part, FileRegion) else bytes(part)


class SimulatedBroker:
    """A broker that may be down or stopped; its disk stays."""

    def __init__(self, cluster: ReplicaSimulation, broker_id: int) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.files = FaultyFileSystem()
        self.files.make_directory(DIRECTORY)
        self.is_up = False
        self.has_contact = True
        self.is_paused = False
        self.life = 0
        self.held: list[Callable[[], None]] = []
        self.wake_ms: int | None = None

    # -- life --
    def start(self, broker_epoch: int) -> None:
        """Recover what the disk has; `apply` makes it lead and follow."""
        clock = self.cluster.clock
        self.life += 1
        self.is_up, self.is_paused, self.wake_ms = True, False, None
        self.files.heal()
        self.broker_epoch = broker_epoch
        self.image = MetadataImage()
        self.logs = LogManager(self.files, DIRECTORY)
        self.logs.start()
        self.timer = Timer(clock.now_ms())
        self.fetch_purgatory = Purgatory("Fetch", self.timer)
        self.produce_purgatory = Purgatory("Produce", self.timer)
        self.fetch_sessions = FetchSessionCache()
        around = Surroundings(
            self.fetch_purgatory,
            self.produce_purgatory,
            lambda: single_node_config(DIRECTORY, "127.0.0.1", 0),
            self.cluster.failed,
            on_elected=lambda partition: self._note_election("elected", partition),
            on_resigned=lambda partition: self._note_election("resigned", partition),
        )
        self.replicas = ReplicaManager(self.logs, self.image, self.broker_id, clock, around, self._join)
        self.replicas.end_start()
        self.replicas.log_config = lambda topic: self.cluster.log_config  # type: ignore[method-assign]
        self.config = SimpleNamespace(fetch_max_bytes=1 << 20)
        self.fetch_max_bytes, self.authorizer, self.clock = 1 << 20, None, clock

    def _note_election(self, outcome: str, partition: Partition) -> None:
        self.cluster.elections.append((self.broker_id, outcome, partition.leader_epoch))

    def _join(self, replicas: ReplicaManager) -> Replication:
        clock = self.cluster.clock
        self.replication = Replication(
            replicas,
            Cluster(
                self.broker_id,
                self.image,
                clock,
                self,
                SimpleNamespace(send=self._ask_controller),
                lambda: self.broker_epoch,
                lambda delay_ms, run: self.timer.schedule(delay_ms, run, clock.now_ms()),
                self.cluster.rates.get,
                self.cluster.failed,
                lambda: self.has_contact,
            ),
            self.cluster.settings,
        )
        return self.replication

    def authorize(self, *_: Any) -> bool:
        return True

    def note_failure(self, error: Exception) -> None:
        if not isinstance(error, KafkaError):
            raise error

    def stop(self, *, loses_power: bool) -> None:
        """Die: what was not synced is gone only with the power."""
        self.is_up, self.held = False, []
        if loses_power:
            self.files.crash()

    @property
    def partition(self) -> Partition | None:
        return self.replicas.partitions.get(TOPIC, {}).get(0) if self.is_up else None

    # -- the crank --
    def do(self, work: Callable[[], None], life: int | None = None) -> None:
        """Something comes in for a life of the broker, by default this one: now, or when it goes on."""
        life = self.life if life is None else life

        def run() -> None:
            if not self.is_up or self.life != life:
                return
            if self.is_paused:
                self.held.append(run)
                return
            work()
            self.turn()

        run()

    def turn(self) -> None:
        now_ms = self.cluster.clock.now_ms()
        self.replicas.open_missing()
        self.replicas.complete_delayed()
        self.timer.advance_to(now_ms)
        self.replication.tick(now_ms)
        self.replicas.complete_delayed()
        due = self.timer.next_expiration_ms()
        wake_ms = self.replication.next_deadline_ms
        wake_ms = max(now_ms + 1, wake_ms if due is None else min(wake_ms, due))
        if self.wake_ms is None or wake_ms < self.wake_ms or self.wake_ms <= now_ms:
            self.wake_ms = wake_ms
            life = self.life
            self.cluster.at(wake_ms, lambda: self.do(lambda: None, life))

    def resume(self) -> None:
        self.is_paused = False
        held, self.held = self.held, []
        for work in held:
            work()
        self.do(lambda: None)

    # -- the network: a PeerChannel --
    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_response: Callable[[memoryview | None], None],
        *,
        timeout_ms: int | None = None,
    ) -> None:
        cluster, life = self.cluster, self.life
        is_answered = False

        def answered(answer: bytes | None) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                self.do(lambda: on_response(None if answer is None else memoryview(bytearray(answer[9:]))), life)

        cluster.at(cluster.clock.now_ms() + (timeout_ms or 100), lambda: answered(None))
        if cluster.rng_loses(self.broker_id, node_id):
            return
        other = cluster.brokers[node_id]
        cluster.later(lambda: other.do(lambda: other.serve(self.broker_id, api_key, version, body, answered)))

    def send(
        self, node_id: int, api_key: int, fields: Mapping[str, Any], on_response: Callable[[Any], None], **options: Any
    ) -> None:
        version = NEWEST[api_key]
        body = messages.encode_fields(messages.request_type(api_key, version), fields)
        kind = messages.response_type(api_key, version)
        self.send_raw(
            node_id,
            api_key,
            version,
            body,
            lambda raw: on_response(None if raw is None else decode_all(kind, raw)),
            **options,
        )

    def serve(self, sender: int, api_key: int, version: int, body: bytes, answered: Callable[[bytes], None]) -> None:
        """Handle a request; its answer may come later."""
        frame = bytearray(struct.pack(">hhi", api_key, version, 1)) + body

        def back(answer: bytes) -> None:
            if not self.cluster.rng_loses(self.broker_id, sender):
                self.cluster.later(lambda: answered(answer))

        request = Request(_Connection(back), memoryview(frame), (api_key, version, 1))  # type: ignore[arg-type]
        request.body_offset, request.is_flexible = HEADER_BYTES, version >= FLEXIBLE_SINCE[api_key]
        response = BROKER_APIS[api_key].load()(self, request)  # type: ignore[arg-type]
        if response is not DELAYED:
            back(b"".join(_bytes_of(part) for part in response))

    def ask(self, api_key: int, version: int, body: bytes, limit_ms: int = 2000) -> Any:
        """A client's request, and its answer."""
        answers: list[bytes] = []
        self.do(lambda: self.serve(0, api_key, version, body, answers.append))
        self.cluster.run_until(lambda: bool(answers), limit_ms)
        return decode_all(
            messages.response_type(api_key, version), answers[0][9 if version >= FLEXIBLE_SINCE[api_key] else 8 :]
        )

    def _ask_controller(self, api_key: int, fields: Mapping[str, Any], on_response: Any, **_: Any) -> None:
        cluster, life = self.cluster, self.life
        assert api_key == ALTER_PARTITION
        cluster.later(
            lambda: cluster.alter_partition(
                fields, lambda answer: cluster.later(lambda: self.do(lambda: on_response(answer), life))
            )
        )

    # -- clients --
    def produce(self, value: int, *, acks: int = -1, timeout_ms: int = 400) -> None:
        """A client's write; an acknowledgement is noted."""
        partition = self.partition
        if partition is None:
            return
        try:
            info = partition.append(batch_of(value), self.cluster.clock.wall_ms(), required_acks=acks)
        except KafkaError:
            return
        self.replicas.note_append(partition)

        def complete(statuses: Any) -> None:
            if all(status.error_code == 0 for status in statuses):
                self.cluster.acknowledged[info.first_offset] = value

        if acks == -1:
            self.produce_purgatory.try_complete_else_watch(
                DelayedProduce(timeout_ms, [ProduceStatus(partition, info.last_offset + 1)], complete),
                [partition.key],
                self.cluster.clock.now_ms(),
            )

    def content(self, start: int) -> bytes:
        """The bytes of the partition's log from an offset to its end."""
        partition = self.partition
        assert partition is not None
        log = partition.log
        found = bytearray()
        offset = max(start, log.log_start_offset)
        while offset < log.log_end_offset:
            piece = log.read(offset, 1 << 20).read()
            found += piece
            offset = [batch.next_offset for batch in read_batches(piece)][-1]  # type: ignore[union-attr]
        return bytes(found)


class ReplicaSimulation:
    """The cluster, its controller and its time."""

    def __init__(
        self,
        seed: int,
        *,
        broker_count: int = 3,
        loss: float = 0.0,
        max_delay_ms: int = 5,
        settings: ReplicationSettings = SETTINGS,
        **log_settings: Any,
    ) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.settings = settings
        self.log_config = LogConfig(**{"min_insync_replicas": 2, "segment_bytes": 1000, **log_settings})
        self.loss = loss
        self.max_delay_ms = max_delay_ms
        self.cut: set[tuple[int, int]] = set()
        self.acknowledged: dict[int, int] = {}
        self.next_value = 0
        self.log_start = 0
        self.rates: dict[str, int] = {}
        self.failures: list[Exception] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._epochs = 100
        ids = tuple(range(1, broker_count + 1))
        self.elections: list[tuple[int, str, int]] = []
        self.brokers = {broker_id: SimulatedBroker(self, broker_id) for broker_id in ids}
        self.registered: dict[int, BrokerState] = {}
        self.state = PartitionState(0, ids, ids, ids[0], 0, 0, (), (), (), 0)
        self._told_ms: dict[int, int] = {}
        for broker_id in ids:
            self.start(broker_id)

    def failed(self, error: Exception) -> None:
        """A broker reports a failure: of the disk when it has one, else it is a bug."""
        if not isinstance(error, KafkaStorageError):
            self.failures.append(error)

    # -- time --
    def at(self, time_ms: int, work: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._events, (time_ms, self._sequence, work))

    def later(self, work: Callable[[], None]) -> None:
        """After the network's delay."""
        self.at(self.clock.now_ms() + self.random.randint(1, self.max_delay_ms), work)

    def rng_loses(self, source: int, target: int) -> bool:
        return (source, target) in self.cut or self.random.random() < self.loss

    def run(self, duration_ms: int) -> None:
        """Let so much time pass."""
        until_ms = self.clock.now_ms() + duration_ms
        while self._events and self._events[0][0] <= until_ms:
            time_ms, _, work = heapq.heappop(self._events)
            self.clock.advance_ms(max(0, time_ms - self.clock.now_ms()))
            work()
        self.clock.advance_ms(until_ms - self.clock.now_ms())

    def run_until(self, is_so: Callable[[], bool], limit_ms: int = 5000) -> None:
        """Let time pass until something holds."""
        end_ms = self.clock.now_ms() + limit_ms
        while not is_so():
            if self.clock.now_ms() > end_ms:
                raise Violation(f"did not come to be within {limit_ms} ms: {self.describe()}")
            self.run(2)

    def describe(self) -> str:
        found = [
            f"{each.broker_id}: leader={p.is_leader} epoch={p.leader_epoch} end={p.log.log_end_offset} "
            f"hw={p.log.high_watermark} isr={p.isr}"
            for each in self.brokers.values()
            if (p := each.partition) is not None
        ]
        return f"{self.state} {found}"

    # -- the controller --
    def change(self, **fields: Any) -> None:
        """A record of the metadata log; everybody hears of it in time."""
        state = self.state
        if "leader" in fields:
            fields["leader_epoch"] = state.leader_epoch + 1
        fields["partition_epoch"] = state.partition_epoch + 1
        values = {name: getattr(state, name) for name in PartitionState.__slots__}
        self.state = PartitionState(**{**values, **fields})
        self.publish()

    def publish(self) -> None:
        for broker in self.brokers.values():
            if broker.is_up:
                self.tell(broker)

    def tell(self, broker: SimulatedBroker, *, now: bool = False) -> None:
        """Metadata as it is now, on its way to a broker: late, in order."""
        state, registered, life = self.state, dict(self.registered), broker.life
        delay_ms = 0 if now else self.random.randint(1, 3 * self.max_delay_ms)
        time_ms = max(self.clock.now_ms() + delay_ms, self._told_ms.get(broker.broker_id, 0))
        self._told_ms[broker.broker_id] = time_ms

        def apply() -> None:
            image = broker.image
            image.brokers.clear()
            image.brokers.update(registered)
            topic = TopicState(TOPIC, TOPIC_ID, {0: state})
            image.topics[TOPIC] = image.topics_by_id[TOPIC_ID] = topic
            broker.replicas.apply_delta(MetadataDelta({TOPIC_ID: topic}))

        def arrive() -> None:
            if broker.life == life:
                broker.do(apply)

        self.at(time_ms, arrive)

    def start(self, broker_id: int, *, was_unclean: bool = False) -> None:
        """Start a broker and let it into the cluster."""
        self._epochs += 1
        state = self.state
        if was_unclean and broker_id in state.isr and len(state.isr) > 1:
            self._leave_isr(broker_id)
        self.registered[broker_id] = self._alive(broker_id, self._epochs)
        self.brokers[broker_id].start(self._epochs)
        if self.state.leader == NO_LEADER and broker_id in self.state.isr:
            self.change(leader=broker_id)
        else:
            self.publish()

    def _alive(self, broker_id: int, epoch: int) -> BrokerState:
        endpoints = (("PLAINTEXT", f"host{broker_id}", 9000 + broker_id),)
        return BrokerState(broker_id, epoch, None, endpoints, f"rack{broker_id}", False)

    def kill(self, broker_id: int, *, loses_power: bool = False) -> None:
        """A broker dies; the controller notices."""
        self.brokers[broker_id].stop(loses_power=loses_power)
        self.fence(broker_id)

    def fence(self, broker_id: int) -> None:
        """The controller does not hear of a broker any more."""
        self.registered[broker_id] = BrokerState(broker_id, -1, None, (), None, True)
        self._leave_isr(broker_id)

    def unfence(self, broker_id: int) -> None:
        """It hears of it again."""
        epoch = self.brokers[broker_id].broker_epoch
        self.registered[broker_id] = self._alive(broker_id, epoch)
        if self.state.leader == NO_LEADER and broker_id in self.state.isr:
            self.change(leader=broker_id)
        else:
            self.publish()

    def _leave_isr(self, broker_id: int) -> None:
        state = self.state
        isr = tuple(each for each in state.isr if each != broker_id)
        if not isr or broker_id not in state.isr:
            if state.leader == broker_id:
                self.change(leader=NO_LEADER)
            return
        if state.leader == broker_id:
            alive = [each for each in state.replicas if each in isr and not self.registered[each].is_fenced]
            self.change(isr=isr, leader=alive[0] if alive else NO_LEADER)
        else:
            self.change(isr=isr)

    def elect(self, broker_id: int) -> None:
        """Another leader of the ISR."""
        if broker_id in self.state.isr and not self.registered[broker_id].is_fenced:
            self.change(leader=broker_id)

    def alter_partition(self, fields: Mapping[str, Any], answer: Callable[[Any], None]) -> None:
        """AlterPartition, as ReplicationControlManager decides."""
        wanted = fields["topics"][0]["partitions"][0]
        state = self.state
        isr = tuple(each["broker_id"] for each in wanted["new_isr_with_epochs"])
        code = 0
        if wanted["leader_epoch"] != state.leader_epoch or state.leader != fields["broker_id"]:
            code = FENCED_LEADER_EPOCH
        elif wanted["partition_epoch"] != state.partition_epoch:
            code = INVALID_UPDATE_VERSION
        elif any(
            self.registered[each["broker_id"]].is_fenced
            or each["broker_epoch"] not in (-1, self.registered[each["broker_id"]].epoch)
            for each in wanted["new_isr_with_epochs"]
        ):
            code = INELIGIBLE_REPLICA
        else:
            self.change(isr=isr)
        state = self.state
        partition = SimpleNamespace(
            partition_index=0,
            error_code=code,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            leader_recovery_state=0,
            partition_epoch=state.partition_epoch,
        )
        topic = SimpleNamespace(topic_id=TOPIC_ID, partitions=(partition,))
        answer(SimpleNamespace(error_code=0, topics=(topic,)))

    # -- clients --
    def produce(self, count: int = 1, *, acks: int = -1) -> None:
        """Writes to everybody who thinks that it leads."""
        for broker in self.brokers.values():
            if broker.is_up and broker.partition is not None and broker.partition.is_leader:
                for _ in range(count):
                    self.next_value += 1
                    value = self.next_value
                    broker.do(lambda broker=broker, value=value: broker.produce(value, acks=acks))  # type: ignore[misc]

    @property
    def leader(self) -> SimulatedBroker:
        return self.brokers[self.state.leader]

    # -- the rules --
    def heal(self) -> None:
        """All is well again: everybody up, nothing lost; then replicas become the same."""
        self.loss, self.cut = 0.0, set()
        for broker in self.brokers.values():
            broker.files.heal()
            if broker.is_up and (broker.partition is None or broker.partition.log.failure is not None):
                self.kill(broker.broker_id)  # a log that is offline comes back with the next start
            if broker.is_up and broker.is_paused:
                self.unfence(broker.broker_id)
                broker.resume()
            elif not broker.is_up:
                self.start(broker.broker_id)
            elif self.registered[broker.broker_id].is_fenced:
                self.unfence(broker.broker_id)
        self.run_until(self.is_settled)

    def is_settled(self) -> bool:
        """Whether all replicas are in sync and have the same end, all of it committed."""
        partitions = [each.partition for each in self.brokers.values()]
        if len(self.state.isr) != len(self.brokers) or any(each is None for each in partitions):
            return False
        ends = {(each.log.log_end_offset, each.log.high_watermark) for each in partitions if each is not None}
        return len(ends) == 1 and len(set(ends.pop())) == 1

    def deleted_to(self, offset: int) -> None:
        """Records below an offset were deleted: they may be gone."""
        self.log_start = max(self.log_start, offset)

    def check(self) -> None:
        """Nothing acknowledged is lost, and all replicas are the same."""
        contents = {broker_id: broker.content(self.log_start) for broker_id, broker in self.brokers.items()}
        first = next(iter(contents.values()))
        for broker_id, content in contents.items():
            if content != first:
                raise Violation(f"the log of broker {broker_id} differs: {self.describe()}")
        values = values_by_offset(first)
        for offset, value in self.acknowledged.items():
            if offset >= self.log_start and values.get(offset) != value:
                raise Violation(f"record {value} at offset {offset} was lost, there is {values.get(offset)}")
        if self.failures:
            raise Violation(f"logs failed: {self.failures}")


def values_by_offset(content: bytes) -> dict[int, int]:
    """The numbers in a log."""
    found = {}
    for batch in read_batches(content):
        columns = batch.columns()
        for number in range(columns.count):
            value = columns.value(number)
            assert value is not None
            (found[columns.offsets[number]],) = struct.unpack(">q", value)
    return found
