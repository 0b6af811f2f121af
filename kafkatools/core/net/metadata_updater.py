"""Updates a client's metadata from within `poll` (NetworkClient.DefaultMetadataUpdater)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from kafkatools.core.client_log import ClientLog
from kafkatools.core.config import Config
from kafkatools.core.errors import DecodeError, RebootstrapRequired, UnsupportedVersion
from kafkatools.core.net.bodies import throttle_ms_of
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import ConnectionStates
from kafkatools.core.net.metadata import Metadata, response_error
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import decode, encode_fields, request_type, response_type

_log = logging.getLogger(__name__)


class Nodes(Protocol):
    """The parts of NetworkClient that MetadataUpdater and TelemetrySender use to choose a node, connect to it and
    send."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def connection_states(self) -> ConnectionStates: ...
    def least_loaded_node(self, now_ms: int) -> int | None: ...
    def connection_failed(self, node: int) -> bool: ...
    def can_send(self, node: int, now_ms: int) -> bool: ...
    def ready(self, node: int, now_ms: int) -> bool: ...
    def poll_delay_ms(self, node: int, now_ms: int) -> int: ...
    def send_internal(self, request: ClientRequest, now_ms: int) -> None: ...
    def throttle(self, node: int, duration_ms: int, now_ms: int) -> None: ...
    def disconnect(self, node: int, now_ms: int | None = None) -> None: ...


def metadata_request(fields: Mapping[str, object], version: int) -> bytes:
    """Encode the body of a Metadata request. In version 0 an empty list stands for all topics, in later ones null."""
    if version == 0 and fields["topics"] is None:
        fields = {**fields, "topics": ()}
    return encode_fields(request_type(ApiKey.METADATA, version), fields)


class MetadataUpdater:
    """Sends Metadata requests when they are due and applies the responses to the client's Metadata."""

    def __init__(self, client: Nodes, metadata: Metadata, config: Config) -> None:
        self._client = client
        self._metadata = metadata
        self._log = ClientLog.of(_log, config)
        self._request_timeout_ms: int = config.request_timeout_ms
        self._reconnect_backoff_ms: int = config.reconnect_backoff_ms
        self._rebootstraps = config.metadata_recovery_strategy.lower() == "rebootstrap"
        self._in_progress: tuple[int, int, bool] | None = None  # node, request version, is partial

    def is_update_due(self, now_ms: int) -> bool:
        """Return whether a Metadata request should be sent now; False while one is in flight."""
        return self._in_progress is None and self._metadata.time_to_next_update_ms(now_ms) == 0

    def maybe_update(self, now_ms: int) -> int:
        """Send a Metadata request if one is due and a node is ready; return the milliseconds until the next call is
        needed. If one is due and no node is ready, connect to a node or return to the bootstrap servers."""
        if self._in_progress is not None:
            return self._request_timeout_ms
        wait_ms = self._metadata.time_to_next_update_ms(now_ms)
        if wait_ms > 0:
            return wait_ms
        self._metadata.begin_update(now_ms)
        if self._rebootstraps and self._metadata.needs_rebootstrap(now_ms):
            self._rebootstrap(now_ms)
        node = self._client.least_loaded_node(now_ms)
        if node is None:
            return self._without_a_node(now_ms)
        return self._try_request(node, now_ms)

    def _without_a_node(self, now_ms: int) -> int:
        """Return to the bootstrap servers when every node of the cluster failed and metadata.recovery.strategy is
        rebootstrap (KIP-899); return the wait in milliseconds."""
        cluster = self._metadata.cluster
        failed = all(self._client.connection_failed(node) for node in cluster.nodes)
        if self._rebootstraps and failed and not cluster.is_bootstrap:
            self._rebootstrap(now_ms)
        return self._reconnect_backoff_ms

    def _rebootstrap(self, now_ms: int) -> None:
        self._log.info("No broker of the cluster responds; returning to the bootstrap servers")
        for node in self._metadata.cluster.nodes:
            self._client.disconnect(node, now_ms)
        self._metadata.rebootstrap(now_ms)

    def _try_request(self, node: int, now_ms: int) -> int:
        if self._client.can_send(node, now_ms):
            self._send(node, now_ms)
            return self._request_timeout_ms
        states = self._client.connection_states
        if states.can_connect(node, now_ms):
            self._client.ready(node, now_ms)
        if states.is_blacked_out(node, now_ms):
            return max(1, self._client.poll_delay_ms(node, now_ms))
        return self._reconnect_backoff_ms

    def _send(self, node: int, now_ms: int) -> None:
        fields, request_version, is_partial = self._metadata.next_request(now_ms)
        self._in_progress = (node, request_version, is_partial)
        request = ClientRequest(
            node,
            ApiKey.METADATA,
            lambda version: [metadata_request(fields, version)],
            lambda response: self._handle_response(response, now_ms),
            decode=False,
        )
        try:
            self._client.send_internal(request, now_ms)
        except UnsupportedVersion as error:
            self._in_progress = None
            self._metadata.failed_update(now_ms)
            self._metadata.fail(error)

    def _handle_response(self, response: ClientResponse, sent_ms: int) -> None:
        if self._in_progress is None:
            return
        node, request_version, is_partial = self._in_progress
        self._in_progress = None
        now_ms = sent_ms + response.latency_ms
        if response.body is None:
            self._metadata.failed_update(now_ms)
            return
        try:
            metadata = decode(response_type(ApiKey.METADATA, response.api_version), response.body)[0]
        except DecodeError as broken:
            self._log.warning("%s", broken)
            self._metadata.failed_update(now_ms)
            return
        self._client.throttle(node, throttle_ms_of(metadata), now_ms)
        error = response_error(metadata)
        if isinstance(error, RebootstrapRequired) and self._rebootstraps:
            self._rebootstrap(now_ms)
        elif error is not None or not metadata.brokers:
            self._log.debug("Metadata response without brokers or with an error: %s", error)
            self._metadata.failed_update(now_ms)
        else:
            self._metadata.update(request_version, metadata, is_partial, now_ms)

    def handle_disconnection(self, node: int, now_ms: int) -> None:
        """Request a metadata update after a lost or failed connection, because the node's partitions may have other
        leaders now. A Metadata request in flight to the node counts as failed."""
        if self._in_progress is not None and self._in_progress[0] == node:
            self._in_progress = None
            self._metadata.failed_update(now_ms)
        self._metadata.request_update(reset_backoff=False)
