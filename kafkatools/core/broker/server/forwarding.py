"""Forwarding of requests to the active controller (Kafka's ForwardingManager, EnvelopeUtils and the controller's
purgatory).

Rules: the response to a change is sent when all records that the controller had written by then are committed; a
request that only reads is answered at once. Changes of many topics or partitions pause in between, so that the
controller handles other requests meanwhile; if it loses the leadership in a pause, the rest is not changed. A change
that a controller refused with NOT_CONTROLLER is sent to the next one. A change that a controller began, or whose
connection was lost, is not sent again, because it may have been made. Its client gets REQUEST_TIMED_OUT with the
reason, and so does a client whose request no controller accepts in time. AdminClient and librdkafka report this error
to their user, whereas they would retry NOT_CONTROLLER themselves. The request of a client that has disconnected is
dropped.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NoReturn, Protocol

from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
from kafkatools.core.broker.metadata.controller import acls, topics
from kafkatools.core.broker.metadata.image import BROKER_LOGGER_RESOURCE, MetadataImage, TopicState
from kafkatools.core.broker.node_parts import (
    HasBrokerSettings,
    HasClock,
    HasConfig,
    HasController,
    HasImage,
    HasLink,
    HasMetadataOffset,
    HasMutationQuotas,
    Rights,
)
from kafkatools.core.broker.security.principal_data import ClientPrincipal, encode_principal
from kafkatools.core.broker.server.apis import BROKER_APIS, ServedBy, Work
from kafkatools.core.broker.server.controller_link import Fate
from kafkatools.core.broker.server.deferred import Deferred, Waiting
from kafkatools.core.broker.server.requests import DELAYED, Client, CloseConnection, Request, Response
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, NotController, RequestTimedOut
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.slices import pausing


class ControllerMember(HasController, HasMetadataOffset, Protocol):
    """A node with a controller, which is active while the node leads the quorum."""


class Member(
    ControllerMember, Rights, HasConfig, HasClock, HasImage, HasBrokerSettings, HasLink, HasMutationQuotas, Protocol
):
    """A node of a cluster that can forward requests to the active controller."""

    def no_controller_reason(self) -> str: ...
    def no_response_reason(self) -> str: ...


_SLICED: Final = {api.key for api in BROKER_APIS.values() if api.work is Work.APPLIED}
_THROTTLED: Final = (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS)
"""Responses that begin with a throttle time, which a quota of changes may set."""
_GONE: Final[int] = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def is_present(connection: Client) -> bool:
    """Return whether a client is still connected. Without POLLRDHUP only a reset of the connection counts as
    disconnected.

    The listener itself does not notice: it does not read from a muted connection, whose request has no response yet.
    """
    if connection.is_closed:
        return False
    poller = select.poll()
    poller.register(connection.socket, _GONE)
    return not poller.poll(0)


def run_on_controller(
    node: ControllerMember,
    api_key: int,
    work: Callable[[], Any],
    respond: Callable[[Any], None],
    refuse: Callable[[], None],
    give_up: Callable[[], None],
    pause: Callable[[], None] | None = None,
) -> None:
    """Call `work` on the active controller, and `respond` with its result when all metadata records written so far are
    committed; DELAYED is not sent. With `pause`, work that changes topics calls it between changes and in large ones.

    `refuse` is called at once when this node's controller is not active, or stopped being active before `work` wrote a
    record: nothing was changed. `give_up` is called when the node loses the leadership after a record was written and
    before the commit: the outcome is unknown. Errors of `work` other than NotController are raised.

    If a handler has NOT_CONTROLLER for one of several resources, the metadata log refused a write after earlier
    changes. The records of those may never be committed, so no part of that response is sent.
    """
    if not node.controller.is_active:
        refuse()
        return
    start_offset, epoch = node.raft.end_offset, node.raft.epoch

    def is_still_active() -> bool:
        return node.controller.is_active and node.raft.epoch == epoch  # elected again, it may lack its records

    def pause_while_active() -> None:
        assert pause is not None
        pause()
        if not is_still_active():
            raise NotController()

    result = None
    with suppress(NotController):
        if pause is not None and api_key in _SLICED:
            with node.controller.sliced_change(), pausing(pause_while_active):
                result = work()
        else:
            result = work()
    if result is DELAYED:
        return
    if result is None or not is_still_active():
        (refuse if node.raft.end_offset == start_offset else give_up)()
    elif api_key == ApiKey.DESCRIBE_QUORUM or node.raft.end_offset <= node.metadata_offset:
        respond(result)
    else:
        node.pending.append(
            Waiting(node.raft.end_offset, lambda error_code: give_up() if error_code else respond(result))
        )


def forward(node: Member, request: Request) -> Response:
    """Handle a client's request on the active controller: on this node, or by forwarding it. Returns the response or
    DELAYED; raises CloseConnection if the client has disconnected."""
    if not is_present(request.connection):
        raise CloseConnection("the client has disconnected")
    return Forwarded(node, request).begin()


class Forwarded:
    """One client request for the active controller."""

    def __init__(self, node: Member, request: Request) -> None:
        self._node = node
        self._request = request
        self._frame = bytes(request.frame)
        self._begun_ms = node.clock.now_ms()
        api = BROKER_APIS[request.api_key]
        self._is_read = api.served_by is ServedBy.FORWARDED_READ
        self._is_of_voters = api.served_by is ServedBy.QUORUM_LEADER
        self._handler = api.load()
        self._later = Deferred(request)

    def begin(self) -> Response:
        """Handle or forward the request; returns the response, or DELAYED. A change of this broker's loggers alone is
        handled here. Raises the errors of the handler, such as CloseConnection."""
        request = self._request
        request.frame = memoryview(bytearray(self._frame))  # the connection reuses its buffer before a late response
        if request.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            resources = request.decode().resources
            if resources and all(resource.resource_type == BROKER_LOGGER_RESOURCE for resource in resources):
                return self._handler(self._node, request)  # loggers belong to this broker

        def give_up() -> None:
            if self._is_read:
                self._send()
            else:
                reason = "the controller did not commit it before another was elected"
                self._refuse(f"Whether the change was made is not known: {reason}")

        work = partial(self._handler, self._node, request)
        run_on_controller(self._node, request.api_key, work, self._later.complete, self._send, give_up, request.pause)
        return self._later.result()

    def _wait_ms(self) -> int:
        """The time limit for the controller: the request's own time-out, if any, at most request.timeout.ms."""
        limit_ms: int = self._node.config.request_timeout_ms
        own_ms: int = getattr(self._request.decode(), "timeout", 0)
        return min(limit_ms, own_ms) if own_ms > 0 else limit_ms

    def _send(self) -> None:
        node, client = self._node, self._request.connection
        fields = {
            "request_data": self._frame,
            "request_principal": encode_principal(ClientPrincipal(client.principal, client.is_token_authenticated)),
            "client_host_address": _address_bytes(client.client_host),
        }
        left_ms = max(1, self._begun_ms + self._wait_ms() - node.clock.now_ms())
        if self._is_read:
            node.link.send(ApiKey.ENVELOPE, fields, self._ended, timeout_ms=left_ms)
            return
        connection = self._request.connection
        node.link.send_once(
            ApiKey.ENVELOPE, fields, self._ended, is_needed=lambda: is_present(connection), timeout_ms=left_ms
        )

    def _ended(self, response: Any | None) -> None:
        """Respond after an Envelope response or a `Fate`."""
        if response is None or response is Fate.NOT_SENT:
            self._refuse(f"The request timed out: {self._node.no_controller_reason()}")
        elif response is Fate.UNKNOWN:
            self._refuse(f"Whether the change was made is not known: {self._node.no_response_reason()}")
        elif response is Fate.ABANDONED or int(response.error_code) or response.response_data is None:
            self._later.close_connection(CloseConnection("the controller did not answer the request"))
        else:
            data = bytes(response.response_data)
            self._note_throttle(data)
            self._later.complete([len(data).to_bytes(4, "big") + data])

    def _note_throttle(self, data: bytes) -> None:
        """Throttle the client as the controller's response says, which exceeded its quota of changes there."""
        if self._request.api_key in _THROTTLED:
            begin = 5 if self._request.is_flexible else 4
            throttle_ms = int.from_bytes(data[begin : begin + 4], "big")
            self._request.throttle_ms = max(self._request.throttle_ms, throttle_ms)

    def _refuse(self, words: str) -> None:
        """Respond REQUEST_TIMED_OUT with this message, in the form of the API; close the connection if its response has
        no place for an error."""
        if self._is_of_voters:
            self._later.complete(self._request.refuse(RequestTimedOut(words)))
            return
        try:
            response = self._handler(Refusing(self._node, RequestTimedOut(words)), self._request)
        except (CloseConnection, KafkaError) as error:
            self._later.close_connection(CloseConnection(str(error)))
        else:
            self._later.complete(response)


