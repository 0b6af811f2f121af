"""NetworkClient: requests to nodes and their responses over non-blocking connections
(org.apache.kafka.clients.NetworkClient).

One thread owns a client; any thread may call `wakeup`. `poll` runs its `handle_*` steps in Kafka's order: completed
sends, responses, lost connections, new connections, ApiVersions requests, connections and requests that timed out.
Callbacks run last. A response must carry the correlation id of the oldest request in flight.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    AuthenticationFailed,
    Disconnected,
    IllegalState,
    KafkaError,
    NotKafka,
)
from kafkatools.core.metrics.network import NetworkCounter
from kafkatools.core.net import api_version_check, connection_words
from kafkatools.core.net.addresses import Resolver
from kafkatools.core.net.bodies import decode_body, frame_body, throttle_ms_of
from kafkatools.core.net.channel import Channel, EndOfStream
from kafkatools.core.net.client_requests import Body, ClientRequest, ClientResponse, taken
from kafkatools.core.net.connection_states import ConnectionState, ConnectionStates, ExponentialBackoff
from kafkatools.core.net.failure_log import FailureLog
from kafkatools.core.net.in_flight import InFlightRequest, InFlightRequests, max_in_flight_of
from kafkatools.core.net.metadata import Metadata, Node
from kafkatools.core.net.metadata_updater import MetadataUpdater
from kafkatools.core.net.selector import READ, WRITE, Ready, Selector
from kafkatools.core.net.transport import TransportFactory
from kafkatools.core.net.transport_choice import transport_for
from kafkatools.core.protocol.api_versions import NEVER, ApiKey, BrokerVersions
from kafkatools.core.protocol.frames import decode_response_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkatools.core.net.security.authenticator import Authenticator
    from kafkatools.core.net.telemetry import TelemetrySender

_log = logging.getLogger(__name__)

_SLOW_SETUP_MS = 1000
MAX_FRAME_BYTES = 0x7FFFFFFF
# A larger size before the ApiVersions response is text of another protocol.
MAX_FIRST_FRAME_BYTES = 1 << 20


class NetworkClient:
    """Connects to nodes on demand, sends requests and returns the responses; keeps the metadata up to date."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        metadata: Metadata,
        client_id: str | None = None,
        transport_factory: TransportFactory | None = None,
        resolver: Resolver | None = None,
        metrics: NetworkCounter | None = None,
    ) -> None:
        """`resolver`: looks host names up without blocking; without one, `ready` waits for the system's lookup."""
        self._clock = clock
        self._metrics = metrics or NetworkCounter()
        self.metadata = metadata
        self._client_id = config.client_id if client_id is None else client_id
        self._request_timeout_ms: int = config.request_timeout_ms
        self._max_idle_ms: int = config.connections_max_idle_ms
        self._transport_factory = transport_factory or transport_for(config)
        self.failures = FailureLog(ClientLog.of(_log, config))
        self._authenticator: Authenticator | None = None
        if config.security_protocol.upper().startswith("SASL_"):
            from kafkatools.core.net.security.authenticator import authenticator_for

            self._authenticator = authenticator_for(self, config, clock)
        self.connection_states = ConnectionStates(
            ExponentialBackoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            ExponentialBackoff(
                config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms
            ),
            resolver,
        )
        self._in_flight = InFlightRequests(max_in_flight_of(config))
        self._updater = MetadataUpdater(self, metadata, config)
        self._selector: Selector[Channel] = Selector()
        self._channels: dict[int, Channel] = {}
        self._last_used_ms: dict[int, int] = {}
        self._versions: dict[int, BrokerVersions] = {}
        self._versions_to_request: dict[int, int] = {}
        self._correlation_id = 0
        self._responses: list[ClientResponse] = []
        self._broken: list[tuple[Channel, KafkaError]] = []
        self._completed_sends: list[InFlightRequest] = []
        self._turn = 0
        self._requests_due_ms = 0
        self.telemetry: TelemetrySender | None = None
        self.had_events = True
        """Whether in the last `poll` a request ended, or a socket brought more than a part of a response."""
        self._is_closed = False
        self._extra_nodes: dict[int, Node] = {}

    # -- readiness --

    def add_node(self, node: Node) -> None:
        """Add a node that is not part of the cluster metadata, such as a coordinator with a separate connection and
        node id."""
        self._extra_nodes[node.id] = node

    def find_node(self, node: int) -> Node | None:
        """The node with this id, from `add_node` or the cluster metadata; None for an unknown id."""
        return self._extra_nodes.get(node) or self.metadata.cluster.node(node)

    def ready(self, node: int, now_ms: int) -> bool:
        """Return whether a request may be sent to the node now; if not, start to connect when an attempt is due, which
        resolves its name."""
        if self.is_ready(node, now_ms):
            return True
        if self.connection_states.can_connect(node, now_ms):
            self._initiate_connect(node, now_ms)
        return False

    def is_ready(self, node: int, now_ms: int) -> bool:
        """Return whether a request may be sent to the node now; False while a metadata update is due, which is sent
        first."""
        return not self._updater.is_update_due(now_ms) and self.can_send(node, now_ms)

    def can_send(self, node: int, now_ms: int) -> bool:
        """Return whether the node's connection is ready, not throttled, and below its limit of requests in flight."""
        return self.connection_states.is_ready(node, now_ms) and self._in_flight.can_send_more(node)

    def connection_failed(self, node: int) -> bool:
        """Return whether the last connection or attempt failed or ended, as `ConnectionStates.has_failed`."""
        return self.connection_states.has_failed(node)

    def cluster_error(self) -> KafkaError | None:
        """The first connection error when the connections to all brokers have failed; else None."""
        problems = [self.connection_error(node) for node in self.metadata.cluster.nodes]
        return problems[0] if problems and all(problems) else None

    def connection_error(self, node: int) -> KafkaError | None:
        """The error that ended the last connection or attempt; None without an attempt and after a connection became
        ready."""
        return self.connection_states.error(node)

    def poll_delay_ms(self, node: int, now_ms: int) -> int:
        """Milliseconds until it is worth checking again whether the node is ready: its throttling, back-off or setup
        time-out. FOREVER_MS when only a response can change that."""
        states = self.connection_states
        throttle_ms = states.throttle_delay_ms(node, now_ms)
        if throttle_ms and states.state(node) is ConnectionState.READY:
            return throttle_ms
        return states.connection_delay_ms(node, now_ms)

    def channel(self, node: int) -> Channel | None:
        """The connection to a node; None when there is none."""
        return self._channels.get(node)

    def broker_versions(self, node: int) -> BrokerVersions | None:
        """The API versions that the node supports; None before its ApiVersions response and after a disconnection."""
        return self._versions.get(node)

    def in_flight_count(self, node: int | None = None) -> int:
        """The number of requests in flight, to one node or to all."""
        return self._in_flight.count(node)

    @property
    def is_receiving(self) -> bool:
        """Return whether a part of a response has been read on any connection and the rest has not arrived."""
        return any(channel.is_receiving for channel in self._channels.values())

    def throttle(self, node: int, duration_ms: int, now_ms: int) -> None:
        """Send no requests to the node for `duration_ms`; for callers that decode throttle_time_ms themselves."""
        if duration_ms > 0:
            self.connection_states.throttle(node, now_ms + duration_ms)

    def least_loaded_node(self, now_ms: int) -> int | None:
        """Choose a node of the cluster metadata for a request that any broker can answer; None when none is connected
        or may be tried.

        A node that can take a request is preferred, with the fewest in flight. Then come a node whose connection
        attempt is younger than 1 s, a node that may be connected to, and any other connecting node. So a node that
        hangs does not block the others.
        """
        nodes = list(self.metadata.cluster.nodes)
        if not nodes:
            return None
        self._turn = (self._turn + 1) % len(nodes)
        rotated = nodes[self._turn :] + nodes[: self._turn]
        sendable = [node for node in rotated if self.can_send(node, now_ms)]
        if sendable:
            return min(sendable, key=self._in_flight.count)
        states = self.connection_states
        connecting = [node for node in rotated if states.is_setting_up(node)]
        for node in connecting:
            if now_ms - states.last_attempt_ms(node) < _SLOW_SETUP_MS:
                return node
        free = [node for node in rotated if states.can_connect(node, now_ms)]
        return min(free, key=states.last_attempt_ms) if free else next(iter(connecting), None)

    # -- sending --

    def send(self, request: ClientRequest, now_ms: int | None = None) -> None:
        """Queue a request to a ready node and write as much as the socket takes. Raises IllegalState when the node is
        not ready. When the node has no common API version or the request cannot be encoded, the next poll returns a
        response with UnsupportedVersion or the error of `build`."""
        self.send_together((request,), self._clock.now_ms() if now_ms is None else now_ms)

    def send_together(self, requests: Sequence[ClientRequest], now_ms: int) -> None:
        """Send requests to one node as `send` does, in one write. The caller keeps to the limit of requests in flight.
        Of several, each must expect a response."""
        if not self.can_send(node := requests[0].node, now_ms):
            raise IllegalState(f"Attempt to send a request to node {node} which is not ready.")
        for request in requests:
            newest = NEVER if request.max_version is None else request.max_version
            try:
                version = self._versions[node].choose_version(request.api_key, request.min_version, newest)
                content = request.build(version)
            except KafkaError as error:
                self._responses.append(ClientResponse(request, -1, None, None, error, False, 0))
                continue
            self._queue(request, version, content, now_ms)
        self._write(self._channels[node])

    def send_internal(self, request: ClientRequest, now_ms: int) -> None:
        """Send a request of the client itself: its response goes only to the callback, `poll` does not return it.
        Raises UnsupportedVersion when client and node have no common API version."""
        version = self._versions[request.node].choose_version(request.api_key, request.min_version)
        self._queue(request, version, request.build(version), now_ms, internal=True)
        self._write(self._channels[request.node])

    def _queue(self, request: ClientRequest, version: int, content: Body, now_ms: int, internal: bool = False) -> None:
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        frame = frame_body(request.api_key, version, correlation_id, self._client_id, content)
        timeout_ms = self._request_timeout_ms if request.timeout_ms is None else request.timeout_ms
        in_flight = InFlightRequest(correlation_id, request, version, now_ms, timeout_ms, internal)
        self._in_flight.add(request.node, in_flight)
        self._metrics.sent(request.node, self._channels[request.node].send(frame), now_ms)

    def _write(self, channel: Channel) -> None:
        try:
            is_flushed = channel.write()
        except KafkaError as error:
            self._broken.append((channel, connection_words.receive_failure(self.name_of(channel.node_id), error)))
            return
        except OSError as problem:
            lost = Disconnected(f"{self.name_of(channel.node_id)}: {problem.strerror or problem}")
            self._broken.append((channel, lost))
            return
        newest = self._in_flight.newest(channel.node_id)
        if is_flushed and newest is not None:
            newest.is_sent = True
            if not newest.request.expect_response:
                # Removed at once, because the next response belongs to the request that is then the oldest.
                self._completed_sends.append(self._in_flight.complete_last_sent(channel.node_id))
        self._watch(channel, READ if is_flushed else READ | WRITE)

    def _watch(self, channel: Channel, events: int) -> None:
        if channel.events != events:
            self._selector.modify(channel.transport.socket, events, channel)
            channel.events = events

    # -- one turn: poll and its steps --

    def poll(self, timeout_ms: int, now_ms: int | None = None) -> list[ClientResponse]:
        """Wait up to `timeout_ms` for I/O, less if metadata, telemetry or a time-out is due before. Run the `handle_*`
        steps and the callbacks, and return the responses, failed ones included."""
        now = self._clock.now_ms() if now_ms is None else now_ms
        if self._authenticator is not None:
            self._authenticator.step(now)
        wait_ms = self._updater.maybe_update(now)
        if self.telemetry is not None:
            wait_ms = min(wait_ms, self.telemetry.maybe_update(now))
        next_ms = self.next_timeout_ms(now)
        ready = self._selector.poll(min(timeout_ms, wait_ms, timeout_ms if next_ms is None else next_ms))
        self._requests_due_ms = now + wait_ms
        now = self._clock.now_ms()
        self.handle_io(ready, now)
        self.handle_completed_sends(now)
        self.handle_disconnections(now)
        self.handle_initiate_api_version_requests(now)
        self.handle_timed_out_connections(now)
        self.handle_timed_out_requests(now)
        self.handle_idle_connections(now)
        responses = self._complete_responses()
        self.had_events = bool(responses) or not all(channel.has_only_part(events) for channel, events in ready)
        return responses

    def delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the next `poll` is worthwhile without a ready socket; 0 after one that had events, because
        its callbacks may have changed anything."""
        if self.had_events:
            return 0
        next_ms = self.next_timeout_ms(now_ms)
        due_ms = max(0, self._requests_due_ms - now_ms)
        return due_ms if next_ms is None else min(due_ms, next_ms)

    def next_timeout_ms(self, now_ms: int) -> int | None:
        """Milliseconds until `poll` has work to do without a ready socket; None when no request or connection setup is
        pending."""
        if self._responses or self._broken or self._completed_sends:
            return 0
        waits = (self._in_flight.next_timeout_ms(now_ms), self.connection_states.next_setup_timeout_ms(now_ms))
        return min((wait for wait in waits if wait is not None), default=None)

    def handle_io(self, ready: list[Ready[Channel]], now_ms: int) -> None:
        """Read from and write to the sockets that are ready, or continue to connect them."""
        for channel, events in ready:
            self._last_used_ms[channel.node_id] = now_ms
            if self._channels.get(channel.node_id) is not channel:
                continue
            if not channel.is_connected:
                self.handle_connections(channel, now_ms)
                continue
            if events & WRITE:
                self._write(channel)
            if events & READ:
                self.handle_completed_receives(channel, now_ms)

    def handle_completed_sends(self, now_ms: int) -> None:
        """Complete requests that expect no response (acks=0), once they are sent."""
        requests, self._completed_sends = self._completed_sends, []
        for request in requests:
            self._finish(request, None, None, None, False, now_ms)

    def handle_completed_receives(self, channel: Channel, now_ms: int) -> None:
        """Read the responses that arrived on a connection and complete their requests in order. After invalid bytes or
        the end of the stream, mark the connection as broken."""
        try:
            for frame in channel.read():
                self._handle_frame(channel, frame, now_ms)
        except KafkaError as error:
            self._broken.append((channel, connection_words.receive_failure(self.name_of(channel.node_id), error)))
        except (EndOfStream, OSError) as problem:
            name, step = self.name_of(channel.node_id), self._step(channel)
            self._broken.append((channel, connection_words.disconnection(name, channel, problem, step)))

    def _handle_frame(self, channel: Channel, frame: memoryview, now_ms: int) -> None:
        node = channel.node_id
        oldest = self._in_flight.oldest(node)
        if oldest is None or not oldest.request.expect_response:
            raise NotKafka("it sent a response without a request")
        key = oldest.request.api_key
        correlation_id, offset = decode_response_header(key, oldest.api_version, frame)
        if correlation_id != oldest.correlation_id:
            raise NotKafka(
                f"its response has correlation id {correlation_id} instead of {oldest.correlation_id}"
                f" ({ApiKey(key).label} v{oldest.api_version})"
            )
        request = self._in_flight.complete_next(node)
        self._metrics.received(node, key, len(frame), now_ms - request.sent_ms, now_ms)
        raw = frame[offset:]
        try:
            body = raw
            if request.request.decode:
                body = decode_body(request.request.api_key, request.api_version, raw)
        except KafkaError as error:
            self._finish(request, None, raw, error, False, now_ms)
            raise
        throttle_ms = throttle_ms_of(body)
        if throttle_ms:
            self.throttle(node, throttle_ms, now_ms)
        self._finish(request, body, raw, None, False, now_ms)

    def _finish(
        self,
        request: InFlightRequest,
        body: object,
        raw: memoryview | None,
        error: KafkaError | None,
        disconnected: bool,
        now_ms: int,
    ) -> None:
        latency_ms = now_ms - request.sent_ms
        response = ClientResponse(request.request, request.api_version, body, raw, error, disconnected, latency_ms)
        if request.is_internal:
            if request.request.callback is not None:
                request.request.callback(response)
            return
        self._responses.append(response)

    def handle_disconnections(self, now_ms: int) -> None:
        """Close broken connections: their requests fail with the connection's error and a metadata update is
        requested."""
        broken, self._broken = self._broken, []
        for channel, error in broken:
            if self._channels.get(channel.node_id) is channel:
                self._disconnect(channel.node_id, error, now_ms)

    def _disconnect(self, node: int, error: KafkaError, now_ms: int) -> None:
        self.failures.failed(node, error, now_ms, is_routine=node >= 0 and isinstance(error, Disconnected))
        self._forget_channel(node)
        if isinstance(error, AuthenticationFailed):
            self._metrics.refused(now_ms)
            self.connection_states.authentication_failed(node, now_ms, error)
            self.metadata.fail(error)
        else:
            self.connection_states.disconnected(node, now_ms, error)
        for request in self._in_flight.clear(node):
            self._finish(request, None, None, error, True, now_ms)
        self._updater.handle_disconnection(node, now_ms)

    def _forget_channel(self, node: int) -> None:
        channel = self._channels.pop(node, None)
        if channel is not None:
            self._selector.unregister(channel.transport.socket)
            channel.close()
            if channel.is_connected:
                self._metrics.closed(self._clock.now_ms())
        self._last_used_ms.pop(node, None)
        self._versions.pop(node, None)
        self._versions_to_request.pop(node, None)
        if self._authenticator is not None:
            self._authenticator.forget(node)

    def handle_connections(self, channel: Channel, now_ms: int) -> None:
        """Continue the TCP connect and the TLS handshake of a new connection. When they are complete, schedule its
        ApiVersions request; a failed connection is left to `handle_disconnections`."""
        node = channel.node_id
        try:
            if not channel.is_tcp_up:
                channel.transport.finish_connect()
                channel.is_tcp_up = True
            events = channel.transport.handshake()
            if events:
                self._watch(channel, events)
                return
        except (OSError, KafkaError) as problem:
            name = self.name_of(node)
            self._broken.append((channel, connection_words.connect_failure(name, problem, channel.is_tcp_up)))
            return
        channel.is_connected = True
        self._metrics.connected(now_ms)
        self.connection_states.connected(node)
        self._watch(channel, READ)
        self._versions_to_request[node] = api_version_check.NEWEST_VERSION

    def handle_initiate_api_version_requests(self, now_ms: int) -> None:
        """Send ApiVersions on new connections (KIP-35), in an older version where the node refused the first
        (KIP-511)."""
        for node, version in list(self._versions_to_request.items()):
            del self._versions_to_request[node]
            build = api_version_check.build
            request = ClientRequest(node, ApiKey.API_VERSIONS, build, self._handle_api_versions, decode=False)
            self._queue(request, version, build(version), now_ms, internal=True)
            self._write(self._channels[node])

    def _handle_api_versions(self, response: ClientResponse) -> None:
        node = response.request.node
        if response.raw is None or response.error is not None:
            return
        versions = api_version_check.read(response.raw, response.api_version)
        if isinstance(versions, int):
            self._versions_to_request[node] = versions
            return
        self._versions[node] = versions
        if self._authenticator is None:
            self.authenticated(node)
        else:
            self._authenticator.begin(node, self._clock.now_ms())

    def authenticated(self, node: int, session_ends_ms: int | None = None) -> None:
        """Mark a node's connection as ready for requests until its session ends (None: no end)."""
        channel = self._channels[node]
        if not channel.is_trusted:
            channel.trust(MAX_FRAME_BYTES)
        if self._authenticator is not None:
            self._metrics.authenticated(self._clock.now_ms())
        self.connection_states.ready(node)
        if session_ends_ms is not None:
            self.connection_states.limit_session(node, session_ends_ms)

    def fail_connection(self, node: int, error: KafkaError) -> None:
        """Close a node's connection with this error at the next `handle_disconnections` of `poll`. No effect without a
        connection."""
        if node in self._channels:
            self._broken.append((self._channels[node], error))

    def handle_timed_out_connections(self, now_ms: int) -> None:
        """Close connections whose setup up to the ApiVersions response takes longer than
        socket.connection.setup.timeout.ms, which grows with each failure."""
        for node in self.connection_states.timed_out_connections(now_ms):
            error = connection_words.not_made_in_time(self.name_of(node), self._channels[node].is_tcp_up)
            self._time_out(node, error, now_ms)

    def handle_timed_out_requests(self, now_ms: int) -> None:
        """Close connections with a request older than request.timeout.ms: responses arrive in order, so none can
        follow."""
        for node in self._in_flight.nodes_with_timed_out_requests(now_ms):
            message = f"{self.name_of(node)} did not answer a request in time (request.timeout.ms); connection closed"
            self._time_out(node, Disconnected(message), now_ms)

    def _time_out(self, node: int, error: KafkaError, now_ms: int) -> None:
        """Close a timed-out connection with `error`. If the broker has not answered ApiVersions yet, the error says
        that instead."""
        states = self.connection_states
        if states.state(node) is ConnectionState.CHECKING_API_VERSIONS:
            error = connection_words.silence(self.name_of(node), now_ms - states.last_attempt_ms(node))
        self._disconnect(node, error, now_ms)

    def handle_idle_connections(self, now_ms: int) -> None:
        """Close a connection that was not used for connections.max.idle.ms; at most one in each poll, as Kafka does."""
        if self._max_idle_ms < 0:
            return
        for node, used_ms in self._last_used_ms.items():
            if now_ms - used_ms > self._max_idle_ms and not self._in_flight.count(node):
                message = f"Connection to {self.name_of(node)} was idle (connections.max.idle.ms); closed"
                self._disconnect(node, Disconnected(message), now_ms)
                return

    def _complete_responses(self) -> list[ClientResponse]:
        responses = []
        for response in taken(self._responses):  # after a callback that raises, the next poll has the others
            responses.append(response)
            if response.request.callback is not None:
                response.request.callback(response)
        return responses

    # -- connecting --

    def _initiate_connect(self, node: int, now_ms: int) -> None:
        target = self.find_node(node)
        if target is None or self._is_closed or not self.connection_states.has_address(node, target.host, target.port):
            return
        try:
            address = self.connection_states.connecting(node, target.host, target.port, now_ms)
        except KafkaError as error:
            self.failures.failed(node, error, now_ms)
            self._updater.handle_disconnection(node, now_ms)
            return
        try:
            transport = self._transport_factory(address, target.host)
            channel = Channel(node, transport, MAX_FIRST_FRAME_BYTES)
            is_connected = transport.connect()
        except OSError as problem:
            failure = connection_words.connect_failure(self.name_of(node), problem, is_tcp_up=False)
            self.failures.failed(node, failure, now_ms)
            self.connection_states.disconnected(node, now_ms, failure)
            self._updater.handle_disconnection(node, now_ms)
            return
        self._channels[node] = channel
        self._last_used_ms[node] = now_ms
        channel.events = READ | WRITE
        self._selector.register(transport.socket, channel.events, channel)
        if is_connected:
            self.handle_connections(channel, now_ms)

    # -- names in messages --

    def name_of(self, node: int) -> str:
        """The name of a node in messages: `node 1 (localhost:9092)`, `coordinator (localhost:9092)` after `add_node`,
        or only the address of a bootstrap server."""
        address = self.connection_states.address(node)
        if node in self._extra_nodes:
            return f"coordinator ({address})"
        return address if node < 0 else f"node {node} ({address})" if address else f"node {node}"

    def _step(self, channel: Channel) -> str:
        """Text for the step in which a node closed the connection: SASL authentication, or without SASL the first
        request after ApiVersions. Empty in every other step."""
        node = channel.node_id
        if self.connection_states.state(node) is ConnectionState.AUTHENTICATING:
            return "while it authenticated us by SASL"
        if self._authenticator is not None or not channel.is_trusted or channel.has_received:
            return ""
        if not self._in_flight.count(node):
            return ""
        return "at the first request after ApiVersions: does it want SASL (security.protocol SASL_PLAINTEXT, SASL_SSL)?"

    # -- closing --

    def disconnect(self, node: int, now_ms: int | None = None) -> None:
        """Close the connection to a node; its requests fail with Disconnected. No effect without a connection."""
        if node in self._channels:
            now = self._clock.now_ms() if now_ms is None else now_ms
            self._disconnect(node, Disconnected(f"Connection to {self.name_of(node)} closed on request"), now)

    def fileno(self) -> int:
        """A file descriptor that is readable while a socket of the client is ready, for another selector."""
        return self._selector.fileno()

    def wakeup(self) -> None:
        """End the current or the next poll. May be called from any thread."""
        self._selector.wakeup()

    def close(self) -> None:
        """Close all connections and drop the requests in flight without their callbacks. Safe to call again."""
        if self._is_closed:
            return
        self._is_closed = True
        for node in list(self._channels):
            self._forget_channel(node)
        self._selector.close()
