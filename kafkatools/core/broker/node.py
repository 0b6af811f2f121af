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
from kafkatools.core.broker.metadata.producer_ids import ProducerIds
from kafkatools.core.broker.metadata.sliced_changes import SlicedChanges
from kafkatools.core.broker.node_setup import NodeResources, NodeSetup, open_resources
from kafkatools.core.broker.replicas.fetch_session import FetchSessionCache, session_id_of
from kafkatools.core.broker.replicas.group_commit import GroupCommit
from kafkatools.core.broker.replicas.log_cleaner import LogCleaner
from kafkatools.core.broker.replicas.log_tasks import LogTasks
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager, Surroundings
from kafkatools.core.broker.server.acceptor import Dispatch
from kafkatools.core.broker.server.apis import BROKER_APIS, with_unstable_versions, without_telemetry
from kafkatools.core.broker.server.authorizer import Authorizing, open_authorizer
from kafkatools.core.broker.server.channels import Quorum
from kafkatools.core.broker.server.connection_rates import address_rates
from kafkatools.core.broker.server.dispatch import Dispatcher
from kafkatools.core.broker.server.mutation_quotas import MutationQuotas
from kafkatools.core.broker.server.node_listener import add_acceptors, bound_end_points
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.broker.server.quotas import Quotas
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.broker.sole_member import SoleMember
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, KafkaStorageError

if TYPE_CHECKING:
    from kafkatools.core.broker.apis import contexts
    from kafkatools.core.broker.apis.envelope import EnvelopeContext
    from kafkatools.core.broker.cluster_member import ClusterMember
    from kafkatools.core.broker.coordinators.transactions.coordinator import TransactionCoordinator
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager
    from kafkatools.core.broker.security.listener_reload import ListenerReload
    from kafkatools.core.broker.security.sasl_dispatch import AuthenticatingDispatcher
    from kafkatools.core.broker.server.controller_link import ControllerLink
    from kafkatools.core.broker.server.deferred import WaitingResponses
    from kafkatools.core.broker.server.forwarding import Member, Refusing
    from kafkatools.core.broker.telemetry.client_metrics import ClientMetrics

MAX_POLL_MS = 1000
HOUSEKEEPING_MS = 1000
LEAST_EXPIRY_MS = 60_000
LONG_MAX = 2**63 - 1


