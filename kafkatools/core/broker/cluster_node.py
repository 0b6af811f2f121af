"""A node of several: broker, controller, or both (Kafka's KafkaRaftServer, BrokerServer and ControllerServer).

Rules: the metadata goes one way: raft commits records, they are replayed into `image`, the delta is applied by whoever
holds partitions, groups or transactions. Before the metadata has reached this broker's registration nothing of it is
applied. Clients are refused until this broker has applied the record that unfences it: an earlier Metadata response
would not include it, and would have no brokers at all while all are fenced. librdkafka then forgets every address, the
bootstrap servers too. The controller of this node decides against an image of its own while its
node leads the quorum. What ends a node is kept in `failure` and raised by `run`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.farewell import Farewell
from kafkatools.core.broker.metadata.cluster_settings import EndPoint, cluster_settings
from kafkatools.core.broker.metadata.controller.controller import Controller
from kafkatools.core.broker.metadata.controller.registrations import supported_features
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.controller_registration import ControllerRegistration
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.lifecycle import BrokerLifecycle, Identity, State
from kafkatools.core.broker.metadata.metadata_follower import MetadataFollower
from kafkatools.core.broker.metadata.metadata_log import MetadataLog, SnapshotRules
from kafkatools.core.broker.metadata.producer_ids import PREFETCH_BELOW, ProducerIds, request_from_controller
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft import Raft
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.topic_creation import TopicCreation
from kafkatools.core.broker.node import Node
from kafkatools.core.broker.replicas.cluster import Cluster, ReplicationSettings
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.replication import Replication
from kafkatools.core.broker.server.cluster_dispatch import BrokerDispatcher, ControllerDispatcher
from kafkatools.core.broker.server.controller_link import ControllerLink
from kafkatools.core.broker.server.deferred import WaitingResponses
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.broker.server.peers import Address, Peers
from kafkatools.core.broker.server.purgatory import Purgatory
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, InconsistentClusterId, KafkaError, KafkaStorageError
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.filenames import partition_directory_name
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import uuid_text

if TYPE_CHECKING:
    from kafkatools.core.broker.apis import contexts
    from kafkatools.core.broker.apis.envelope import EnvelopeContext
    from kafkatools.core.broker.server.forwarding import Member, Refusing
    from kafkatools.core.protocol.entities import Entity, Fields

CONTROLLED_SHUTDOWN_MS = 30_000
RESIGN_MS = 1000
LOST_MS = 2000
PLAINTEXT_PROTOCOL = 0


class ClusterNode(Node):
    """See the module."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        files: FileSystem | None = None,
        report: Callable[[str], None] | None = None,
        random: Random | None = None,
    ) -> None:
        super().__init__(config, clock, files, report)
        self.cluster = cluster_settings(config, self.node_id)
        self.report = report or (lambda line: None)
        self.failure: KafkaError | None = None
        self.end_points: tuple[EndPoint, ...] = ()
        self.pending = WaitingResponses()
        self.raft: Raft
        self.link: ControllerLink
        self.lifecycle: BrokerLifecycle | None = None
        self.follower: MetadataFollower
        self._random = random or Random()  # noqa: S311 - when elections begin is no secret
        self._channels: list[Peers] = []
        self._strangers: set[int] = set()
        self._leaves_until_ms: int | None = None
        self._farewell: Farewell | None = None
        self._has_logs = False
        self._serves_clients = False

    # -- start -----------------------------------------------------------------------------------------------------
    def _open_listener(self) -> Listener:
        config, settings = self.config, self.cluster
        listener: Listener | None = None
        opened = []
        for point in settings.listeners:
            is_controller = point in settings.controller_listeners
            dispatch = ControllerDispatcher(self) if is_controller else BrokerDispatcher(self)
            address = (point.host, point.port)
            if listener is None:
                listener = Listener(
                    address,
                    dispatch,
                    name=point.name,
                    is_open=is_controller,
                    max_request_bytes=config.socket_request_max_bytes,
                    max_idle_ms=config.connections_max_idle_ms,
                    limits=self.limits,
                    schedule=self._schedule,
                )
                port = listener.port
            else:
                try:
                    port = listener.add_acceptor(point.name, address, dispatch, is_open=is_controller)
                except OSError:
                    listener.close()
                    raise
            shown = point.advertised_port or port
            opened.append(EndPoint(point.name, point.host, port, point.advertised_host, shown))
        assert listener is not None, "a node has a listener"
        clients = [point.name for point in settings.broker_listeners if point.name != settings.inter_broker_listener]
        for acceptor in listener.acceptors:
            acceptor.is_protected = bool(clients) and acceptor.name not in clients
            acceptor.is_protected |= self.is_controller_listener(acceptor.name)
        self.limits.configure(config, self._count_other_nodes())
        self.end_points = tuple(opened)
        return listener

    def _open_metadata(self) -> None:
        config, clock = self.config, self.clock
        metadata_log = MetadataLog(self.files, self.log_directory, SnapshotRules.of(config))
        metadata_log.open(clock.now_ms(), clock.wall_ms(), is_clean=self.logs.is_clean_start)
        metadata_log.log.on_storage_error = self.logs.listener_of(self.log_directory)
        self._metadata_log = metadata_log
        quorum = self.open_channel(
            "raft",
            self.cluster.voters.get,
            config.controller_quorum_request_timeout_ms,
            watch_answers=self._look_at_answer,
        )
        self.follower = MetadataFollower(self)
        self.raft = self.quorum = Raft(
            self.node_id,
            self.cluster.voters,
            RaftLog(metadata_log, clock.wall_ms),
            ElectionStore(self.files, metadata_log.directory, self.cluster.voters),
            quorum,
            RaftSettings.of(config, self.cluster_id, self.directory_id),
            self._random,
            self.follower,
        )
        controller_channel = self.open_channel("controller", self.cluster.voters.get)
        self._quorum_channel = quorum
        self.link = ControllerLink(controller_channel, clock, lambda: self.raft.leader_id, config.request_timeout_ms)
        self.controller = Controller(
            config,
            self.node_id,
            clock,
            self.cluster_id,
            self._bootstrap_records,
            lambda line: self.report(f"INFO {line}"),
        )
        self._coordinators = self.open_channel("coordinator")

    def open_channel(
        self,
        purpose: str,
        address_of: Callable[[int], Address | None] | None = None,
        timeout_ms: int | None = None,
        receive_buffer_bytes: int = -1,
        watch_answers: Callable[[int, Any], None] | None = None,
    ) -> Peers:
        """Connections to the other nodes for one kind of work; without `address_of` to the brokers."""
        peers = Peers(
            self.listener,
            self.clock,
            address_of or self.broker_address,
            client_id=f"{purpose}-{self.node_id}",
            request_timeout_ms=self.config.request_timeout_ms if timeout_ms is None else timeout_ms,
            receive_buffer_bytes=receive_buffer_bytes,
            note_failure=self.note_failure,
            watch_answers=watch_answers,
        )
        self._channels.append(peers)
        return peers

    def _replica_channel(self) -> Peers:
        """Kafka's default of 64 KiB makes a follower wait for every few batches: the size counts only when given."""
        name = "replica.socket.receive.buffer.bytes"
        given_bytes = self.config.replica_socket_receive_buffer_bytes if self.config.is_given(name) else -1
        return self.open_channel("replica", timeout_ms=self._fetch_timeout_ms, receive_buffer_bytes=given_bytes)

    def broker_address(self, broker_id: int, listener_name: str | None = None) -> Address | None:
        """Where a broker listens; without a name, for other brokers."""
        broker = self.image.brokers.get(broker_id)
        wanted = listener_name or self.cluster.inter_broker_listener
        for name, host, port in () if broker is None else broker.endpoints:
            if name == wanted:
                return host, port
        return None

    def _begin(self) -> None:
        self.replicas.end_start()
        self.topic_creation = TopicCreation(self.node_id, self.image, self.link, self.config.request_timeout_ms)
        self.producer_ids = ProducerIds(self._request_producer_ids, PREFETCH_BELOW)
        self.coordination.start()
        self.workers += [*self._channels, self.link, self.replication, self.controller, self.raft, self.follower]
        if self.cluster.is_broker:
            self.lifecycle = self._open_lifecycle()
            self.workers.append(self.lifecycle)
        if self.cluster.is_controller:
            listeners = self._told_listeners({point.name for point in self.cluster.controller_listeners})
            self.workers.append(
                ControllerRegistration(self.node_id, self.image, self.link, listeners, supported_features)
            )
        self.raft.start(self.clock.now_ms())

    def _request_producer_ids(self, on_block: Callable[[range], None]) -> None:
        fields = {"broker_id": self.node_id, "broker_epoch": self.broker_epoch}
        request_from_controller(self.link, fields, on_block)

    def _told_listeners(self, names: set[str]) -> list[Fields]:
        """Where this node listens under these names, as registrations say it."""
        return [
            {
                "name": point.name,
                "host": point.advertised_host,
                "port": point.advertised_port,
                "security_protocol": PLAINTEXT_PROTOCOL,
            }
            for point in self.end_points
            if point.name in names
        ]

    @property
    def _fetch_timeout_ms(self) -> int:
        return int(self.config.replica_socket_timeout_ms)

    def _coordinator_channel(self) -> Peers:
        return self._coordinators

    def _deletes(self) -> Purgatory:
        return Purgatory("DeleteRecords", self.timer)

    def _way_to_others(self) -> Callable[[ReplicaManager], Replication]:
        return self._join

    def _join(self, replicas: ReplicaManager) -> Replication:
        """Let replicas lead and follow. Their channel carries fetches only: they wait at the other side."""
        cluster = Cluster(
            self.node_id,
            self.image,
            self.clock,
            self._replica_channel(),
            self.link,
            lambda: self.broker_epoch,
            self._schedule,
            self._limit_of,
            self.note_failure,
        )
        self.replication = Replication(replicas, cluster, ReplicationSettings.of(self.config))
        return self.replication

    def _limit_of(self, name: str) -> int | None:
        """A throttle's rate as it is set now."""
        settings = self.broker_settings
        text = settings.dynamic().get(name, settings.dynamic_default().get(name))
        return None if text is None else int(text)

    def _open_lifecycle(self) -> BrokerLifecycle:
        identity = Identity(
            self.node_id,
            self.cluster_id,
            self._told_listeners({point.name for point in self.cluster.broker_listeners}),
            supported_features(),
            self.directory_ids,
            self.cluster.rack,
            self.logs.last_broker_epoch,
        )
        return BrokerLifecycle(
            identity,
            self.link,
            self.clock,
            lambda: self.metadata_offset,
            heartbeat_interval_ms=self.config.broker_heartbeat_interval_ms,
            registration_timeout_ms=self.config.initial_broker_registration_timeout_ms,
            on_caught_up=self._caught_up,
            on_running=self.maybe_serve_clients,
            on_failure=self.fail,
            is_hopeless=self.has_no_majority,
            report=self.report,
        )

    def _caught_up(self) -> None:
        """The metadata is as new as this broker's registration: take up the partitions."""
        try:
            self._put_strays_aside()
        except (OSError, KafkaStorageError) as error:
            self.fail(KafkaStorageError(f"Partitions that are no replicas of this broker cannot be put aside: {error}"))
            return
        self.follower.publish_first(self._ask_to_be_unfenced)
        self.producer_ids.prefetch()

    def _put_strays_aside(self) -> None:
        """Partitions that were deleted or moved away while this broker was down."""
        for directory in self.logs.live:
            for name in directory.partitions():
                topic = self.image.topics.get(name.topic)
                state = None if topic is None else topic.partitions.get(name.partition)
                if state is None or self.node_id not in state.replicas:
                    path = directory.path_of(partition_directory_name(*name))
                    directory.run(partial(directory.put_aside, path))
                    directory.residents.discard(name)
                    self.report(f"WARN {path} is no replica of this broker any more: kept as a stray")

    def _ask_to_be_unfenced(self) -> None:
        self._has_logs = True
        super()._keep_logs()
        if self.lifecycle is not None:
            self.lifecycle.may_be_unfenced()

    def maybe_serve_clients(self) -> None:
        """Accept clients once this broker is unfenced and has applied the record that unfences it. The controller's
        heartbeat response may arrive before that record, so both conditions are checked."""
        if self._serves_clients or self.lifecycle is None or self.lifecycle.state is not State.RUNNING:
            return
        broker = self.image.brokers.get(self.node_id)
        if broker is None or broker.is_fenced or broker.epoch != self.broker_epoch or not self.follower.has_applied_all:
            return
        self._serves_clients = True
        self.listener.open_acceptors()

    def _count_other_nodes(self) -> int:
        brokers = self.image.brokers if hasattr(self, "image") else ()
        return len({*self.cluster.voters, *brokers} - {self.node_id})

    # -- what it knows ---------------------------------------------------------------------------------------------
    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return -1 if self.lifecycle is None else self.lifecycle.epoch

    @property
    def is_ready(self) -> bool:
        """Whether this broker is in the cluster and serves clients; a controller, whether the quorum has a leader."""
        if self.lifecycle is None:
            return self.raft.leader_id is not None
        return self._serves_clients and self.lifecycle.state is State.RUNNING

    def is_controller_listener(self, name: str) -> bool:
        """Whether the quorum and the controller are asked there."""
        return any(point.name == name for point in self.cluster.controller_listeners)

    @property
    def metadata_offset(self) -> int:
        """Offset behind the last metadata record that `image` holds."""
        return self.follower.offset

    def _lost_voters(self) -> list[int]:
        """Those to whom a connection failed lately: without a leader they are asked again and again."""
        others = [voter for voter in sorted(self.cluster.voters) if voter != self.node_id]
        return [voter for voter in others if self._quorum_channel.connection_error(voter, LOST_MS)]

    def has_no_majority(self) -> bool:
        """Whether so many voters are gone that nothing can be decided."""
        count = len(self.cluster.voters)
        return 2 * (count - len(self._lost_voters())) <= count

    def why_no_controller(self) -> str:
        """Who of the quorum is not there, for who waits for a change."""
        lost = self._lost_voters()
        count, leader = len(self.cluster.voters), self.raft.leader_id
        without = f"there is no connection to {', '.join(map(str, lost))} of it"
        if self.has_no_majority():
            return f"the quorum of {count} controllers has no majority, {without}"
        if leader is not None:
            return f"the active controller, node {leader}, did not commit it in time"
        return f"the quorum of {count} controllers has no leader" + (f", {without}" if lost else "")

    def why_no_answer(self) -> str:
        """The reason for an error message: why the outcome of a change that was sent to the controller is not known."""
        lost = self._lost_voters()
        gone = f", there is no connection to {', '.join(map(str, lost))} of the quorum" if lost else ""
        return f"the controller that was asked did not answer{gone}"

    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Make a topic that this broker itself needs; None while the controller is asked."""
        return self.topic_creation.create(topic)

    def _keep_logs(self) -> None:
        """Not before they are open: checkpoints of no logs would replace those of all."""

    def _close_logs(self, *, is_clean: bool) -> None:
        if self._has_logs:
            super()._close_logs(is_clean=is_clean)
        else:
            self.logs.abandon(is_clean=is_clean)

    def _maybe_snapshot(self) -> None:
        self.raft.log.maybe_snapshot(lambda: image_records(self.image), self.clock.now_ms())

    # -- log directories ------------------------------------------------------------------------------------------
    def _keep_directories(self) -> None:
        if self.cluster.is_broker:
            self.keep_directories()

    def assign_directories(self, fields: Mapping[str, Any], on_answer: Callable[[Any | None], None]) -> None:
        """Tell the controller where replicas are."""
        self.link.send(ApiKey.ASSIGN_REPLICAS_TO_DIRS, fields, on_answer)

    def directory_failed(self, directory: LogDirectory) -> None:
        """The controller hears of it at once, and lets others lead."""
        if self.lifecycle is not None and directory.directory_id is not None:
            self.lifecycle.offline_log_dirs.append(directory.directory_id)
            self.lifecycle.ask_now()
            limit_ms, failed = self.config.log_dir_failure_timeout_ms, directory.directory_id
            self.timer.schedule(limit_ms, lambda now_ms: self._ensure_told(failed), self.clock.now_ms())

    def _ensure_told(self, directory_id: uuid.UUID) -> None:
        """log.dir.failure.timeout.ms: who cannot tell of a directory that failed does not go on: he may lead there."""
        broker = self.image.brokers.get(self.node_id)
        if broker is not None and directory_id in broker.log_dirs:
            shown = uuid_text(directory_id)
            words = f"Shutting down because couldn't communicate offline log dir {shown} with controllers"
            self.fail(KafkaStorageError(words))

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """The controller hears of it with the next heartbeat."""
        if self.lifecycle is not None:
            self.lifecycle.cordoned_log_dirs = directory_ids

    # -- faults ----------------------------------------------------------------------------------------------------
    def _look_at_answer(self, node_id: int, answer: Entity) -> None:
        if answer.error_code == InconsistentClusterId.code:
            self.note_stranger(node_id)

    def note_stranger(self, node_id: int) -> None:
        """A member of the quorum is of another cluster; when most say so, it is this one."""
        if node_id in self._strangers:
            return
        self._strangers.add(node_id)
        if 2 * len(self._strangers) > len(self.cluster.voters):
            self.fail(
                ConfigError(
                    f"{self.log_directory} is of the cluster {self.cluster_id}, but the controllers of "
                    f"controller.quorum.voters are of another"
                )
            )
        else:
            self.report(f"WARN controller {node_id} is of another cluster than {self.cluster_id}")

    def fail(self, error: KafkaError) -> None:
        """This node cannot go on."""
        if self.failure is None:
            self.failure = error
        self.request_stop()

    # -- the crank -------------------------------------------------------------------------------------------------
    def run(self) -> None:
        """Serve until `request_stop`, then leave the cluster. Raises what ended the node."""
        while not self.is_stopping:
            self.run_once()
        self.begin_leaving()
        while not self.has_left:
            self.run_once()
        if self.failure is not None:
            raise self.failure

    def begin_leaving(self) -> None:
        """Controlled shutdown: hand over the leaderships, then that of the quorum. A node whose disk failed cannot."""
        if self.failure is None and self.lifecycle is not None and self.config.controlled_shutdown_enable:
            self.lifecycle.begin_controlled_shutdown(CONTROLLED_SHUTDOWN_MS)

    @property
    def has_left(self) -> bool:
        """Whether there is nothing left to hand over; to be asked between turns."""
        if self.failure is not None:
            return self._has_said_farewell()
        is_broker_gone = self.lifecycle is None or self.lifecycle.is_gone or not self.config.controlled_shutdown_enable
        if not is_broker_gone:
            return False
        now_ms = self.clock.now_ms()
        if self._leaves_until_ms is None:
            self._leaves_until_ms = now_ms + RESIGN_MS
            self.raft.shut_down(now_ms)
        return self.raft.is_shut_down or now_ms >= self._leaves_until_ms or self.has_no_majority()

    def _has_said_farewell(self) -> bool:
        if not isinstance(self.failure, KafkaStorageError):
            return True  # it was not let into the cluster
        if self._farewell is None:
            self._farewell = Farewell(self)
        return self._farewell.is_over

    def run_once(self, max_wait_ms: int = 1000) -> int:
        """One turn."""
        if self._leaves_until_ms is not None or self._farewell is not None:
            max_wait_ms = min(max_wait_ms, 20)
        return super().run_once(max_wait_ms)

    def close(self) -> None:
        """Stop here and now; what was begun by `begin_leaving` is the polite way."""
        if self._lock is not None:
            for channel in self._channels:
                channel.close()
        super().close()


if TYPE_CHECKING:

    def _contexts(
        node: ClusterNode, refusing: Refusing
    ) -> tuple[
        contexts.ControllerContext,
        contexts.RaftContext,
        EnvelopeContext,
        Member,
        contexts.ChangeContext,
        contexts.QuorumContext,
    ]:
        """What handlers and forwarding take; handlers are found by name, so the type checker sees it here."""
        return node, node, node, node, refusing, refusing
