"""Handlers for delegation tokens: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken,
DescribeDelegationToken (KIP-48, KIP-900).

Tokens are for clients that authenticated by SASL or by a certificate, and not by a token: others get
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED. Without delegation.token.secret.key every request is refused with
DELEGATION_TOKEN_AUTH_DISABLED.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.metadata.controller.acls import (
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DESCRIBE,
    DESCRIBE_TOKENS,
    USER,
)
from kafkatools.core.broker.metadata.controller.delegation_tokens import is_owner_or_renewer, token_hmac, token_rules
from kafkatools.core.broker.server.requests import ANONYMOUS, Request, Response
from kafkatools.core.errors import (
    DelegationTokenAuthorizationFailed,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    KafkaError,
)
from kafkatools.core.protocol.entities import Entity, Fields

_USER_TYPE = "User"


def _ensure_allowed(request: Request) -> None:
    if request.principal == ANONYMOUS or request.connection.is_token_authenticated:
        raise DelegationTokenRequestNotAllowed


def _principal(kind: str, principal: str) -> Fields:
    """The fields of a principal, whose names begin with `kind`."""
    principal_type, _, name = principal.partition(":")
    return {f"{kind}principal_type": principal_type, f"{kind}principal_name": name}


def handle_create_delegation_token(node: ChangeContext, request: Request) -> Response:
    """Answer CreateDelegationToken: a token for the client, or for another user with CREATE_TOKENS on that user. A
    refusal names owner and requester."""
    entity = request.decode()
    requester = request.principal
    owner = f"{entity.owner_principal_type}:{entity.owner_principal_name}" if entity.owner_principal_name else requester
    fields = {**_principal("", owner), **_principal("token_requester_", requester)}
    try:
        _ensure_allowed(request)
        if owner != requester:
            if not owner.startswith(f"{_USER_TYPE}:"):
                raise InvalidPrincipalType
            if not node.authorize(request, CREATE_TOKENS, USER, owner):
                raise DelegationTokenAuthorizationFailed
        renewers = [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in entity.renewers]
        record, token_mac = node.controller.create_token(owner, requester, renewers, entity.max_lifetime)
    except KafkaError as error:
        times = {"issue_timestamp": -1, "expiry_timestamp": -1, "max_timestamp": -1}
        return request.respond({**fields, **times, "error_code": error.code})
    return request.respond(
        {
            **fields,
            "issue_timestamp": record.issue_timestamp,
            "expiry_timestamp": record.expiration_timestamp,
            "max_timestamp": record.max_timestamp,
            "token_id": record.token_id,
            "hmac": token_mac,
        }
    )


def handle_renew_delegation_token(node: ChangeContext, request: Request) -> Response:
    """Answer RenewDelegationToken: the later expiry of a token that the client owns or may renew."""
    entity = request.decode()
    try:
        _ensure_allowed(request)
        expiry_ms = node.controller.renew_token(bytes(entity.hmac), request.principal, entity.renew_period)
    except KafkaError as error:
        return request.respond({"error_code": error.code, "expiry_timestamp": -1})
    return request.respond({"expiry_timestamp": expiry_ms})


def handle_expire_delegation_token(node: ChangeContext, request: Request) -> Response:
    """Answer ExpireDelegationToken: set the expiry of a token, or with a negative period remove it."""
    entity = request.decode()
    try:
        _ensure_allowed(request)
        expiry_ms = node.controller.expire_token(bytes(entity.hmac), request.principal, entity.expiry_time_period)
    except KafkaError as error:
        return request.respond({"error_code": error.code, "expiry_timestamp": -1})
    return request.respond({"expiry_timestamp": expiry_ms})


def handle_describe_delegation_token(node: ChangeContext, request: Request) -> Response:
    """Answer DescribeDelegationToken: the tokens of the named owners, or of all, that the client owns, may renew or may
    describe. Raises DelegationTokenRequestNotAllowed and DelegationTokenAuthDisabled."""
    entity = request.decode()
    _ensure_allowed(request)
    rules = token_rules(node.broker_settings.static)
    owners = None if entity.owners is None else {f"{o.principal_type}:{o.principal_name}" for o in entity.owners}
    records = [
        record
        for record in node.image.delegation_tokens.values()
        if (owners is None or record.owner in owners) and _may_describe(node, request, record)
    ]
    return request.respond({"tokens": [_described(record, rules.secret_key) for record in records]})


def _may_describe(node: ChangeContext, request: Request, record: Entity) -> bool:
    return (
        is_owner_or_renewer(record, request.principal)
        or node.authorize(request, DESCRIBE, DELEGATION_TOKEN, record.token_id)
        or node.authorize(request, DESCRIBE_TOKENS, USER, record.owner)
    )


def _described(record: Entity, secret_key: bytes) -> Fields:
    return {
        **_principal("", record.owner),
        **_principal("token_requester_", record.requester),
        "issue_timestamp": record.issue_timestamp,
        "expiry_timestamp": record.expiration_timestamp,
        "max_timestamp": record.max_timestamp,
        "token_id": record.token_id,
        "hmac": token_hmac(secret_key, record.token_id),
        "renewers": [_principal("", renewer) for renewer in record.renewers],
    }