class Node(Authorizing):
    """A broker, a controller or both, alone or in a cluster of several.

    The broker acts on `image` and `broker_settings`; `controller` changes the metadata; `member` is its membership.
    """

    def __init__(self, setup: NodeSetup, resources: NodeResources) -> None:
        """Create the parts of a node whose files and sockets are open. Raises ConfigError."""
        config, clock = setup.config, setup.clock
        self.config, self.clock, self.files, self.cluster = config, clock, setup.files, setup.cluster
        self.node_id, self.log_directory = setup.settings.node_id, setup.settings.log_directory
        self.fetch_max_bytes: int = config.fetch_max_bytes
        self.report, self.report_refusal = setup.report, setup.reports.report
        self.note_failure = setup.reports.note_failure
        self.timer, self._scheduler, self.limits = setup.timer, setup.scheduler, setup.limits
        self.directories, self.logs, self.metadata_log = resources.directories, resources.logs, resources.metadata_log
        self.cluster_id = resources.directories.cluster_id
        self.listener, self._sasl = resources.listener, setup.sasl
        self.end_points = bound_end_points(self.cluster, resources.sockets)
        self.advertised_host = setup.settings.advertised_host
        self.advertised_port = setup.settings.advertised_port or self.end_points[0].port
        self.is_stopping = self._is_closed = self._has_logs = False
        self._counted_offset = -1
        self._applied: tuple[Config, int] = (config, -1)
        self._partitions = 0
        self.fetch_purgatory = Purgatory("Fetch", self.timer)
        self.produce_purgatory = Purgatory("Produce", self.timer)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots)
        self.image = MetadataImage()
        self.broker_settings = BrokerSettings(config, self.image, self.node_id)
        self.authorizer = open_authorizer(config, self.image.acls)
        self.quotas = Quotas(self.image.client_quotas, config, clock)
        self.mutation_quotas = MutationQuotas(self.image.client_quotas, config, clock)
        self._client_metrics: ClientMetrics | None = None
        self._changes = SlicedChanges(self.apply_delta, self.image)
        self.controller = self._make_controller()
        self.member = self._make_member(setup.random, is_new=resources.is_new)
        self.replicas = self._make_replicas()
        self.coordination = Coordination(self._host(), lambda: self.producer_ids.next_id())
        self.cleaner = self._make_cleaner()
        self.keeper = self._make_keeper()
        keepers = [worker for worker in (self.keeper, self.cleaner) if worker is not None]
        log_tasks = LogTasks(self.logs.tasks, clock, self.note_failure)
        self.workers: tuple[Worker, ...] = (self._changes, *keepers, log_tasks, *self.member.workers)
        self._authenticators: dict[str, AuthenticatingDispatcher] = {}
        add_acceptors(self.listener, self.cluster, setup.security, setup.sasl, resources.sockets, self._dispatcher_of)
        self._reload = self._make_reload() if any(s.protocol != "PLAINTEXT" for s in setup.security.values()) else None

    # -- its parts -------------------------------------------------------------------------------------------------
    def _make_controller(self) -> Controller:
        return Controller(
            self.config,
            self.node_id,
            self.clock,
            self.cluster_id,
            lambda: read_bootstrap_records(self.files, self.log_directory),
            lambda line: self.report(f"INFO {line}"),
            self._changes.take,
        )

    def _dispatcher_of(self, listener_name: str) -> Dispatch:
        dispatch = self._dispatcher_behind(listener_name)
        if listener_name not in self._sasl:
            return dispatch
        from kafkatools.core.broker.security.image_credentials import ImageCredentials
        from kafkatools.core.broker.security.sasl_dispatch import AuthenticatingDispatcher, Surroundings

        credentials = ImageCredentials(self.image, self.clock, self.config)
        limit: int = self.config.socket_request_max_bytes
        around = Surroundings(credentials, self.clock, self._scheduler.schedule, self.report_refusal, limit)
        made = AuthenticatingDispatcher(dispatch, self._sasl[listener_name], around)
        self._authenticators[listener_name] = made
        return made

    def _make_reload(self) -> ListenerReload:
        from kafkatools.core.broker.security.listener_reload import ListenerReload

        points, acceptors = self.cluster.listeners, self.listener.acceptors
        return ListenerReload(self.config, points, acceptors, self._authenticators, self.clock, self.report_refusal)

    def _dispatcher_behind(self, listener_name: str) -> Dispatcher:
        apis = BROKER_APIS if self.config["client.metrics.file"] else without_telemetry(BROKER_APIS)
        apis = with_unstable_versions(apis) if self.config.unstable_api_versions_enable else apis
        if self.cluster.is_alone:
            return Dispatcher(self, apis)
        from kafkatools.core.broker.server.cluster_dispatch import BrokerDispatcher, ControllerDispatcher

        is_controller = self.is_controller_listener(listener_name)
        return ControllerDispatcher(self) if is_controller else BrokerDispatcher(self, apis)

    def _make_member(self, random: Random, *, is_new: bool) -> SoleMember | ClusterMember:
        """Create this node's membership; `is_new`: the metadata log was just created."""
        home = Home(
            self.config,
            self.cluster,
            self.clock,
            self.files,
            self.directories,
            self.logs,
            self.metadata_log,
            self.image,
            self.broker_settings,
            self.controller,
            self.listener,
            self.end_points,
            self._scheduler.schedule,
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

        return ClusterMember(home, random)

    def _host(self) -> Host:
        """The parts of this node that its coordinators use."""
        return Host(
            self.node_id,
            self.config,
            self.clock,
            self.timer,
            self.image,
            self.replicas,
            self.produce_purgatory,
            self.member.coordinators,
            self.member.create_topic,
            self._scheduler.every,
            self.note_failure,
        )

    def _make_cleaner(self) -> LogCleaner | None:
        if not self.config.log_cleaner_enable or self.config.log_cleaner_threads <= 0:
            return None
        return LogCleaner(
            self.logs, self.broker_settings.effective(), self.clock, self.listener.wakeup, self.note_failure
        )

    def _make_keeper(self) -> DirectoryKeeper | None:
        if not self.logs.has_several and (self.cluster.is_alone or not self.cluster.is_broker):
            return None
        from kafkatools.core.broker.replicas.directory_keeper import DirectoryKeeper

        return DirectoryKeeper(self.replicas, self.broker_settings, self, self.member)

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

    # -- start -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Read the metadata and begin the periodic work. A node alone recovers its logs and then serves clients; a node
        of several joins its cluster in the turns that follow, and serves clients when `is_ready`.

        Raises KafkaStorageError, ConfigError, OSError.
        """
        self._apply_settings()
        self.member.start()
        self.coordination.start()
        self.replicas.end_start()
        self._scheduler.every(HOUSEKEEPING_MS, self.member.maybe_snapshot)
        self._scheduler.every(HOUSEKEEPING_MS, self._apply_settings)
        check_ms: int = self.config.delegation_token_expiry_check_interval_ms
        self._scheduler.every(check_ms, self.controller.remove_expired_tokens)

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

    def creates_partitions(self) -> bool:
        """Return whether a FindCoordinator request may create many partitions on this node before it is answered.

        It may until all topics of coordinators exist. A node of a cluster creates partitions later, between its turns
        (`MetadataFollower`).
        """
        return self.cluster.is_alone and not self.image.topics.keys() >= INTERNAL_TOPICS

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
        self.directories.release(path)

    # -- its coordinators ------------------------------------------------------------------------------------------
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

    @property
    def client_metrics(self) -> ClientMetrics:
        """The clients that push metrics, if the node has a file for them."""
        if self._client_metrics is None:
            from kafkatools.core.broker.telemetry.delivery import client_metrics_of

            metrics = client_metrics_of(self.config, self.image, self.clock, self.note_failure)
            self._client_metrics = metrics
            self._scheduler.every(LEAST_EXPIRY_MS, metrics.remove_expired)
        return self._client_metrics

    # -- periodic work ---------------------------------------------------------------------------------------------
    def keep_logs(self) -> None:
        """Begin the periodic work on the logs: retention, checkpoints, flushes, cleaning.

        The logs must be open: earlier checkpoints would replace those of all logs with empty ones.
        """
        self._has_logs = True
        config, every, logs = self.config, self._scheduler.every, self.logs
        retention_ms, first_retention_ms = config.log_retention_check_interval_ms, config.log_initial_task_delay_ms
        every(HOUSEKEEPING_MS, self.replicas.open_missing)
        every(retention_ms, lambda: logs.cleanup(self.clock.wall_ms()), first_retention_ms)
        every(config.offsets_retention_check_interval_ms, self.coordination.expire_offsets)
        every(config.log_flush_offset_checkpoint_interval_ms, logs.checkpoint_recovery_points)
        every(config.log_flush_start_offset_checkpoint_interval_ms, logs.checkpoint_start_offsets)
        every(config.replica_high_watermark_checkpoint_interval_ms, logs.checkpoint_high_watermarks)
        if self.keeper is not None:
            every(HOUSEKEEPING_MS, self.keeper.check, 0)
        if self.cleaner is not None:
            self.cleaner.begin()
        interval = config.producer_id_expiration_check_interval_ms
        every(interval, lambda: logs.remove_expired_producers(self.clock.wall_ms()))
        if config.log_flush_scheduler_interval_ms < LONG_MAX:
            every(config.log_flush_scheduler_interval_ms, lambda: logs.flush_due(self.clock.wall_ms()))

    def _apply_settings(self) -> None:
        """Apply dynamic settings to the parts that keep their values, and a changed number of nodes to the connection
        limits."""
        config = self.broker_settings.effective()
        self.groups.configure(config)
        if self.cleaner is not None:
            self.cleaner.configure(config)
        self._applied = (config, self.image.client_quotas.version)
        others = {*self.quorum.voters, *self.image.brokers} - {self.node_id}
        rates = address_rates(self.image.client_quotas)
        self.limits.configure(config, len(others), rates)

    def _maybe_apply_settings(self) -> None:
        """Apply dynamic settings and quotas of connections if they have changed since the last turn."""
        config, version = self._applied
        if self._reload is not None:
            self._reload.maybe_apply(self.image.broker_config_changes, self.broker_settings.effective)
        if self.broker_settings.effective() is not config or self.image.client_quotas.version != version:
            self._apply_settings()

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
        self._maybe_apply_settings()
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
        nothing when called again. After a disk failure raises KafkaStorageError; then the next start recovers
        the logs."""
        if self._is_closed:
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
            self.directories.release()
            self._is_closed = True
        if failures:
            raise KafkaStorageError(
                f"Node {self.node_id} did not stop cleanly, its next start recovers the logs: {failures[0]}"
            )

    def _close_logs(self, *, is_clean: bool) -> None:
        if self._has_logs:
            self.logs.close(self.member.broker_epoch, is_clean=is_clean)
        else:
            self.logs.abandon(is_clean=is_clean)


def start_node(setup: NodeSetup, *, format_if_needed: bool = False) -> Node:
    """Start a node: lock its directories, bind its listeners, create its parts, read the metadata, recover the logs.
    With `format_if_needed` unformatted directories are formatted first.

    A node of several serves clients when `is_ready`. After an error the sockets are closed and the directories
    unlocked. Raises KafkaStorageError, ConfigError, OSError.
    """
    with open_resources(setup, format_if_needed=format_if_needed) as resources:
        node = Node(setup, resources)
        node.start()
    return node


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
        contexts.TelemetryContext,
        contexts.TransactionContext,
        EnvelopeContext,
        Member,
        contexts.ChangeContext,
        contexts.QuorumContext,
    ]:
        """Let the type checker verify that a node fits all handlers, which are found by name, and `Refusing` those of
        changes."""
        return node, node, node, node, node, node, node, node, node, node, node, node, node, node, refusing, refusing
