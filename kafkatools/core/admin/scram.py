"""Describe and alter users' SCRAM credentials (KafkaAdminClient, KIP-554).

A password is salted locally (RFC 5802) and never sent.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in, first_error
from kafkatools.core.errors import KafkaError, ResourceNotFound
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.secrets import HIDDEN

MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
"""Name -> number on the wire and hash."""
DEFAULT_ITERATIONS = 4096
MIN_ITERATIONS = 4096
_SALT_BYTES = 32
_NAMES = {number: name for name, (number, _) in MECHANISMS.items()}


class ScramCredentials(NamedTuple):
    """A user's SCRAM mechanisms with their iterations, or the user's error."""

    user: str
    iterations: dict[str, int]
    error: KafkaError | None = None


class ScramUpsertion(NamedTuple):
    """A SCRAM credential to set."""

    mechanism: str
    iterations: int
    password: str

    def __repr__(self) -> str:
        """Show the credential without its password, for logs and tracebacks."""
        return f"ScramUpsertion(mechanism={self.mechanism!r}, iterations={self.iterations}, password={HIDDEN!r})"


def describe_user_scram_credentials(admin: AdminClient, users: Sequence[str]) -> list[ScramCredentials]:
    """Return these users' credentials (default: all users), without users that have none; `error` is set for a user
    that failed. Raises KafkaError when the request fails."""
    fields = {"users": [{"name": user} for user in users] or None}
    response = admin.send(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, fields, check=error_in)
    all_credentials = [_credentials(result) for result in response.results]
    return [credentials for credentials in all_credentials if not isinstance(credentials.error, ResourceNotFound)]


def _credentials(result: Entity) -> ScramCredentials:
    infos = sorted((int(info.mechanism), int(info.iterations)) for info in result.credential_infos)
    iterations = {_NAMES.get(mechanism, "UNKNOWN"): count for mechanism, count in infos}
    return ScramCredentials(result.user, iterations, error_in(result))


def alter_user_scram_credentials(
    admin: AdminClient, user: str, upsertions: Sequence[ScramUpsertion] = (), deletions: Sequence[str] = ()
) -> None:
    """Delete, then set credentials of one user. Each credential takes a request of its own, because Kafka refuses a
    request that names a user twice. Raises KafkaError; credentials already changed stay so."""
    for mechanism in deletions:
        _alter(admin, {"deletions": [{"name": user, "mechanism": MECHANISMS[mechanism][0]}], "upsertions": ()})
    for upsertion in upsertions:
        _alter(admin, {"deletions": (), "upsertions": [_salted(user, upsertion)]})


def _salted(user: str, upsertion: ScramUpsertion) -> Fields:
    number, digest = MECHANISMS[upsertion.mechanism]
    salt = secrets.token_bytes(_SALT_BYTES)
    return {
        "name": user,
        "mechanism": number,
        "iterations": upsertion.iterations,
        "salt": salt,
        "salted_password": hashlib.pbkdf2_hmac(digest, upsertion.password.encode(), salt, upsertion.iterations),
    }


def _alter(admin: AdminClient, fields: Fields) -> None:
    admin.change(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, fields, lambda response: first_error(response.results))
