"""SCRAM credentials in the metadata log.

Source: ScramControlManager and ScramImage of Apache Kafka 4.3. Functions are pure: they take the credentials and return
records. A request names a user once; an error for one user does not affect other users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkatools.core.errors import (
    DuplicateResource,
    KafkaError,
    ResourceNotFound,
    UnacceptableCredential,
    UnknownServerError,
    UnsupportedSaslMechanism,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.schemas.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord

MECHANISMS = {1: "sha256", 2: "sha512"}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
Outcomes = dict[str, KafkaError | None]


class Upsertion(NamedTuple):
    """A SCRAM credential to set."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class ScramCredentials:
    """All SCRAM credentials by user and mechanism, as their records."""

    def __init__(self) -> None:
        self.by_user: dict[str, dict[int, Any]] = {}

    def replay(self, record: Entity) -> None:
        """Replay a UserScramCredentialRecord."""
        self.by_user.setdefault(record.name, {})[record.mechanism] = record

    def remove(self, record: Entity) -> None:
        """Replay a RemoveUserScramCredentialRecord."""
        user_records = self.by_user.get(record.name, {})
        user_records.pop(record.mechanism, None)
        if not user_records:
            self.by_user.pop(record.name, None)

    def has(self, name: str, mechanism: int) -> bool:
        """Return whether a user has a credential of a mechanism."""
        return mechanism in self.by_user.get(name, {})

    def records(self) -> Iterator[Any]:
        """Yield the records of all credentials for a snapshot."""
        for user_records in self.by_user.values():
            yield from user_records.values()


def alter(
    credentials: ScramCredentials, deletions: Sequence[tuple[str, int]], upsertions: Sequence[Upsertion]
) -> tuple[Outcomes, list[Any]]:
    """Return an error or None for each user, and the records of the changes. A user who is named twice gets an error
    and no record."""
    counts = Counter([name for name, _ in deletions] + [upsertion.name for upsertion in upsertions])
    outcomes: Outcomes = {}
    records: list[Any] = []
    for name, mechanism in deletions:
        outcomes[name] = _deletion_problem(credentials, name, mechanism)
        if outcomes[name] is None and counts[name] == 1:
            records.append(RemoveUserScramCredentialRecord(name=name, mechanism=mechanism))
    for upsertion in upsertions:
        if outcomes.get(upsertion.name) is not None:
            continue
        outcomes[upsertion.name] = _upsertion_problem(upsertion)
        if outcomes[upsertion.name] is None and counts[upsertion.name] == 1:
            records.append(_record(upsertion))
    for name, problem in outcomes.items():
        if problem is None and counts[name] > 1:
            outcomes[name] = DuplicateResource("A user credential cannot be altered twice in the same request")
    return outcomes, records


def _deletion_problem(credentials: ScramCredentials, name: str, mechanism: int) -> KafkaError | None:
    problem = _user_problem(name, mechanism)
    if problem is None and not credentials.has(name, mechanism):
        return ResourceNotFound("Attempt to delete a user credential that does not exist")
    return problem


def _upsertion_problem(upsertion: Upsertion) -> KafkaError | None:
    problem = _user_problem(upsertion.name, upsertion.mechanism)
    if problem is not None:
        return problem
    if upsertion.iterations < MIN_ITERATIONS:
        return UnacceptableCredential("Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        return UnacceptableCredential("Too many iterations")
    return None if upsertion.salted_password else UnknownServerError()  # Java rejects an empty HMAC key


def _user_problem(name: str, mechanism: int) -> KafkaError | None:
    if not name:
        return UnacceptableCredential("Username must not be empty")
    return None if mechanism in MECHANISMS else UnsupportedSaslMechanism("Unknown SCRAM mechanism")


def _record(upsertion: Upsertion) -> Any:
    """Return the credential's record, with stored key and server key from the salted password (RFC 5802)."""
    import hashlib
    import hmac

    digest = MECHANISMS[upsertion.mechanism]
    client_key = hmac.digest(upsertion.salted_password, b"Client Key", digest)
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=upsertion.salt,
        stored_key=hashlib.new(digest, client_key).digest(),
        server_key=hmac.digest(upsertion.salted_password, b"Server Key", digest),
        iterations=upsertion.iterations,
    )


def describe(credentials: ScramCredentials, users: Sequence[str] | None) -> list[Fields]:
    """Return the results of DescribeUserScramCredentials for these users, or for all without any. An unknown user, or
    one who is named twice, has an error code."""
    results = []
    counts = Counter(users)
    for name in dict.fromkeys(users or credentials.by_user):
        error: KafkaError | None = None
        if counts[name] > 1:
            error = DuplicateResource(
                f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
            )
        elif name not in credentials.by_user:
            error = ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")
        user_records = credentials.by_user.get(name, {}) if error is None else {}
        results.append(
            {
                "user": name,
                "error_code": 0 if error is None else error.code,
                "error_message": "" if error is None else str(error),
                "credential_infos": [
                    {"mechanism": record.mechanism, "iterations": record.iterations} for record in user_records.values()
                ],
            }
        )
    return results