def _address_bytes(host: str) -> bytes:
    import ipaddress

    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return b"\x7f\0\0\1"


class RefusedChanges:
    """A stand-in for the controller when no controller accepted the request: it refuses every change with one error."""

    def __init__(self, image: MetadataImage, settings: BrokerSettings, error: KafkaError) -> None:
        self.image, self.settings = image, settings
        self._error = error

    @property
    def effective_config(self) -> Config:
        """The broker's config with its dynamic settings."""
        return self.settings.effective()

    def create_topics(
        self, new_topics: Sequence[topics.NewTopic], *, validate_only: bool = False, charge: object = None
    ) -> dict[str, TopicState | KafkaError]:
        """The error for each topic, by name."""
        return {topic.name: self._error for topic in new_topics}

    def create_acls(self, new_acls: Sequence[acls.Acl]) -> list[KafkaError | None]:
        """The error for each ACL."""
        return [self._error for _ in new_acls]

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self._error

    create_partitions = delete_topic = elect_leaders = alter_reassignments = list_reassignments = _refuse
    unregister_broker = alter_configs = replace_configs = delete_acls = _refuse
    alter_client_quotas = alter_scram_credentials = update_features = _refuse
    create_token = renew_token = expire_token = _refuse


class Refusing:
    """The node for a handler whose request no controller accepted: its `controller` refuses every change with the
    error, so the handler responds in the form of its API."""

    def __init__(self, node: Member, error: KafkaError) -> None:
        self.controller = RefusedChanges(node.image, node.broker_settings, error)
        self.image, self.broker_settings, self.authorizer = node.image, node.broker_settings, node.authorizer
        self.node_id, self.clock, self.quorum = node.node_id, node.clock, node.raft
        self.mutation_quotas = node.mutation_quotas
        self.authorize, self.authorize_or_raise = node.authorize, node.authorize_or_raise
        self.authorize_any, self.authorized_operations = node.authorize_any, node.authorized_operations
        self.no_controller_reason = node.no_controller_reason
