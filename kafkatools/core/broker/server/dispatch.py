"""The one table of APIs this broker serves, and the way from a frame to its handler (Kafka's KafkaApis.handle).

ApiVersions answers from this table. A handler module is imported when its API is first used, so that a broker is
ready before it needs them all. An API that is not in the table, or a version outside of its range, closes the
connection, as in Kafka; ApiVersions alone answers every version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.broker.server.request_bounds import PAUSING, ensure_bounded, may_take_long, refused
from kafkatools.core.broker.server.requests import DELAYED, SLICED, CloseConnection, Request, Response
from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.frames import decode_request_header
from kafkatools.core.protocol.slices import TooManyElements, pausing

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

Handler = Callable[["Node", Request], Response]
API_VERSIONS_KEY = 18
PRODUCE_KEY = 0


class Api(NamedTuple):
    """One API: key, handler module, versions served, and the first version with flexible headers."""

    key: int
    name: str
    lowest: int
    highest: int
    flexible_since: int


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(0, "produce", 3, 13, 9),
        Api(1, "fetch", 4, 18, 12),
        Api(2, "list_offsets", 1, 11, 6),
        Api(3, "metadata", 0, 13, 9),
        Api(8, "offset_commit", 2, 10, 8),
        Api(9, "offset_fetch", 1, 10, 6),
        Api(10, "find_coordinator", 0, 6, 3),
        Api(11, "join_group", 0, 9, 6),
        Api(12, "heartbeat", 0, 4, 4),
        Api(13, "leave_group", 0, 5, 4),
        Api(14, "sync_group", 0, 5, 4),
        Api(15, "describe_groups", 0, 6, 5),
        Api(16, "list_groups", 0, 5, 3),
        Api(18, "api_versions", 0, 4, 3),
        Api(19, "create_topics", 2, 7, 5),
        Api(20, "delete_topics", 1, 6, 4),
        Api(21, "delete_records", 0, 2, 2),
        Api(22, "init_producer_id", 0, 5, 2),
        Api(23, "offset_for_leader_epoch", 2, 4, 4),
        Api(24, "add_partitions_to_txn", 0, 5, 3),
        Api(25, "add_offsets_to_txn", 0, 4, 3),
        Api(26, "end_txn", 0, 5, 3),
        Api(27, "write_txn_markers", 1, 2, 1),
        Api(28, "txn_offset_commit", 0, 5, 3),
        Api(29, "describe_acls", 1, 3, 2),
        Api(30, "create_acls", 1, 3, 2),
        Api(31, "delete_acls", 1, 3, 2),
        Api(32, "describe_configs", 1, 4, 4),
        Api(33, "alter_configs", 0, 2, 2),
        Api(34, "alter_replica_log_dirs", 1, 2, 2),
        Api(35, "describe_log_dirs", 1, 5, 2),
        Api(37, "create_partitions", 0, 3, 2),
        Api(38, "create_delegation_token", 1, 3, 2),
        Api(39, "renew_delegation_token", 1, 2, 2),
        Api(40, "expire_delegation_token", 1, 2, 2),
        Api(41, "describe_delegation_token", 1, 3, 2),
        Api(42, "delete_groups", 0, 2, 2),
        Api(43, "elect_leaders", 0, 2, 2),
        Api(44, "incremental_alter_configs", 0, 1, 1),
        Api(45, "alter_partition_reassignments", 0, 1, 0),
        Api(46, "list_partition_reassignments", 0, 0, 0),
        Api(47, "offset_delete", 0, 0, 99),
        Api(48, "describe_client_quotas", 0, 1, 1),
        Api(49, "alter_client_quotas", 0, 1, 1),
        Api(50, "describe_user_scram_credentials", 0, 0, 0),
        Api(51, "alter_user_scram_credentials", 0, 0, 0),
        Api(55, "describe_quorum", 0, 2, 0),
        Api(57, "update_features", 0, 2, 0),
        Api(60, "describe_cluster", 0, 2, 0),
        Api(61, "describe_producers", 0, 0, 0),
        Api(64, "unregister_broker", 0, 0, 0),
        Api(65, "describe_transactions", 0, 0, 0),
        Api(66, "list_transactions", 0, 2, 0),
        Api(68, "consumer_group_heartbeat", 0, 1, 0),
        Api(69, "consumer_group_describe", 0, 1, 0),
        Api(74, "list_config_resources", 0, 1, 0),
        Api(75, "describe_topic_partitions", 0, 0, 0),
        Api(76, "share_group_heartbeat", 1, 1, 0),
        Api(77, "share_group_describe", 1, 1, 0),
        Api(78, "share_fetch", 1, 2, 0),
        Api(79, "share_acknowledge", 1, 2, 0),
        Api(83, "initialize_share_group_state", 0, 0, 0),
        Api(84, "read_share_group_state", 0, 0, 0),
        Api(85, "write_share_group_state", 0, 1, 0),
        Api(86, "delete_share_group_state", 0, 0, 0),
        Api(87, "read_share_group_state_summary", 0, 1, 0),
        Api(90, "describe_share_group_offsets", 0, 1, 0),
        Api(91, "alter_share_group_offsets", 0, 0, 0),
        Api(92, "delete_share_group_offsets", 0, 0, 0),
    )
}


class Dispatcher:
    """Parses the request header and calls the handler."""

    def __init__(self, node: Node, apis: Mapping[int, Api] = APIS) -> None:
        self._node = node
        self._handlers: dict[int, Handler] = {}
        self.apis = apis

    def __call__(self, request: Request) -> Response:
        api = self.apis.get(request.api_key)
        if api is None:
            raise CloseConnection(f"api key {request.api_key} is not served")
        version = request.version
        if not api.lowest <= version <= api.highest:
            if api.key != API_VERSIONS_KEY:
                raise CloseConnection(f"version {version} of {api.name} is not served")
        else:
            request.is_flexible = version >= api.flexible_since
            try:
                header = decode_request_header(request.frame)
            except DecodeError as error:
                raise CloseConnection(f"malformed request header: {error}") from error
            request.client_id, request.body_offset = header.client_id, header.body_offset
        if self._node.quotas.is_active:
            self._node.quotas.begin(request)
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = self._load(api)
        lane = request.lane
        if lane is not None and may_take_long(self._node, request):
            lane.submit(request, lambda: self._handle_in_slices(api, handler, request))
            return SLICED
        return self._handle(api, handler, request)

    def _handle_in_slices(self, api: Api, handler: Handler, request: Request) -> Response:
        try:
            ensure_bounded(request)
        except TooManyElements:
            return refused(self._node, request, api.name)
        if api.key not in PAUSING:
            return self._handle(api, handler, request)
        with pausing(request.pause):
            return self._handle(api, handler, request)

    def _handle(self, api: Api, handler: Handler, request: Request) -> Response:
        try:
            response = handler(self._node, request)
            if response is DELAYED and request.quotas is not None:
                request.quotas.note_request(request)
            return response
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: a handler that fails ends its connection, not the broker
            self._node.note_failure(error)
            raise CloseConnection(f"{api.name} failed: {error}") from error

    def _load(self, api: Api) -> Handler:
        handler = self._handlers[api.key] = self.handler_of(api)
        return handler

    def handler_of(self, api: Api) -> Handler:
        """Who answers an API."""
        return handler_in(api.name)


def handler_in(name: str) -> Handler:
    """The handler of an API, by its module."""
    handler: Handler = import_module(f"kafkatools.core.broker.apis.{name}").handle
    return handler
