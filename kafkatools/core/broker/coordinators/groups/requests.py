"""Requests of the classic group protocol as handlers pass them to the coordinator.

An `ResponseCallback` is a callable that takes the response fields. It is called exactly once, at once or later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Fields = dict[str, Any]
ResponseCallback = Callable[[Fields], None]
Protocols = tuple[tuple[str, bytes], ...]


class Client(NamedTuple):
    """The client id and address of a request, the address as Kafka prints it (`/127.0.0.1`)."""

    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """A JoinGroup request. `needs_member_id`: a first join only returns a member id (KIP-394, version 4 on).
    `may_skip_assignment`: the client understands skip_assignment (KIP-814, version 9)."""

    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id: bool = False
    may_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """A SyncGroup request."""

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class MemberIdentity(NamedTuple):
    """The member id and instance id that a request names."""

    member_id: str
    instance_id: str | None = None


def join_error(member_id: str, error_code: int) -> Fields:
    """The fields of a JoinGroup response with an error code."""
    return {"error_code": error_code, "member_id": member_id}


def error_code_field(error_code: int) -> Fields:
    """The fields of a response with only an error code."""
    return {"error_code": error_code}
