"""Protocols of single members of a node, from which other modules compose the part of a node that they use. They exist
for the type checker; `node.py` documents the members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkatools.core.broker.server.apis import Authorizes

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.broker_settings import BrokerSettings
    from kafkatools.core.broker.metadata.controller.controller import Controller
    from kafkatools.core.broker.metadata.image import MetadataImage
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.server.authorizer import StandardAuthorizer
    from kafkatools.core.broker.server.controller_link import ControllerLink
    from kafkatools.core.broker.server.deferred import WaitingResponses
    from kafkatools.core.broker.server.mutation_quotas import MutationQuotas
    from kafkatools.core.broker.server.requests import Request
    from kafkatools.core.clock import Clock
    from kafkatools.core.config import Config


class HasId(Protocol):
    @property
    def node_id(self) -> int: ...


class HasClock(Protocol):
    @property
    def clock(self) -> Clock: ...


class HasConfig(Protocol):
    @property
    def config(self) -> Config: ...


class HasBrokerSettings(Protocol):
    @property
    def broker_settings(self) -> BrokerSettings: ...


class HasMutationQuotas(Protocol):
    @property
    def mutation_quotas(self) -> MutationQuotas: ...


class HasImage(Protocol):
    @property
    def image(self) -> MetadataImage: ...


class HasMetadataOffset(Protocol):
    @property
    def metadata_offset(self) -> int: ...


class HasRaft(Protocol):
    @property
    def raft(self) -> Raft: ...


class HasController(HasRaft, Protocol):
    """A node with a controller, active while the node leads the quorum, and the responses that wait for a commit."""

    @property
    def controller(self) -> Controller: ...
    @property
    def pending(self) -> WaitingResponses: ...


class HasLink(Protocol):
    @property
    def link(self) -> ControllerLink: ...


class Rights(Authorizes, HasId, Protocol):
    """A node with its id and the checks of its clients' rights; without an `authorizer` clients may do everything."""

    @property
    def authorizer(self) -> StandardAuthorizer | None: ...
    def authorize_any(self, request: Request, operation: int, resource_type: int) -> bool: ...
    def authorized_operations(self, request: Request, resource_type: int, name: str) -> int: ...
