"""One broker with its controller: wires log manager, metadata log, controller, replica manager and listener, and
turns the crank (Kafka's KafkaRaftServer).

Rules: everything runs on the thread that calls `run_once`. A start that fails leaves the directory as it was, lock
released. `close` is the clean stop: no more requests, logs flushed and closed, marker written. A node that is killed
recovers on its next start.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kafkatools.core import config as tables
from kafkatools.core.broker.coordinators.coordination import Coordination
from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.controller import acls
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.formatter import (
    BOOTSTRAP_CHECKPOINT,
)
from kafkatools.core.broker.metadata.image import MetadataDelta, MetadataImage, PartitionState, TopicState
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.metadata_log import MetadataLog, SnapshotRules, data_records
from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.sole_voter import SoleVoter
from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper
from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache, session_id_of
from kafkatools.core.broker.replicas.group_commit import GroupCommit
from kafkatools.core.broker.replicas.log_cleaner import LogCleaner
from kafkatools.core.broker.replicas.log_directories import NodeDirectories
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import OtherBrokers, ReplicaManager, Surroundings
from kafkatools.core.broker.server.authorizer import ANONYMOUS, StandardAuthorizer, open_authorizer, operations_field
from kafkatools.core.broker.server.authorizer import SUPPORTED_OPERATIONS as OPERATIONS
from kafkatools.core.broker.server.channels import PeerChannel, Quorum
from kafkatools.core.broker.server.connection_limits import ConnectionLimits, descriptor_limit, max_log_files
from kafkatools.core.broker.server.dispatch import Dispatcher
from kafkatools.core.broker.server.failure_reports import FailureReports
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.node_settings import node_settings
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.quotas import Quotas
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.broker.server.timer import Timer, TimerTask
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    KafkaStorageError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import PARTITION_METADATA
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.broker.apis import contexts
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager

MAX_POLL_MS = 1000
HOUSEKEEPING_MS = 1000
LONG_MAX = 2**63 - 1
AUTHORIZATION_ERRORS: dict[int, type[KafkaError]] = {
    acls.TOPIC: TopicAuthorizationFailed,
    acls.GROUP: GroupAuthorizationFailed,
    acls.CLUSTER: ClusterAuthorizationFailed,
    acls.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Worker(Protocol):
    """Something that has its own times: raft, heartbeats, connections to other nodes."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do at the latest; None: whenever it is."""
        ...

    def tick(self, now_ms: int) -> None:
        """Once in every turn."""
        ...


class Node:
    """A single-node cluster on one log directory or several.

    `image` and `broker_settings` are what the broker acts on, `controller` is who changes them.
    """

    def __init__(
        self, config: Config, clock: Clock, files: FileSystem | None = None, report: Callable[[str], None] | None = None
    ) -> None:
        self.config = config
        self.clock = clock
        descriptors = descriptor_limit()
        self.files = files or RealFileSystem(max_log_files(descriptors))
        self.settings = node_settings(config)
        self.node_id = self.settings.node_id
        self.log_directory = self.settings.log_directory
        self.cluster_id = ""
        self.directory_id: uuid.UUID
        self.is_stopping = False
        self.advertised_host = self.settings.advertised_host
        self.advertised_port = self.settings.advertised_port
        self.fetch_max_bytes: int = config.fetch_max_bytes
        self.timer = Timer(clock.now_ms(), self.note_failure)
        self.fetch_purgatory = Purgatory("Fetch", self.timer)
        self.produce_purgatory = Purgatory("Produce", self.timer)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self._reports = FailureReports(clock, report or (lambda line: None))
        held = getattr(self.files, "max_open_files", 0)
        self.limits = ConnectionLimits(descriptors, held, report or (lambda line: None))
        self.limits.configure(config)
        self._lock: NodeDirectories | None = None
        self.logs = LogManager(self.files, *self.settings.log_directories)
        self.authorizer: StandardAuthorizer | None = None
        self.controller: Controller
        self.quorum: Quorum
        self.image: MetadataImage
        self.broker_settings: BrokerSettings
        self.quotas: Quotas
        self.replicas: ReplicaManager
        self.coordination: Coordination
        self.cleaner: LogCleaner | None = None
        self.producer_ids: ProducerIds
        self.keeper: DirectoryKeeper | None = None
        self.listener: Listener
        self.workers: list[Worker] = []
        self._broker_epoch = -1
        self._counted_offset = -1
        self._partitions = 0

    # -- start -----------------------------------------------------------------------------------------------------
    def start(self, *, format_if_needed: bool = False) -> None:
        """Open the directory, replay the metadata, recover the logs, listen. Raises KafkaStorageError, ConfigError,
        OSError."""
        self._lock = NodeDirectories(self.files, self.settings)
        try:
            self._lock.open(self.clock.wall_ms(), format_if_needed=format_if_needed)
            self._start(self._lock)
        except BaseException:
            self._lock.release()
            self._lock = None
            raise

    def _start(self, directories: NodeDirectories) -> None:
        self.cluster_id = directories.cluster_id
        self.directory_id = directories.metadata_id
        self.logs.report = self._reports.tell
        directories.tell(self.logs)
        self.listener = self._open_listener()
        try:
            if self.settings.advertised_port == 0:
                self.advertised_port = self.listener.port
            self.logs.start()
            self.image = MetadataImage()
            self.broker_settings = BrokerSettings(self.config, self.image, self.node_id)
            self._open_metadata()
            self._open_replicas()
            self._keep_directories()
            self._begin()
        except BaseException:
            self.listener.close()
            raise
        self._schedule_housekeeping()

    def _open_listener(self) -> Listener:
        settings = self.settings
        return Listener(
            (settings.host, settings.port),
            Dispatcher(self),
            name=settings.listener_name,
            max_request_bytes=self.config.socket_request_max_bytes,
            max_idle_ms=self.config.connections_max_idle_ms,
            limits=self.limits,
            schedule=self._schedule,
        )

    def _schedule(self, delay_ms: int, run: Callable[[int], None]) -> TimerTask:
        return self.timer.schedule(delay_ms, run, self.clock.now_ms())

    def _open_metadata(self) -> None:
        """What is known of the cluster, and who changes it."""
        metadata_log = MetadataLog(self.files, self.log_directory, SnapshotRules.of(self.config))
        self._is_new = metadata_log.open(self.clock.now_ms(), self.clock.wall_ms(), is_clean=self.logs.is_clean_start)
        if self.config.log_durability == "fsync":
            metadata_log.sync_every_append()
        metadata_log.log.on_storage_error = self.logs.listener_of(self.log_directory)
        self._metadata_log = metadata_log
        self._log = RaftLog(metadata_log, self.clock.wall_ms, commits_at_once=True)
        self._sole_voter = self.quorum = SoleVoter(
            self.node_id,
            (self.advertised_host, self.advertised_port),
            self._log,
            ElectionStore(self.files, metadata_log.directory, [self.node_id]),
        )
        self.controller = Controller(
            self.config,
            self.node_id,
            self.clock,
            self.cluster_id,
            self._bootstrap_records,
            apply_delta=self.apply_delta,
        )

    def _keep_directories(self) -> None:
        if self.logs.has_several:
            self.keep_directories()

    def keep_directories(self) -> None:
        """From now on a directory may fail, replicas may move, and the controller hears where they are."""
        self.keeper = DirectoryKeeper(self.replicas, self.broker_settings, self)
        self.workers.append(self.keeper)

    def assign_directories(self, fields: Mapping[str, Any], on_answer: Callable[[Any | None], None]) -> None:
        """Tell the controller where replicas are."""
        from kafkatools.core.protocol import messages

        answer = None
        try:
            entity = messages.build(messages.request_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), fields)
            made = self.controller.assign_directories(entity)
            answer = messages.build(messages.response_type(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0), made)
        except KafkaError as error:
            self.note_failure(error)
        on_answer(answer)

    @property
    def directory_ids(self) -> list[uuid.UUID]:
        """The ids of the log directories that are online."""
        return [each.directory_id for each in self.logs.live if each.directory_id is not None]

    def release_directory(self, path: str) -> None:
        """Let another process have a log directory that failed."""
        if self._lock is not None:
            self._lock.release(path)

    def directory_failed(self, directory: LogDirectory) -> None:
        """A log directory is offline: nobody leads what lies there."""
        if directory.directory_id is not None:
            self.controller.directory_failed(directory.directory_id)

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """These directories get no new replicas; on a node of its own that is the node's own affair."""

    def fail(self, error: KafkaError) -> None:
        """This node cannot go on."""
        raise error

    def _open_replicas(self) -> None:
        self.authorizer = open_authorizer(self.config, self.image.acls)
        self.quotas = Quotas(self.image.client_quotas, self.config, self.clock)
        self.replicas = self._make_replicas()
        self.coordination = Coordination(self._host(), lambda: self.producer_ids.next_id())
        if self.config.log_cleaner_enable and self.config.log_cleaner_threads > 0:
            self.cleaner = LogCleaner(self.logs, self.config, self.clock, self.listener.wakeup, self.note_failure)

    def _make_replicas(self) -> ReplicaManager:
        commits = None
        if self.config.log_durability == "fsync":
            commits = GroupCommit(self.clock, self.listener.wakeup, self._note_commit, self.note_failure)
        around = Surroundings(
            self.fetch_purgatory,
            self.produce_purgatory,
            self.broker_settings.effective,
            self.note_failure,
            deletes=self._deletes(),
            commits=commits,
            on_elected=lambda partition: self.coordination.on_elected(partition),
            on_resigned=lambda partition: self.coordination.on_resigned(partition),
            note_directory=self._note_directory,
        )
        return ReplicaManager(self.logs, self.image, self.node_id, self.clock, around, self._way_to_others())

    def _deletes(self) -> Purgatory | None:
        """Where DeleteRecords waits for followers; a node on its own has none."""
        return None

    def _way_to_others(self) -> Callable[[ReplicaManager], OtherBrokers] | None:
        """What ties replicas to those of other brokers."""
        return None

    def _note_directory(self, partition: Partition, state: PartitionState) -> None:
        if self.keeper is not None:
            self.keeper.note_directory(partition, state)

    def _host(self) -> Host:
        return Host(
            self.node_id,
            self.config,
            self.clock,
            self.timer,
            self.image,
            self.replicas,
            self.produce_purgatory,
            self._coordinator_channel(),
            self.create_topic,
            self.every,
            self.note_failure,
        )

    def _coordinator_channel(self) -> PeerChannel | None:
        return None

    def _begin(self) -> None:
        """Take up the partitions, and what is kept in them."""
        is_clean = self.logs.is_clean_start
        self._sole_voter.start(self.image.replay)
        self.controller.activate(
            self.image,
            self._sole_voter,
            self.clock.now_ms(),
            is_amid_transaction=self._log.has_open_transaction,
        )
        endpoints = [(self.settings.listener_name, self.advertised_host, self.advertised_port)]
        self._broker_epoch = self.controller.register_sole_broker(
            endpoints, self.directory_ids, new_epochs=not is_clean and not self._is_new
        )
        if self._is_new:
            self.controller.adopt_topics(self._topics_on_disk())
        self.producer_ids = ProducerIds(
            lambda on_block: on_block(self.controller.take_producer_ids(self.node_id, self.broker_epoch))
        )
        self.coordination.start()
        self.replicas.end_start()

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Let everybody here act on a change of the metadata."""
        self.replicas.apply_delta(delta)
        self.coordination.apply_delta(delta)

    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Make a topic that this broker itself needs; None while that is under way (never on a node of its own)."""
        return self.controller.create_topics([topic])[topic.name]

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self._broker_epoch

    @property
    def is_ready(self) -> bool:
        """Whether clients are served."""
        return True

    @property
    def controller_id(self) -> int:
        """The active controller, -1 when none is known."""
        leader = self.quorum.leader_id
        return -1 if leader is None else leader

    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]:
        """The voters of the quorum, and where they listen."""
        return self.quorum.voters

    def is_controller_listener(self, name: str) -> bool:
        """Whether controllers are asked there."""
        return False

    def why_no_controller(self) -> str:
        """Why a change waits for the quorum; a quorum of one waits for nobody."""
        return ""

    @property
    def metadata_offset(self) -> int:
        """Offset behind the last metadata record that `image` holds."""
        return self._log.end_offset

    @property
    def groups(self) -> GroupCoordinator:
        """The group coordinator."""
        return self.coordination.group_coordinator

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transaction coordinator."""
        return self.coordination.transaction_coordinator

    @property
    def share_partitions(self) -> SharePartitionManager:
        """What share groups have under way."""
        return self.coordination.share_partitions

    def _bootstrap_records(self) -> list[Any]:
        path = f"{self.log_directory}/{BOOTSTRAP_CHECKPOINT}"
        return list(data_records(self.files.read_bytes(path))) if self.files.exists(path) else []

    def _topics_on_disk(self) -> dict[tuple[str, str], dict[int, int]]:
        """By name and id, as their directories have them, the next leader epoch of each partition. When the metadata
        log is gone, they become topics again."""
        found: dict[tuple[str, str], dict[int, int]] = {}
        for name, directory in self.logs.partition_paths():
            path = f"{directory}/{PARTITION_METADATA}"
            if self.files.exists(path):
                topic_id = read_partition_metadata(self.files, path).topic_id
                found.setdefault((name.topic, topic_id), {})[name.partition] = self._next_epoch(directory)
        return found

    def _next_epoch(self, directory: str) -> int:
        from kafkatools.core.log.format.filenames import LEADER_EPOCH_CHECKPOINT
        from kafkatools.core.log.format.leader_epochs import LeaderEpochCache

        epochs = LeaderEpochCache(self.files, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        epochs.load()
        return (epochs.latest_epoch if epochs.latest_epoch is not None else -1) + 1

    # -- periodic work ---------------------------------------------------------------------------------------------
    def _schedule_housekeeping(self) -> None:
        self.every(HOUSEKEEPING_MS, self._maybe_snapshot)
        self.every(HOUSEKEEPING_MS, self._limit_connections)
        self._keep_logs()

    def _keep_logs(self) -> None:
        """The periodic work on the logs, when they are open."""
        config = self.config
        self.every(HOUSEKEEPING_MS, lambda: self.logs.tasks.run_due(self.clock.wall_ms()))
        self.every(HOUSEKEEPING_MS, self.replicas.open_missing)
        self.every(config.log_retention_check_interval_ms, self._retention, config.log_initial_task_delay_ms)
        self.every(config.offsets_retention_check_interval_ms, self.coordination.expire_offsets)
        self.every(config.log_flush_offset_checkpoint_interval_ms, self.logs.checkpoint_recovery_points)
        self.every(config.log_flush_start_offset_checkpoint_interval_ms, self.logs.checkpoint_start_offsets)
        self.every(config.replica_high_watermark_checkpoint_interval_ms, self.logs.checkpoint_high_watermarks)
        if self.keeper is not None:
            self.every(HOUSEKEEPING_MS, self.keeper.look, 0)
        if self.cleaner is not None:
            self.every(max(1, config.log_cleaner_backoff_ms), self.cleaner.check)
        interval = config.producer_id_expiration_check_interval_ms
        self.every(interval, lambda: self.logs.remove_expired_producers(self.clock.wall_ms()))
        if config.log_flush_scheduler_interval_ms < LONG_MAX:
            self.every(config.log_flush_scheduler_interval_ms, lambda: self.logs.flush_due(self.clock.wall_ms()))

    def _maybe_snapshot(self) -> None:
        self._log.maybe_snapshot(lambda: image_records(self.image), self.clock.now_ms())

    def _limit_connections(self) -> None:
        """Apply changed settings and a changed number of nodes to the connection limits."""
        self.limits.configure(self.broker_settings.effective(), self._count_other_nodes())

    def _count_other_nodes(self) -> int:
        return 0

    def _retention(self) -> None:
        self.logs.cleanup(self.clock.wall_ms())

    def every(self, interval_ms: int, work: Callable[[], object], first_ms: int | None = None) -> None:
        """Do the work again and again; what fails is reported."""

        def run(now_ms: int) -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - boundary: a turn that fails is not the last one
                self.note_failure(error)
            self.timer.schedule(interval_ms, run, now_ms)

        self.timer.schedule(interval_ms if first_ms is None else first_ms, run, self.clock.now_ms())

    # -- the crank -------------------------------------------------------------------------------------------------
    def run_once(self, max_wait_ms: int = MAX_POLL_MS) -> int:
        """Wait for requests or timers at most so long and handle what came; gives the number of socket events."""
        now_ms = self.clock.now_ms()
        next_ms = self.timer.next_expiration_ms()
        for worker in self.workers:
            deadline_ms = worker.next_deadline_ms
            if deadline_ms is not None and (next_ms is None or deadline_ms < next_ms):
                next_ms = deadline_ms
        wait_ms = max_wait_ms if next_ms is None else max(0, min(max_wait_ms, next_ms - now_ms))
        if self.replicas.has_news:
            wait_ms = 0  # what the last turn has completed wrote something itself, which waits for the disk or a reader
        events = self.listener.poll(wait_ms, now_ms)
        if self.replicas.commits is not None:
            self.replicas.commits.turn()
        if self.cleaner is not None:
            self.cleaner.turn()
        self.replicas.complete_delayed()
        now_ms = self.clock.now_ms()
        self.timer.advance_to(now_ms)
        for worker in self.workers:
            worker.tick(now_ms)
        self.listener.maintain(now_ms)
        return events

    def _note_commit(self, partition: Partition) -> None:
        """What was appended to a partition is on the disk, or never will be."""
        self.replicas.note_high_watermark(partition)

    def run(self) -> None:
        """Serve until `request_stop`."""
        while not self.is_stopping:
            self.run_once()

    def request_stop(self) -> None:
        """Make `run` return; safe from a signal handler."""
        self.is_stopping = True
        self.listener.wakeup()

    # -- authorization ---------------------------------------------------------------------------------------------
    def authorize(self, request: Request, operation: int, resource_type: int, name: str) -> bool:
        """Whether the client behind a request may do an operation on a resource (AuthHelper.authorize); the numbers
        are those of `controller.acls`."""
        if self.authorizer is None:
            return True
        return self.authorizer.authorize(ANONYMOUS, request.connection.client_host, operation, resource_type, name)

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        """The same; raises the authorization error of the resource's type."""
        if not self.authorize(request, operation, resource_type, name):
            raise AUTHORIZATION_ERRORS[resource_type]()

    def authorize_any(self, request: Request, operation: int, resource_type: int) -> bool:
        """Whether the client may do an operation on any resource of a type (authorizeByResourceType)."""
        if self.authorizer is None:
            return True
        return self.authorizer.authorize_any(ANONYMOUS, request.connection.client_host, operation, resource_type)

    def authorized_operations(self, request: Request, resource_type: int, name: str) -> int:
        """The bits of all operations that the client may do on a resource."""
        return operations_field(
            operation
            for operation in OPERATIONS[resource_type]
            if self.authorize(request, operation, resource_type, name)
        )

    def note_failure(self, error: Exception) -> None:
        """Report what no client caused: a bug or the disk."""
        if not isinstance(error, KafkaError):
            self._reports.tell(f"{type(error).__name__}: {error}")
        elif isinstance(error, KafkaStorageError):
            self._reports.tell(str(error))

    def report_refusal(self, line: str) -> None:
        """Report a request that was refused; the same line at most once a minute."""
        self._reports.tell(line)

    def has_many_entries(self, count: int) -> bool:
        """Whether there are more than `count` partitions and groups together, so that listing them takes long."""
        if self._counted_offset != self.metadata_offset:
            self._counted_offset = self.metadata_offset
            self._partitions = sum(len(topic.partitions) for topic in self.image.topics.values())
        return self._partitions + len(self.groups.groups) > count

    def has_many_offsets(self, count: int) -> bool:
        """Whether groups have committed more than `count` offsets together, so that reading them takes long."""
        return self.groups.offsets.has_more_than(count)

    def fetches_many(self, request: Request) -> bool:
        """Whether a Fetch request belongs to a session with more partitions than are read at once."""
        sessions = self.fetch_sessions
        if not sessions.sessions:
            return False
        return sessions.has_many_partitions(session_id_of(request.frame[request.body_offset :], request.version))

    @property
    def bootstrap(self) -> str:
        """What clients connect to."""
        host = f"[{self.advertised_host}]" if ":" in self.advertised_host else self.advertised_host
        return f"{host}:{self.advertised_port}"

    def close(self) -> None:
        """Stop cleanly. Raises KafkaStorageError when the disk refuses a part of it: everything is closed then, and the
        next start recovers the logs."""
        if self._lock is None:
            return
        self.listener.close()
        if self.replicas.commits is not None:
            self.replicas.commits.close()
        if self.cleaner is not None:
            self.cleaner.close()
        failures: list[Exception] = []
        try:
            # The marker of a clean stop covers the metadata log too, so that log must be durable first.
            for part in (self._close_metadata, lambda: self._close_logs(is_clean=not failures)):
                try:
                    part()
                except (OSError, KafkaStorageError) as error:
                    failures.append(error)
        finally:
            self._lock.release()
            self._lock = None
        if failures:
            raise KafkaStorageError(
                f"The stop of node {self.node_id} is not clean, its next start recovers the logs: {failures[0]}"
            )

    def _close_logs(self, *, is_clean: bool) -> None:
        self.logs.close(self.broker_epoch, is_clean=is_clean)

    def _close_metadata(self) -> None:
        self._metadata_log.close()


def single_node_config(directory: str, host: str, port: int, overrides: dict[str, str] | None = None) -> Config:
    """The settings of a sandbox: node 1 on `host:port`, everything else Kafka's defaults unless overridden."""
    values: dict[str, object] = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{port}",
        "log.dirs": directory,
    }
    return Config(tables.BROKER, {**values, **(overrides or {})})


if TYPE_CHECKING:

    def _contexts(
        node: Node,
    ) -> tuple[
        contexts.ChangeContext,
        contexts.ClusterContext,
        contexts.GroupContext,
        contexts.LogDirContext,
        contexts.MetadataContext,
        contexts.ProduceContext,
        contexts.QuorumContext,
        contexts.ReadContext,
        contexts.ShareContext,
        contexts.TransactionContext,
    ]:
        """A node is the context of every handler: handlers are found by name, so the type checker sees it here."""
        return node, node, node, node, node, node, node, node, node, node
