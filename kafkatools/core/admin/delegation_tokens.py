"""Create, renew, expire and describe delegation tokens (KafkaAdminClient, KIP-48, KIP-373).

Brokers reject these requests on connections that were authenticated with a delegation token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields

BROKERS_DEFAULT = -1
"""As a period: the default in the broker's configuration; for `expire`: at once."""

_FIRST_WITH_OWNER = 3


class DelegationToken(NamedTuple):
    """A delegation token; times in ms since 1970. Anyone with the `hmac` can log in as the owner (`User:alice`)."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    def __repr__(self) -> str:
        return f"DelegationToken(token_id={self.token_id!r}, owner={self.owner!r}, hmac=[hidden])"


def create_delegation_token(
    admin: AdminClient, renewers: Sequence[str] = (), max_lifetime_ms: int = BROKERS_DEFAULT, owner: str | None = None
) -> DelegationToken:
    """Create a token for this user or for `owner`. `max_lifetime_ms` -1: the brokers' maximum. Raises KafkaError, and
    ValueError for a principal that is not type:name."""

    def fields(version: int) -> Fields:
        common = {"renewers": [_principal(renewer) for renewer in renewers], "max_lifetime": max_lifetime_ms}
        if version < _FIRST_WITH_OWNER and owner is None:
            return common
        kind, name = (None, None) if owner is None else _split(owner)
        return {**common, "owner_principal_type": kind, "owner_principal_name": name}

    oldest = 0 if owner is None else _FIRST_WITH_OWNER
    response = admin.send(ApiKey.CREATE_DELEGATION_TOKEN, fields, min_version=oldest, check=error_in)
    return _token(response, tuple(renewers))


def renew_delegation_token(admin: AdminClient, hmac: bytes, period_ms: int = BROKERS_DEFAULT) -> int:
    """Renew a token for `period_ms` (-1: the brokers' default) and return its new expiry time (ms since 1970). Raises
    KafkaError."""
    fields = {"hmac": hmac, "renew_period": period_ms}
    return int(admin.send(ApiKey.RENEW_DELEGATION_TOKEN, fields, check=error_in).expiry_timestamp)


def expire_delegation_token(admin: AdminClient, hmac: bytes, period_ms: int = BROKERS_DEFAULT) -> int:
    """Make a token expire in `period_ms` from now, at once with -1; return its new expiry time (ms since 1970). Raises
    KafkaError."""
    fields = {"hmac": hmac, "expiry_time_period": period_ms}
    return int(admin.send(ApiKey.EXPIRE_DELEGATION_TOKEN, fields, check=error_in).expiry_timestamp)


def describe_delegation_tokens(admin: AdminClient, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """Return the tokens visible to this user, of these owners or (None) of all. Raises KafkaError, and ValueError for
    an owner that is not type:name."""
    principals = None if owners is None else [_principal(owner) for owner in owners]
    response = admin.send(ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": principals}, check=error_in)
    return [
        _token(token, tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers))
        for token in response.tokens
    ]


def _split(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {principal}")
    return kind, name


def _principal(principal: str) -> dict[str, str]:
    kind, name = _split(principal)
    return {"principal_type": kind, "principal_name": name}


def _token(token: Entity, renewers: tuple[str, ...]) -> DelegationToken:
    owner = f"{token.principal_type}:{token.principal_name}"
    requester = owner
    if hasattr(token, "token_requester_principal_name"):
        requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        owner,
        requester,
        renewers,
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )
