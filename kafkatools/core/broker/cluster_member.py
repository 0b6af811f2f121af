"""The membership of a node in a cluster of several, as broker, controller or both (Kafka's KafkaRaftServer,
BrokerServer and ControllerServer).

Rules: raft commits metadata records, they are replayed into the image, and replicas and coordinators apply the delta.
Nothing is applied before the metadata has reached this broker's registration. The broker refuses clients until it has
applied the record that unfences it. A Metadata response before that would lack this broker, and have no brokers at all
while all are fenced. After such a response librdkafka forgets every address, even its bootstrap servers. While this
node leads the quorum, its controller decides by an image of its own. An error that ends the node is kept in `failure`,
and `run` raises it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any

from kafkatools.core.broker.membership import Home, Worker
from kafkatools.core.broker.metadata.controller.partition_change import DIRECTORIES_SINCE
from kafkatools.core.broker.metadata.controller.registrations import supported_features
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.controller_registration import ControllerRegistration
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.metadata.image_records import image_records
from kafkatools.core.broker.metadata.lifecycle import BrokerLifecycle, Identity, State
from kafkatools.core.broker.metadata.metadata_follower import MetadataFollower
from kafkatools.core.broker.metadata.producer_ids import PREFETCH_BELOW, ProducerIds, request_from_controller
from kafkatools.core.broker.metadata.quorum import failed_member
from kafkatools.core.broker.metadata.quorum.election_store import ElectionStore
from kafkatools.core.broker.metadata.quorum.raft import Raft
from kafkatools.core.broker.metadata.quorum.raft_log import RaftLog
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint as QuorumEndPoint
from kafkatools.core.broker.metadata.topic_creation import TopicCreation
from kafkatools.core.broker.replicas.cluster import Cluster, ReplicationSettings
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.replication import Replication
from kafkatools.core.broker.security.listener_security import PROTOCOLS
from kafkatools.core.broker.security.peer_settings import peer_settings
from kafkatools.core.broker.server.alive_brokers import endpoint
from kafkatools.core.broker.server.controller_link import ControllerLink
from kafkatools.core.broker.server.deferred import WaitingResponses
from kafkatools.core.broker.server.peers import Address, Peers
from kafkatools.core.errors import ConfigError, InconsistentClusterId, KafkaError, KafkaStorageError
from kafkatools.core.log.format.filenames import partition_directory_name
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.uuids import uuid_text

CONTROLLED_SHUTDOWN_MS = 30_000
RESIGN_MS = 1000
LOST_MS = 2000
FAREWELL_MS = 4000
MAX_WAIT_MS, LEAVING_WAIT_MS = 1 << 62, 20


class ClusterMember:
    """A node's part in a cluster of several: raft, registration, connections. `random` spreads election times."""

    def __init__(self, home: Home, random: Random) -> None:
        self._home = home
        self.node_id, self.clock, self.image = home.cluster.node_id, home.clock, home.image
        self.controller, self.listener = home.controller, home.listener
        self.apply_delta, self.report_refusal = home.apply_delta, home.report_refusal
        self.note_failure = home.note_failure
        self.failure: KafkaError | None = None
        self.pending = WaitingResponses()
        self.cluster = home.cluster
        self._channels: list[Peers] = []
        self._replication: list[Worker] = []
        self._strangers: set[int] = set()
        self._leaves_until_ms: int | None = None
        self._farewell: _Farewell | None = None
        self._serves_clients = False
        config = home.config
        names = [name.upper() for name in config.controller_listener_names]
        self._to_controllers = peer_settings(config, names[0], "sasl.mechanism.controller.protocol")
        to_brokers = (config, home.cluster.inter_broker_listener, "sasl.mechanism.inter.broker.protocol")
        self._to_brokers = peer_settings(*to_brokers) if home.cluster.is_broker else {}

        def check_response(node_id: int, response: Entity) -> None:
            if response.error_code == InconsistentClusterId.code:
                self.note_stranger(node_id)

        timeout_ms = config.controller_quorum_request_timeout_ms
        self._quorum_channel = self._open_channel(
            "raft", self._controller_address, timeout_ms, check_response=check_response
        )
        self.follower = MetadataFollower(self, is_broker=home.cluster.is_broker)
        self.raft = self.quorum = self._make_raft(random)
        channel = self._open_channel("controller", self._controller_address)
        self.link = ControllerLink(channel, self.clock, lambda: self.raft.leader_id, config.request_timeout_ms)
        self.topic_creation = TopicCreation(self.node_id, self.image, self.link, config.request_timeout_ms)
        self.producer_ids = ProducerIds(self._request_producer_ids, PREFETCH_BELOW)
        self.coordinators = self._open_channel("coordinator")
        self.lifecycle = self._make_lifecycle() if self.cluster.is_broker else None
        is_controller = self.cluster.is_controller
        self._controller_registration = self._make_controller_registration() if is_controller else None

    # -- start -----------------------------------------------------------------------------------------------------
    def _make_raft(self, random: Random) -> Raft:
        home, voters = self._home, self.cluster.voters
        end_points = tuple(QuorumEndPoint(*fields) for fields in self._controller_end_points())
        ids = (home.directories.cluster_id, home.directories.metadata_id)
        return Raft(
            self.node_id,
            voters,
            RaftLog(home.metadata_log, self.clock.wall_ms),
            ElectionStore(home.files, home.metadata_log.directory, voters),
            self._quorum_channel,
            RaftSettings.of(home.config, *ids, end_points),
            random,
            self.follower,
        )

    def _open_channel(
        self,
        purpose: str,
        address_of: Callable[[int], Address | None] | None = None,
        timeout_ms: int | None = None,
        receive_buffer_bytes: int = -1,
        check_response: Callable[[int, Any], None] | None = None,
    ) -> Peers:
        """Open connections to other nodes for one kind of work; by default to brokers, on the inter-broker listener."""
        peers = Peers(
            self.listener,
            self.clock,
            address_of or self._broker_address,
            client_id=f"{purpose}-{self.node_id}",
            request_timeout_ms=self._home.config.request_timeout_ms if timeout_ms is None else timeout_ms,
            receive_buffer_bytes=receive_buffer_bytes,
            note_failure=self.note_failure,
            check_response=check_response,
            security=self._to_brokers if address_of is None else self._to_controllers,
        )
        self._channels.append(peers)
        return peers

    def _controller_address(self, node_id: int) -> Address | None:
        """The (host, port) of a voter, a leader of the quorum or a bootstrap server; None when it is unknown."""
        return self.raft.addresses.of(node_id)

    def _controller_end_points(self) -> list[tuple[str, str, int]]:
        """Name, advertised host and port of this node's controller listeners."""
        names = {point.name for point in self.cluster.controller_listeners}
        return [(p.name, p.advertised_host, p.advertised_port) for p in self._home.end_points if p.name in names]

    def _broker_address(self, broker_id: int) -> Address | None:
        """The (host, port) of a broker's inter-broker listener; None when it is unknown."""
        broker = self.image.brokers.get(broker_id)
        return None if broker is None else endpoint(broker, self.cluster.inter_broker_listener)

    def start(self) -> None:
        """Load the state of the quorum from disk."""
        self.raft.start(self.clock.now_ms())

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers that the node has to run, once its replication has joined."""
        workers: list[Worker] = [*self._channels, self.link, *self._replication, self.controller, self.raft]
        workers.append(self.follower)
        if self.lifecycle is not None:
            workers.append(self.lifecycle)
        if self._controller_registration is not None:
            workers.append(self._controller_registration)
        return tuple(workers)

    def _make_controller_registration(self) -> ControllerRegistration:
        listeners = self._listener_fields({point.name for point in self.cluster.controller_listeners})
        return ControllerRegistration(self.node_id, self.image, self.link, listeners, supported_features)

    def _request_producer_ids(self, on_block: Callable[[range], None]) -> None:
        fields = {"broker_id": self.node_id, "broker_epoch": self.broker_epoch}
        request_from_controller(self.link, fields, on_block)

    def _listener_fields(self, names: set[str]) -> list[Fields]:
        """The fields of this node's listeners with these names, for a registration."""
        return [
            {
                "name": point.name,
                "host": point.advertised_host,
                "port": point.advertised_port,
                "security_protocol": PROTOCOLS[point.protocol],
            }
            for point in self._home.end_points
            if point.name in names
        ]

    def join(self, replicas: ReplicaManager) -> Replication:
        """Create the replication of this broker's partitions, with connections that carry only fetches."""
        config = self._home.config
        # Kafka's default buffer of 64 KiB makes a follower wait for every few batches, so only a set size is applied.
        is_set = config.is_explicit("replica.socket.receive.buffer.bytes")
        buffer_bytes = config.replica_socket_receive_buffer_bytes if is_set else -1
        timeout_ms = int(config.replica_socket_timeout_ms)
        cluster = Cluster(
            self.node_id,
            self.image,
            self.clock,
            self._open_channel("replica", timeout_ms=timeout_ms, receive_buffer_bytes=buffer_bytes),
            self.link,
            lambda: self.broker_epoch,
            self._home.schedule,
            self._home.broker_settings.throttle,
            self.note_failure,
            lambda: self.lifecycle is not None and self.lifecycle.has_contact,
        )
        replication = Replication(replicas, cluster, ReplicationSettings.of(config))
        self._replication.append(replication)
        return replication

    def _make_lifecycle(self) -> BrokerLifecycle:
        identity = Identity(
            self.node_id,
            self._home.directories.cluster_id,
            self._listener_fields({point.name for point in self.cluster.broker_listeners}),
            supported_features(),
            self._home.directory_ids,
            self.cluster.rack,
            self._home.logs.last_broker_epoch,
        )
        return BrokerLifecycle(
            identity,
            self.link,
            self.clock,
            lambda: self.metadata_offset,
            heartbeat_interval_ms=self._home.config.broker_heartbeat_interval_ms,
            registration_timeout_ms=self._home.config.initial_broker_registration_timeout_ms,
            on_caught_up=self._caught_up,
            on_running=self.maybe_serve_clients,
            on_failure=self.fail,
            is_hopeless=self.has_no_majority,
            report=self._home.report,
        )

    def _caught_up(self) -> None:
        """Apply the metadata, which has reached this broker's registration, open its partitions, then ask the
        controller to unfence this broker.

        Partition directories without a replica of this broker are renamed first; if that fails the node shuts down.
        """
        try:
            self._put_strays_aside()
        except (OSError, KafkaStorageError) as error:
            self.fail(
                KafkaStorageError(f"Cannot set aside partition directories that this broker has no replica of: {error}")
            )
            return

        def request_unfencing() -> None:
            self._home.keep_logs()
            if self.lifecycle is not None:
                self.lifecycle.may_be_unfenced()

        self.follower.publish_first(request_unfencing)
        self.producer_ids.prefetch()

    def _put_strays_aside(self) -> None:
        """Rename partition directories that this broker has no replica of: deleted or reassigned while it was down.
        Raises OSError or KafkaStorageError."""
        for directory in self._home.logs.live:
            for name in directory.partitions():
                topic = self.image.topics.get(name.topic)
                state = None if topic is None else topic.partitions.get(name.partition)
                if state is None or self.node_id not in state.replicas:
                    path = directory.path_of(partition_directory_name(*name))
                    directory.run(partial(directory.put_aside, name))
                    directory.residents.discard(name)
                    self._home.report(f"WARN {path} is not a replica of this broker: renamed and kept as a stray")

    def maybe_serve_clients(self) -> None:
        """Accept clients once this broker is unfenced and has applied the record that unfences it. The controller's
        heartbeat response may arrive before that record, so both conditions are checked.

        A broker whose registration lacks its log directories, from before the metadata version had them, registers
        again (Kafka's BrokerRegistrationTracker): the controller learns of failed directories only if it knows them.
        """
        if self.lifecycle is None or self.lifecycle.state is not State.RUNNING:
            return
        broker = self.image.brokers.get(self.node_id)
        if broker is None or broker.is_fenced or broker.epoch != self.broker_epoch or not self.follower.has_applied_all:
            return
        if not broker.log_dirs and self.image.features.get(METADATA_VERSION, 0) >= DIRECTORIES_SINCE:
            self.lifecycle.register_again()
        if not self._serves_clients:
            self._serves_clients = True
            self.listener.open_acceptors()

    # -- what it knows ---------------------------------------------------------------------------------------------
    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 before it has one."""
        return -1 if self.lifecycle is None else self.lifecycle.epoch

    @property
    def is_ready(self) -> bool:
        """Return whether this broker is unfenced and serves clients; on a controller only, whether there is a
        leader."""
        if self.lifecycle is None:
            return self.raft.leader_id is not None
        return self._serves_clients and self.lifecycle.state is State.RUNNING

    @property
    def metadata_offset(self) -> int:
        """The offset behind the last metadata record in `image`."""
        return self.follower.offset

    def _unreachable_voters(self) -> list[int]:
        """The ids of the other voters to whom a connection failed within the last LOST_MS."""
        return [voter for voter in self.raft.other_voters if self._quorum_channel.connection_error(voter, LOST_MS)]

    def has_no_majority(self) -> bool:
        """Return whether too many voters are unreachable for the quorum to have a majority."""
        count = len(self.raft.voters)
        return count > 0 and 2 * (count - len(self._unreachable_voters())) <= count

    def no_controller_reason(self) -> str:
        """The reason why a metadata change was not committed in time, for error messages: no majority or no leader,
        with the unreachable voters, or a leader that is too slow."""
        unreachable = self._unreachable_voters()
        count, leader = len(self.raft.voters), self.raft.leader_id
        voters_text = f", unreachable: {', '.join(map(str, unreachable))}" if unreachable else ""
        if not count:
            return "no server of controller.quorum.bootstrap.servers has named the leader of the quorum"
        if self.has_no_majority():
            return f"the quorum of {count} controllers has no majority{voters_text}"
        if leader is not None:
            return f"the active controller, node {leader}, did not commit the change in time"
        return f"the quorum of {count} controllers has no leader{voters_text}"

    def no_response_reason(self) -> str:
        """The reason why the outcome of a forwarded change is unknown, for error messages; names unreachable
        controllers."""
        unreachable = self._unreachable_voters()
        voters_text = f" (unreachable controllers: {', '.join(map(str, unreachable))})" if unreachable else ""
        return f"the controller did not respond{voters_text}"

    def create_topic(self, topic: NewTopic) -> TopicState | KafkaError | None:
        """Create a topic through the active controller. Returns the topic, or the controller's error; None while the
        request runs, so that the caller asks again."""
        return self.topic_creation.create(topic)

    def maybe_snapshot(self) -> None:
        """Write a metadata snapshot if one is due."""
        self.raft.log.maybe_snapshot(lambda: image_records(self.image), self.clock.now_ms())

    # -- log directories ------------------------------------------------------------------------------------------
    def assign_directories(self, fields: Mapping[str, Any], on_response: Callable[[Any | None], None]) -> None:
        """Report the log directories of replicas to the controller (AssignReplicasToDirs). `on_response` gets the
        response later, None after the time-out."""
        self.link.send(ApiKey.ASSIGN_REPLICAS_TO_DIRS, fields, on_response)

    def directory_failed(self, directory: LogDirectory) -> None:
        """Report an offline log directory to the controller at once, so that other replicas become leaders. If the
        controller has not noted it after log.dir.failure.timeout.ms, the node shuts down."""
        if self.lifecycle is not None and directory.directory_id is not None:
            self.lifecycle.offline_log_dirs.append(directory.directory_id)
            self.lifecycle.heartbeat_now()
            limit_ms, failed = self._home.config.log_dir_failure_timeout_ms, directory.directory_id
            self._home.schedule(limit_ms, lambda now_ms: self._ensure_failure_reported(failed))

    def _ensure_failure_reported(self, directory_id: uuid.UUID) -> None:
        """Shut down if the metadata still has a failed log directory as online (log.dir.failure.timeout.ms)."""
        broker = self.image.brokers.get(self.node_id)
        if broker is not None and directory_id in broker.log_dirs:
            id_text = uuid_text(directory_id)
            message = f"Shutting down because couldn't communicate offline log dir {id_text} with controllers"
            self.fail(KafkaStorageError(message))

    def directories_cordoned(self, directory_ids: list[uuid.UUID]) -> None:
        """Report cordoned log directories to the controller with the next heartbeat."""
        if self.lifecycle is not None:
            self.lifecycle.cordoned_log_dirs = directory_ids

    # -- faults ----------------------------------------------------------------------------------------------------
    def note_stranger(self, node_id: int) -> None:
        """Note a voter with another cluster id; if most voters have one, this node has the wrong id and shuts down."""
        if node_id in self._strangers:
            return
        self._strangers.add(node_id)
        directories = self._home.directories
        count = len(self.raft.voters) or len(self.raft.settings.bootstrap_addresses)
        if 2 * len(self._strangers) > count:
            own_cluster = f"{directories.metadata_path} belongs to cluster {directories.cluster_id}"
            setting = "controller.quorum.voters" if self.cluster.voters else "controller.quorum.bootstrap.servers"
            self.fail(ConfigError(f"{own_cluster}, but the controllers of {setting} belong to another one"))
        else:
            self._home.report(f"WARN controller {node_id} belongs to another cluster than {directories.cluster_id}")

    def fail(self, error: KafkaError) -> None:
        """Shut this node down because of an error, which `run` then raises; after a first error further ones are
        dropped."""
        if self.failure is None:
            self.failure = error
        self._home.request_stop()

    # -- the end ---------------------------------------------------------------------------------------------------
    def begin_leaving(self) -> None:
        """Begin the controlled shutdown: ask the controller to move this broker's leaderships. Does nothing after a
        failure or with controlled.shutdown.enable=false. `has_left` resigns the leadership of the quorum."""
        if self.failure is None and self.lifecycle is not None and self._home.config.controlled_shutdown_enable:
            self.lifecycle.begin_controlled_shutdown(CONTROLLED_SHUTDOWN_MS)

    @property
    def has_left(self) -> bool:
        """Return whether the node may stop; the node reads it between turns until it is True. Reading it also drives
        the shutdown.

        When the broker's leaderships are moved, it makes raft resign, for at most RESIGN_MS. After a disk failure it
        disconnects the clients and asks to be fenced. After any other failure it is True at once.
        """
        if self.failure is not None:
            if not isinstance(self.failure, KafkaStorageError):
                return True  # the cluster did not admit this node, so there is nothing to hand over
            if self._farewell is None:
                self._farewell = _Farewell(self)
            return self._farewell.is_over
        is_controlled = self._home.config.controlled_shutdown_enable
        if self.lifecycle is not None and is_controlled and not self.lifecycle.is_gone:
            return False
        now_ms = self.clock.now_ms()
        if self._leaves_until_ms is None:
            self._leaves_until_ms = now_ms + RESIGN_MS
            self.raft.shut_down(now_ms)
        return self.raft.is_shut_down or now_ms >= self._leaves_until_ms or self.has_no_majority()

    @property
    def longest_wait_ms(self) -> int:
        """The maximum time in ms that a turn may wait for events: LEAVING_WAIT_MS while the node leaves, else no
        limit."""
        is_leaving = self._leaves_until_ms is not None or self._farewell is not None
        return LEAVING_WAIT_MS if is_leaving else MAX_WAIT_MS

    def close(self) -> None:
        """Close the connections to other nodes."""
        for channel in self._channels:
            channel.close()


class _Farewell:
    """The shutdown of a node whose disk failed, so that other brokers take over its leaderships at once.

    Its clients are disconnected first, as if the process had ended. Then the quorum elects another leader, whose
    controller fences the broker without waiting for its session. Apache Kafka's node just halts, and its partitions
    wait for broker.session.timeout.ms. Nothing is written meanwhile. The shutdown begins with the construction; the
    node checks `is_over` between its turns.
    """

    def __init__(self, node: ClusterMember) -> None:
        self._node = node
        self._ends_ms = node.clock.now_ms() + FAREWELL_MS
        self._disconnect_clients()
        node.raft.shut_down(node.clock.now_ms())
        if node.lifecycle is not None:
            node.lifecycle.begin_farewell(FAREWELL_MS)

    def _disconnect_clients(self) -> None:
        """Close all listeners but the controller's, where the new leader announces its election (BeginQuorumEpoch), and
        their connections."""
        listener = self._node.listener
        for acceptor in listener.acceptors:
            if acceptor.is_open and not self._node.cluster.is_controller_listener(acceptor.name):
                listener.close_acceptor(acceptor)
        for connection in list(listener.connections):
            if not connection.acceptor.is_open:
                connection.close()

    @property
    def is_over(self) -> bool:
        """Return whether the broker is fenced and has resigned as leader, the majority is lost, or FAREWELL_MS have
        passed."""
        node = self._node
        if node.clock.now_ms() >= self._ends_ms or node.has_no_majority():
            return True
        is_fenced = node.lifecycle is None or node.lifecycle.is_gone
        return is_fenced and failed_member.has_resigned(node.raft)
