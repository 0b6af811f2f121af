"""Dispatch of request frames to their handlers (Kafka's KafkaApis.handle).

An API or version that the listener does not serve closes the connection, as in Kafka; ApiVersions is answered in any
version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from kafkatools.core.broker.metadata.controller.acls import CLUSTER_ACTION
from kafkatools.core.broker.server.apis import BROKER_APIS, Api, Handler, Work
from kafkatools.core.broker.server.quotas import Quotas
from kafkatools.core.broker.server.request_bounds import Load, ensure_bounded, may_take_long, refused
from kafkatools.core.broker.server.requests import DELAYED, SLICED, CloseConnection, Lane, Request, Response
from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import decode_request_header
from kafkatools.core.protocol.slices import TooManyElements, pausing


class Served(Load, Protocol):
    """The node behind a listener; `Node` documents the members."""

    @property
    def quotas(self) -> Quotas: ...
    @property
    def is_alone(self) -> bool: ...
    def note_failure(self, error: Exception) -> None: ...
    def change_in_slices(self, pause: Callable[[], None], change: Callable[[], Response]) -> Response: ...


class Dispatcher:
    """Decodes request headers and calls the handlers of one listener; a request that may take long is submitted to the
    slow lane (SLICED)."""

    def __init__(self, node: Served, apis: Mapping[int, Api] = BROKER_APIS) -> None:
        self._node = node
        self._handlers: dict[int, Handler] = {}
        self.apis = apis

    def __call__(self, request: Request) -> Response:
        api = self.apis.get(request.api_key)
        if api is None:
            raise CloseConnection(f"api key {request.api_key} is not served")
        version = request.version
        if not api.lowest <= version <= api.highest:
            if api.key != ApiKey.API_VERSIONS:
                raise CloseConnection(f"version {version} of {api.name} is not served")
        else:
            request.is_flexible = version >= api.flexible_since
            try:
                header = decode_request_header(request.frame)
            except DecodeError as error:
                raise CloseConnection(f"malformed request header: {error}") from error
            request.client_id, request.body_offset = header.client_id, header.body_offset
        if self._node.quotas.is_active and api.operation != CLUSTER_ACTION:  # as in Kafka, nodes have no quota
            self._node.quotas.begin(request)
        handler = self._handlers.get(api.key)
        if handler is None:
            handler = self._handlers[api.key] = self.handler_of(api)
        lane = request.lane
        if lane is not None and may_take_long(self._node, api, request):
            request.enter_lane(partial(self._resume, lane, api, request))
            lane.submit(request, lambda: self._handle_in_slices(api, handler, request))
            return SLICED
        return self._handle(api, handler, request)

    def _handle_in_slices(self, api: Api, handler: Handler, request: Request) -> Response:
        try:
            ensure_bounded(api, request)
        except TooManyElements:
            return refused(self._node, api, request)
        if api.work is Work.APPLIED and request.pause is not None and self._node.is_alone:
            return self._node.change_in_slices(request.pause, lambda: self._handle_with_pauses(api, handler, request))
        if api.work in (Work.AT_ONCE, Work.APPLIED):
            return self._handle(api, handler, request)
        return self._handle_with_pauses(api, handler, request)

    def _handle_with_pauses(self, api: Api, handler: Handler, request: Request) -> Response:
        with pausing(request.pause):
            return self._handle(api, handler, request)

    def _resume(self, lane: Lane, api: Api, request: Request, work: Callable[[], Response]) -> None:
        """Execute `work` of a delayed request in the slow lane, unless the client has disconnected."""
        if not request.connection.is_closed:
            request.connection.begin_slices()
            lane.submit(request, lambda: self._handle_with_pauses(api, lambda _node, _request: work(), request))

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

    def handler_of(self, api: Api) -> Handler:
        """The handler of an API on this listener."""
        return api.load()
