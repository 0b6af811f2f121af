"""Delegation tokens: every request is refused, as Apache Kafka refuses it on a PLAINTEXT listener.

Not done: delegation tokens; there is no listener on which they are allowed.
"""

from __future__ import annotations

from kafkatools.core.broker.node_parts import Rights
from kafkatools.core.broker.server.authorizer import ANONYMOUS
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import DelegationTokenRequestNotAllowed


def handle_create_delegation_token(node: Rights, request: Request) -> Response:
    """CreateDelegationToken: refused."""
    request.decode()
    kind, _, name = ANONYMOUS.partition(":")
    return request.respond(
        {
            "error_code": DelegationTokenRequestNotAllowed.code,
            "principal_type": kind,
            "principal_name": name,
            "token_requester_principal_type": kind,
            "token_requester_principal_name": name,
            "issue_timestamp": -1,
            "expiry_timestamp": -1,
            "max_timestamp": -1,
            "token_id": "",
            "hmac": b"",
        }
    )


def handle_renew_delegation_token(node: Rights, request: Request) -> Response:
    """RenewDelegationToken: refused."""
    request.decode()
    return request.respond({"error_code": DelegationTokenRequestNotAllowed.code, "expiry_timestamp": -1})


def handle_expire_delegation_token(node: Rights, request: Request) -> Response:
    """ExpireDelegationToken: refused."""
    request.decode()
    return request.respond({"error_code": DelegationTokenRequestNotAllowed.code, "expiry_timestamp": -1})


def handle_describe_delegation_token(node: Rights, request: Request) -> Response:
    """DescribeDelegationToken: refused."""
    request.decode()
    return request.respond({"error_code": DelegationTokenRequestNotAllowed.code, "tokens": []})
