"""Delegation tokens in the metadata log (KIP-48, KIP-900).

Source: DelegationTokenControlManager of Apache Kafka 4.3. Functions are pure: they take the records of tokens by token
id and return records. The HMAC of a token, which its holder uses as a password, is never stored: it is made of the
token id and delegation.token.secret.key.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.config import Config, Password
from kafkatools.core.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidPrincipalType,
)
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import DelegationTokenRecord, RemoveDelegationTokenRecord

_USER = "User:"
LONG_MAX = 2**63 - 1
Tokens = Mapping[str, Entity]
"""The record of each token by token id."""


class TokenRules(NamedTuple):
    """The delegation.token.* settings: the key, the longest life and the time until a token has to be renewed, in
    ms."""

    secret_key: bytes
    max_lifetime_ms: int
    renewal_ms: int


def token_rules(config: Config) -> TokenRules:
    """Read the settings. Raises DelegationTokenAuthDisabled without delegation.token.secret.key."""
    key = config["delegation.token.secret.key"]
    if not isinstance(key, Password):
        raise DelegationTokenAuthDisabled
    return TokenRules(
        key.value.encode(),
        config["delegation.token.max.lifetime.ms"],
        config["delegation.token.expiry.time.ms"],
    )


def token_hmac(secret_key: bytes, token_id: str) -> bytes:
    """The HMAC of a token."""
    import hmac

    return hmac.digest(secret_key, token_id.encode(), "sha512")


def create(
    owner: str, requester: str, renewers: Sequence[str], lifetime_ms: int, rules: TokenRules, now_ms: int
) -> Entity:
    """Return the record of a new token; `lifetime_ms` is the requested longest life, at most that of the rules, and
    that one if it is not positive. No time is after LONG_MAX. Raises InvalidPrincipalType for a renewer that is not a
    user."""
    if any(not renewer.startswith(_USER) for renewer in renewers):
        raise InvalidPrincipalType
    lifetime_ms = min(rules.max_lifetime_ms, lifetime_ms) if lifetime_ms > 0 else rules.max_lifetime_ms
    max_ms = min(now_ms + lifetime_ms, LONG_MAX)
    return DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=tuple(renewers),
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, now_ms + rules.renewal_ms),
        token_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
    )


def find(tokens: Tokens, given_hmac: bytes, rules: TokenRules) -> Entity:
    """Return the record of the token with an HMAC. Raises DelegationTokenNotFound."""
    import hmac

    for token_id, record in tokens.items():
        if hmac.compare_digest(token_hmac(rules.secret_key, token_id), given_hmac):
            return record
    raise DelegationTokenNotFound


def is_owner_or_renewer(record: Entity, principal: str) -> bool:
    """Return whether a principal owns a token, has requested it or may renew it."""
    return principal in (record.owner, record.requester, *record.renewers)


def renew(record: Entity, principal: str, period_ms: int, rules: TokenRules, now_ms: int) -> Entity:
    """Return the record of a token with a later expiry. Raises DelegationTokenExpired, DelegationTokenOwnerMismatch."""
    _ensure_alive(record, now_ms)
    if not is_owner_or_renewer(record, principal):
        raise DelegationTokenOwnerMismatch
    period_ms = min(rules.renewal_ms, period_ms) if period_ms > 0 else rules.renewal_ms
    return _with_expiry(record, min(record.max_timestamp, now_ms + period_ms))


def expire(record: Entity, principal: str, period_ms: int, now_ms: int) -> tuple[int, Entity]:
    """Return the new expiry and the record that sets it; with a negative period the token is removed now. Raises
    DelegationTokenOwnerMismatch, DelegationTokenExpired."""
    if not is_owner_or_renewer(record, principal):
        raise DelegationTokenOwnerMismatch
    if period_ms < 0:
        return now_ms, RemoveDelegationTokenRecord(token_id=record.token_id)
    _ensure_alive(record, now_ms)
    expiry_ms = min(record.max_timestamp, now_ms + period_ms)
    return expiry_ms, _with_expiry(record, expiry_ms)


def removals(tokens: Tokens, now_ms: int) -> list[Entity]:
    """Return the records that remove expired tokens."""
    return [
        RemoveDelegationTokenRecord(token_id=token_id)
        for token_id, record in tokens.items()
        if record.max_timestamp < now_ms or record.expiration_timestamp < now_ms
    ]


def _ensure_alive(record: Entity, now_ms: int) -> None:
    if record.max_timestamp < now_ms or record.expiration_timestamp < now_ms:
        raise DelegationTokenExpired


def _with_expiry(record: Entity, expiry_ms: int) -> Entity:
    return DelegationTokenRecord(
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp=record.issue_timestamp,
        max_timestamp=record.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=record.token_id,
    )
