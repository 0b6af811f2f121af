"""A node: creates the parts of a broker and a controller and runs their turns (Kafka's KafkaRaftServer).

Rules: everything runs on the thread that calls `run_once`. `member` has the difference between a node alone and one of
several. A start that fails leaves the directory unchanged and unlocked. `close` stops cleanly: it ends the requests,
flushes and closes the logs and writes the marker. A node that was killed recovers its logs on the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from kafkatools.core import config as tables
from kafkatools.core.broker.coordinators.coordination import Coordination
from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.membership import Home, Worker
from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.cluster_settings import cluster_settings, is_clustered, settings_alone
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.formatter import read_bootstrap_records
from kafkatools.core.broker.metadata.image import (
    INTERNAL_TOPICS,
    MetadataDelta,
    MetadataImage,
    PartitionState,
    TopicState,
)
from kafkatools.core.broker.metadata.metadata_log import MetadataLog, SnapshotRules
from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.broker.metadata.sliced_changes import SlicedChanges
from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper
from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache, session_id_of
from kafkatools.core.broker.replicas.group_commit import GroupCommit
from kafkatools.core.broker.replicas.log_cleaner import LogCleaner
from kafkatools.core.broker.replicas.log_directories import NodeDirectories
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager, Surroundings
from kafkatools.core.broker.server.authorizer import Authorizing, open_authorizer
from kafkatools.core.broker.server.channels import Quorum
from kafkatools.core.broker.server.connection_limits import ConnectionLimits, descriptor_limit, max_log_files
from kafkatools.core.broker.server.dispatch import Dispatcher
from kafkatools.core.broker.server.failure_reports import FailureReports
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.node_listener import bound_end_points, open_listener
from kafkatools.core.broker.server.node_settings import node_settings
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.quotas import Quotas
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.broker.server.timer import Timer, TimerTask
from kafkatools.core.broker.sole_member import SoleMember
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.broker.apis import contexts
    from kafkatools.core.broker.apis.envelope import EnvelopeContext
    from kafkatools.core.broker.cluster_member import ClusterMember
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager
    from kafkatools.core.broker.server.controller_link import ControllerLink
    from kafkatools.core.broker.server.deferred import WaitingResponses
    from kafkatools.core.broker.server.forwarding import Member, Refusing

MAX_POLL_MS = 1000
HOUSEKEEPING_MS = 1000
LONG_MAX = 2**63 - 1


class Node(Authorizing):
    """A broker, a controller or both, alone or in a cluster of several.

    The broker acts on `image` and `broker_settings`; `controller` changes the metadata; `member` is its membership.
    """

    metadata_log: MetadataLog
    image: MetadataImage
    broker_settings: BrokerSettings
    controller: Controller
    member: SoleMember | ClusterMember
    listener: Listener
    quotas: Quotas
    replicas: ReplicaManager
    coordination: Coordination

    def __init__(
        self,
        config: Config,
        clock: Clock,
        files: FileSystem | None = None,
        report: Callable[[str], None] = lambda line: None,
        random: Random | None = None,
    ) -> None:
        """Create a node that is not started. `random` spreads the times of elections. Raises ConfigError."""
        self.config = config
        self.clock = clock
        descriptors = descriptor_limit()
        self.files = files or RealFileSystem(max_log_files(descriptors))
        self.settings = node_settings(config)
        self.node_id = self.settings.node_id
        several = is_clustered(config)
        self.cluster = cluster_settings(config, self.node_id) if several else settings_alone(self.settings)
        self.log_directory = self.settings.log_directory
        self.cluster_id = ""
        self.is_stopping = False
        self.advertised_host = self.settings.advertised_host
        self.advertised_port = self.settings.advertised_port
        self.fetch_max_bytes: int = config.fetch_max_bytes
        self.timer = Timer(clock.now_ms(), self.note_failure)
        self.fetch_purgatory = Purgatory("Fetch", self.timer)
        self.produce_purgatory = Purgatory("Produce", self.timer)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self.report = report
        self._reports = FailureReports(clock, report)
        self.report_refusal = self._reports.report
        self.limits = ConnectionLimits(descriptors, getattr(self.files, "max_open_files", 0), report)
        self._lock: NodeDirectories | None = None
        self.logs = LogManager(self.files, *self.settings.log_directories, report=self._reports.report)
        self.cleaner: LogCleaner | None = None
        self.keeper: DirectoryKeeper | None = None
        self._changes = SlicedChanges(self.apply_delta, lambda: self.image)
        self.workers: list[Worker] = [self._changes]
        self._random = random
        self._has_logs = False
        self._counted_offset = -1
        self._partitions = 0

    # -- start -----------------------------------------------------------------------------------------------------
    def start(self, *, format_if_needed: bool = False) -> None:
        """Lock the directories, read the metadata, recover the logs, listen. A node alone then serves clients. With
        `format_if_needed` unformatted directories are formatted first.

        A node of several serves clients when `is_ready`. Raises KafkaStorageError, ConfigError, OSError; the
        directories are then unlocked.
        """
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
        directories.report_to(self.logs)
        self.image = MetadataImage()
        self.broker_settings = BrokerSettings(self.config, self.image, self.node_id)
        self._limit_connections()
        self.listener = open_listener(self.config, self.cluster, self._dispatcher_of, self.limits, self.schedule)
        try:
            self.advertised_port = self.advertised_port or self.listener.port
            self.logs.start()
            self.member = self._open_membership(directories)
            self._open_replicas()
            self.workers += self.member.start()
            self.coordination.start()
            self.replicas.end_start()
        except BaseException:
            self.listener.close()
            raise
        self.every(HOUSEKEEPING_MS, self.member.maybe_snapshot)
        self.every(HOUSEKEEPING_MS, self._limit_connections)

    def _dispatcher_of(self, listener_name: str) -> Dispatcher:
        if self.cluster.is_alone:
            return Dispatcher(self)
        from kafkatools.core.broker.server.cluster_dispatch import BrokerDispatcher, ControllerDispatcher

        return ControllerDispatcher(self) if self.is_controller_listener(listener_name) else BrokerDispatcher(self)

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> TimerTask:
        """Call `run` once, with the time in ms, after a delay; returns the task, which can be cancelled."""
        return self.timer.schedule(delay_ms, run, self.clock.now_ms())

    def _open_metadata_log(self) -> bool:
        """Open the metadata log, and return whether it was just created."""
        directory = self.logs.find_directory(self.log_directory)
        on_storage_error = None if directory is None else directory.on_storage_error
        rules = SnapshotRules.of(self.config)
        self.metadata_log = MetadataLog(self.files, self.log_directory, rules, on_storage_error=on_storage_error)
        now_ms, wall_ms = self.clock.now_ms(), self.clock.wall_ms()
        is_new = self.metadata_log.open(now_ms, wall_ms, is_clean=self.logs.is_clean_start)
        if self.cluster.is_alone and self.config.log_durability == "fsync":
            self.metadata_log.sync_every_append()
        return is_new

    def _open_membership(self, directories: NodeDirectories) -> SoleMember | ClusterMember:
        config, clock = self.config, self.clock
        is_new = self._open_metadata_log()
        self.controller = Controller(
            config,
            self.node_id,
            clock,
            self.cluster_id,
            lambda: read_bootstrap_records(self.files, self.log_directory),
            lambda line: self.report(f"INFO {line}"),
            self._changes.take,
        )
        home = Home(
            config,
            self.cluster,
            clock,
            self.files,
            directories,
            self.logs,
            self.metadata_log,
            self.image,
            self.broker_settings,
            self.controller,
            self.listener,
            bound_end_points(self.cluster, self.listener),
            self.schedule,
            self.apply_delta,
            self.keep_logs,
            self.request_stop,
            self.report,
            self.report_refusal,
            self.note_failure,
        )
        if self.cluster.is_alone:
            return SoleMember(home, (self.advertised_host, self.advertised_port), is_new=is_new)
        from kafkatools.core.broker.cluster_member import ClusterMember

        return ClusterMember(home, self._random or Random())  # noqa: S311 - when elections begin is no secret

    def _open_replicas(self) -> None:
        self.authorizer = open_authorizer(self.config, self.image.acls)
        self.quotas = Quotas(self.image.client_quotas, self.config, self.clock)
        self.replicas = self._make_replicas()
        host = Host(
            self.node_id,
            self.config,
            self.clock,
            self.timer,
            self.image,
            self.replicas,
            self.produce_purgatory,
            self.member.coordinators,
            self.member.create_topic,
            self.every,
            self.note_failure,
        )
        self.coordination = Coordination(host, lambda: self.producer_ids.next_id())
        if self.config.log_cleaner_enable and self.config.log_cleaner_threads > 0:
            self.cleaner = LogCleaner(self.logs, self.config, self.clock, self.listener.wakeup, self.note_failure)
        if self.logs.has_several or (self.cluster.is_broker and not self.cluster.is_alone):
            self.keeper = DirectoryKeeper(self.replicas, self.broker_settings, self, self.member)
            self.workers.append(self.keeper)

    def _make_replicas(self) -> ReplicaManager:
        commits = None
        if self.config.log_durability == "fsync":
            commits = GroupCommit(
                self.clock,
                self.listener.wakeup,
                lambda partition: self.replicas.note_high_watermark(partition),
                self.note_failure,
            )
        around = Surroundings(
            self.fetch_purgatory,
            self.produce_purgatory,
            self.broker_settings.effective,
            self.note_failure,
            deletes=None if self.cluster.is_alone else Purgatory("DeleteRecords", self.timer),
            commits=commits,
            on_elected=lambda partition: self.coordination.on_elected(partition),
            on_resigned=lambda partition: self.coordination.on_resigned(partition),
            note_directory=self._note_directory,
        )
        return ReplicaManager(self.logs, self.image, self.node_id, self.clock, around, self.member.join)

    def _note_directory(self, partition: Partition, state: PartitionState) -> None:
        if self.keeper is not None:
            self.keeper.note_directory(partition, state)

    def apply_delta(self, delta: MetadataDelta) -> None:
        """Apply a metadata change to replicas and coordinators."""
        self.replicas.apply_delta(delta)
        self.coordination.apply_delta(delta)

    def change_in_slices(self, pause: Callable[[], None], change: Callable[[], Response]) -> Response:
        """Make a metadata change and apply it in slices, with `pause` in between; then returns the response."""
        with self._changes.collect():
            response = change()
        self._changes.work_off(pause)
        return response

    def create_topic_later(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Create a topic, its partitions in later turns; returns it or the error, None while the controller works."""
        with self._changes.collect():
            return self.member.create_topic(topic)

    @property
    def is_alone(self) -> bool:
        """Return whether the cluster has this node only."""
        return self.cluster.is_alone

    def creates_partitions(self, api_key: int) -> bool:
        """Return whether requests of an API may create many partitions on this node before they are answered.

        FindCoordinator does until all topics of coordinators exist. A node of a cluster creates partitions later,
        between its turns (`MetadataFollower`).
        """
        if not self.cluster.is_alone:
            return False
        if api_key == ApiKey.FIND_COORDINATOR:
            return not self.image.topics.keys() >= INTERNAL_TOPICS
        return api_key in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS)

    # -- its cluster -----------------------------------------------------------------------------------------------
    @property
    def quorum(self) -> Quorum:
        """The KRaft quorum as this node sees it."""
        return self.member.quorum

    @property
    def _clustered(self) -> ClusterMember:
        """The membership in a cluster of several. The listeners of a node alone have no handler that asks for it."""
        assert not isinstance(self.member, SoleMember)
        return self.member

    @property
    def raft(self) -> Raft:
        """This node's member of the quorum, in a cluster of several."""
        return self._clustered.raft

    @property
    def link(self) -> ControllerLink:
        """The connection to the active controller, in a cluster of several."""
        return self._clustered.link

    @property
    def pending(self) -> WaitingResponses:
        """The responses that wait for the commit of metadata records, in a cluster of several."""
        return self._clustered.pending

    @property
    def producer_ids(self) -> ProducerIds:
        """The source of producer ids."""
        return self.member.producer_ids

    @property
    def failure(self) -> KafkaError | None:
        """The error that ended the node, None without one. A node alone raises the error instead."""
        return self.member.failure

    @property
    def is_ready(self) -> bool:
        """Return whether this broker is unfenced and serves clients; on a controller only, whether the quorum has a
        leader. A started node alone is always ready."""
        return self.member.is_ready

    @property
    def metadata_offset(self) -> int:
        """The offset behind the last metadata record in `image`."""
        return self.member.metadata_offset

    @property
    def controller_id(self) -> int:
        """The id of the active controller, -1 when it is unknown."""
        leader = self.quorum.leader_id
        return -1 if leader is None else leader

    @property
    def controllers(self) -> Mapping[int, tuple[str, int]]:
        """The (host, port) of each voter of the quorum by id."""
        return self.quorum.voters

    def is_controller_listener(self, name: str) -> bool:
        """Return whether a listener is for requests to the quorum and the controller."""
        return self.cluster.is_controller_listener(name)

    def no_controller_reason(self) -> str:
        """The reason why a metadata change was not committed in time, for its error message."""
        return self.member.no_controller_reason()

    def no_response_reason(self) -> str:
        """The reason why the outcome of a forwarded change is unknown, for its error message."""
        return self.member.no_response_reason()

    def release_directory(self, path: str) -> None:
        """Unlock a log directory that failed, so that another process can use it."""
        if self._lock is not None:
            self._lock.release(path)

    # -- its parts -------------------------------------------------------------------------------------------------
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
        """The share partitions that this broker leads, with their acquired records."""
        return self.coordination.share_partitions

    # -- periodic work ---------------------------------------------------------------------------------------------
    def keep_logs(self) -> None:
        """Begin the periodic work on the logs: retention, checkpoints, flushes, cleaning.

        The logs must be open: earlier checkpoints would replace those of all logs with empty ones.
        """
        self._has_logs = True
        config = self.config
        retention_ms, first_retention_ms = config.log_retention_check_interval_ms, config.log_initial_task_delay_ms
        self.every(HOUSEKEEPING_MS, lambda: self.logs.tasks.run_due(self.clock.wall_ms()))
        self.every(HOUSEKEEPING_MS, self.replicas.open_missing)
        self.every(retention_ms, lambda: self.logs.cleanup(self.clock.wall_ms()), first_retention_ms)
        self.every(config.offsets_retention_check_interval_ms, self.coordination.expire_offsets)
        self.every(config.log_flush_offset_checkpoint_interval_ms, self.logs.checkpoint_recovery_points)
        self.every(config.log_flush_start_offset_checkpoint_interval_ms, self.logs.checkpoint_start_offsets)
        self.every(config.replica_high_watermark_checkpoint_interval_ms, self.logs.checkpoint_high_watermarks)
        if self.keeper is not None:
            self.every(HOUSEKEEPING_MS, self.keeper.check, 0)
        if self.cleaner is not None:
            self.every(max(1, config.log_cleaner_backoff_ms), self.cleaner.check)
        interval = config.producer_id_expiration_check_interval_ms
        self.every(interval, lambda: self.logs.remove_expired_producers(self.clock.wall_ms()))
        if config.log_flush_scheduler_interval_ms < LONG_MAX:
            self.every(config.log_flush_scheduler_interval_ms, lambda: self.logs.flush_due(self.clock.wall_ms()))

    def _limit_connections(self) -> None:
        """Apply changed settings and a changed number of nodes to the connection limits."""
        others = {*self.cluster.voters, *self.image.brokers} - {self.node_id}
        self.limits.configure(self.broker_settings.effective(), len(others))

    def every(self, interval_ms: int, work: Callable[[], object], first_ms: int | None = None) -> None:
        """Call `work` every `interval_ms`, the first time after `first_ms` (None: `interval_ms`); errors are
        reported."""

        def run(now_ms: int) -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - boundary: a turn that fails is not the last one
                self.note_failure(error)
            self.timer.schedule(interval_ms, run, now_ms)

        self.timer.schedule(interval_ms if first_ms is None else first_ms, run, self.clock.now_ms())

    # -- the crank -------------------------------------------------------------------------------------------------
    def run_once(self, max_wait_ms: int = MAX_POLL_MS) -> int:
        """Wait at most `max_wait_ms` for requests or timers and handle them; returns the number of socket events."""
        now_ms = self.clock.now_ms()
        max_wait_ms = min(max_wait_ms, self.member.longest_wait_ms)
        next_ms = self.timer.next_expiration_ms()
        for worker in self.workers:
            deadline_ms = worker.next_deadline_ms
            if deadline_ms is not None and (next_ms is None or deadline_ms < next_ms):
                next_ms = deadline_ms
        wait_ms = max_wait_ms if next_ms is None else max(0, min(max_wait_ms, next_ms - now_ms))
        if self.replicas.has_news:
            wait_ms = 0  # responses of the last turn led to appends, which wait for the disk or have readers
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

    def run(self) -> None:
        """Serve until `request_stop`, then leave the cluster. Raises the error that ended the node."""
        while not self.is_stopping:
            self.run_once()
        self.member.begin_leaving()
        while not self.member.has_left:
            self.run_once()
        if self.failure is not None:
            raise self.failure

    def request_stop(self) -> None:
        """Make `run` return; safe from a signal handler."""
        self.is_stopping = True
        self.listener.wakeup()

    # -- reports ---------------------------------------------------------------------------------------------------
    def note_failure(self, error: Exception) -> None:
        """Report an error that no client caused: a bug (any exception but KafkaError) or a disk failure
        (KafkaStorageError). Other KafkaErrors are ignored."""
        if not isinstance(error, KafkaError):
            self._reports.report(f"{type(error).__name__}: {error}")
        elif isinstance(error, KafkaStorageError):
            self._reports.report(str(error))

    def has_many_entries(self, count: int) -> bool:
        """Return whether partitions and groups together are more than `count`, so that listing them takes long."""
        if self._counted_offset != self.metadata_offset:
            self._counted_offset = self.metadata_offset
            self._partitions = sum(len(topic.partitions) for topic in self.image.topics.values())
        return self._partitions + len(self.groups.groups) > count

    def has_many_offsets(self, count: int) -> bool:
        """Return whether all groups together have more than `count` committed offsets, which take long to read."""
        return self.groups.offsets.has_more_than(count)

    def fetches_many(self, request: Request) -> bool:
        """Return whether a Fetch request belongs to a session, of a consumer or a follower, with more partitions than
        are read at once."""
        sessions, replication = self.fetch_sessions, self.replicas.replication
        if not sessions.sessions and replication is None:
            return False
        session_id = session_id_of(request.frame[request.body_offset :], request.version)
        follows_many = replication is not None and replication.sessions.looks_at_many(session_id)
        return follows_many or sessions.has_many_partitions(session_id)

    @property
    def bootstrap(self) -> str:
        """The advertised address for clients, `host:port`."""
        host = f"[{self.advertised_host}]" if ":" in self.advertised_host else self.advertised_host
        return f"{host}:{self.advertised_port}"

    def close(self) -> None:
        """Close connections and logs and write the marker of a clean stop, without handing over leaderships. Does
        nothing if the node is not started. After a disk failure raises KafkaStorageError; then the next start recovers
        the logs."""
        if self._lock is None:
            return
        self.member.close()
        self.listener.close()
        if self.replicas.commits is not None:
            self.replicas.commits.close()
        if self.cleaner is not None:
            self.cleaner.close()
        failures: list[Exception] = []
        try:
            # The marker of a clean stop covers the metadata log too, so that log must be durable first.
            for part in (self.metadata_log.close, lambda: self._close_logs(is_clean=not failures)):
                try:
                    part()
                except (OSError, KafkaStorageError) as error:
                    failures.append(error)
        finally:
            self._lock.release()
            self._lock = None
        if failures:
            raise KafkaStorageError(
                f"Node {self.node_id} did not stop cleanly, its next start recovers the logs: {failures[0]}"
            )

    def _close_logs(self, *, is_clean: bool) -> None:
        if self._has_logs:
            self.logs.close(self.member.broker_epoch, is_clean=is_clean)
        else:
            self.logs.abandon(is_clean=is_clean)


def single_node_config(directory: str, host: str, port: int, overrides: dict[str, str] | None = None) -> Config:
    """The config of node 1 on `host:port`, broker and controller, with Kafka's defaults unless overridden."""
    values: dict[str, object] = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{host}:{port}",
        "log.dirs": directory,
    }
    return Config(tables.BROKER, {**values, **(overrides or {})})


if TYPE_CHECKING:

    def _contexts(
        node: Node, refusing: Refusing
    ) -> tuple[
        contexts.ChangeContext,
        contexts.ClusterContext,
        contexts.ControllerContext,
        contexts.LogDirContext,
        contexts.MetadataContext,
        contexts.ProduceContext,
        contexts.QuorumContext,
        contexts.RaftContext,
        contexts.ReadContext,
        contexts.ShareContext,
        contexts.TransactionContext,
        EnvelopeContext,
        Member,
        contexts.ChangeContext,
        contexts.QuorumContext,
    ]:
        """Let the type checker verify that a node fits all handlers, which are found by name, and `Refusing` those of
        changes."""
        return node, node, node, node, node, node, node, node, node, node, node, node, node, refusing, refusing
