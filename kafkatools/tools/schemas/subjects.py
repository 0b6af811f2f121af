"""The subjects of a schema registry: their versions, compatibility checks, registration and deletion."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from urllib.parse import quote

from kafkatools.exit_status import UsageError
from kafkatools.tools.schemas.errors import RegistryFailed, SchemaError, reading_reply
from kafkatools.tools.schemas.registry import AVRO, LATEST, SchemaRegistry, subject_path
from kafkatools.tools.schemas.transport import NotFound

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
"""The compatibility levels of a schema registry."""


class Reference(NamedTuple):
    """A schema that another one uses under this name: a record, a .proto file or a JSON schema's $ref."""

    name: str
    subject: str
    version: int


class NewSchema(NamedTuple):
    """A schema to check or register. `kind`: AVRO, PROTOBUF or JSON."""

    text: str
    kind: str
    references: Sequence[Reference] = ()

    def body(self) -> dict[str, Any]:
        """Return the schema as a request has it."""
        body: dict[str, Any] = {"schema": self.text}
        if self.kind != AVRO:  # the first registries know no other type
            body["schemaType"] = self.kind
        if self.references:
            body["references"] = [reference._asdict() for reference in self.references]
        return body


class Version(NamedTuple):
    """A schema in a registry. Subject and version are None for a schema that was requested by its ID."""

    subject: str | None
    version: int | None
    id: int
    kind: str
    text: str
    references: tuple[Reference, ...]


class NoVersions(SchemaError):
    """A subject has no versions yet."""


class Subjects:
    """The subjects of a schema registry. Methods raise RegistryFailed if it does not answer or denies access, and
    SchemaError with its message if it refuses a request or does not have a subject or version."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry

    def names(self, *, deleted: bool = False) -> list[str]:
        """Return all subjects in alphabetical order, with `deleted` also soft-deleted ones."""
        reply = self._registry.request("GET", "/subjects" + ("?deleted=true" if deleted else ""))
        if not isinstance(reply, list):
            raise RegistryFailed(f"{self._registry.url} answers with JSON that is not a list of subjects")
        return sorted(map(str, reply))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject."""
        query = "?deleted=true" if deleted else ""
        reply = self._request("GET", subject_path(subject, "versions") + query, of=f"subject {subject}")
        with self._reading():
            return sorted(map(int, reply))

    def version(self, subject: str, version: int | None = None, *, deleted: bool = False) -> Version:
        """Return a version of a subject, None is the newest."""
        path = subject_path(subject, "versions", _or_newest(version)) + ("?deleted=true" if deleted else "")
        reply = self._request("GET", path, of=_name(subject, version))
        with self._reading():
            return _version(reply, int(reply["id"]))

    def by_id(self, schema_id: int) -> Version:
        """Return the schema with this ID."""
        reply = self._request("GET", f"/schemas/ids/{schema_id}", of=f"schema {schema_id}")
        with self._reading():
            return _version(reply, schema_id)

    def find(self, subject: str, schema: NewSchema) -> Version | None:
        """Return the version of a subject that has this schema, None if it has none."""
        try:
            reply = self._registry.request("POST", subject_path(subject), schema.body())
        except NotFound:
            return None
        with self._reading():
            return _version(reply, int(reply["id"]))

    def register(self, subject: str, schema: NewSchema) -> int:
        """Register a schema under a subject and return its ID, that of the existing one if it is registered
        already."""
        reply = self._request("POST", subject_path(subject, "versions"), schema.body(), of=f"subject {subject}")
        with self._reading():
            return int(reply["id"])

    def check(self, subject: str, schema: NewSchema, version: int | None = None) -> tuple[str, ...] | None:
        """Check a schema by the compatibility level of its subject: against this version, None is the newest. Return
        None if it is compatible, else the registry's messages. Raises NoVersions if the subject has none, so accepts
        every schema."""
        path = f"/compatibility{subject_path(subject, 'versions', _or_newest(version))}?verbose=true"
        try:
            reply = self._registry.request("POST", path, schema.body())
        except NotFound:
            missing = f"The registry has no {_name(subject, version)}"
            raise (NoVersions if version is None else SchemaError)(missing) from None
        with self._reading():
            if reply.get("is_compatible"):
                return None
            messages = reply.get("messages") or [reply.get("reason") or "the registry gives no reason"]
            return tuple(" ".join(str(message).split()) for message in messages)

    def refusal(self, subject: str, schema: NewSchema) -> tuple[str, ...] | None:
        """Check a schema as its registration does: against the newest version, with a transitive level against all.
        Return None if it can be registered, else the registry's messages."""
        try:
            messages = self.check(subject, schema)
        except NoVersions:
            return None
        if messages is not None:
            return messages
        level = self.compatibility(subject) or self.compatibility() or ""
        for version in reversed(self.versions(subject)[:-1] if level.endswith("_TRANSITIVE") else ()):
            messages = self.check(subject, schema, version)
            if messages is not None:
                return tuple(f"version {version}: {message}" for message in messages)
        return None

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a version, or with None the subject, and return the deleted versions. `permanent` removes what
        was soft-deleted before."""
        path = subject_path(subject) if version is None else subject_path(subject, "versions", version)
        path += "?permanent=true" if permanent else ""
        reply = self._request("DELETE", path, of=_name(subject, version))
        with self._reading():
            return sorted(map(int, reply)) if isinstance(reply, list) else [int(reply)]

    def compatibility(self, subject: str | None = None) -> str | None:
        """Return the compatibility level of a subject, or of the registry; None if the subject has none of its own."""
        try:
            reply = self._registry.request("GET", _config_path(subject))
        except NotFound:
            if subject is None:
                raise
            return None
        with self._reading():
            return str(reply.get("compatibilityLevel") or reply["compatibility"])

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the compatibility level of a subject, or of the registry."""
        self._request("PUT", _config_path(subject), {"compatibility": level}, of=subject or "level")

    def unset_compatibility(self, subject: str) -> None:
        """Remove the level of a subject, so that the registry's level applies."""
        self._request("DELETE", _config_path(subject), of=f"compatibility level of {subject}")

    def _reading(self) -> AbstractContextManager[None]:
        return reading_reply(self._registry.url)

    def _request(self, method: str, path: str, body: Any = None, *, of: str) -> Any:
        try:
            return self._registry.request(method, path, body)
        except NotFound as error:
            reason = f": {error}" if str(error) else ""
            raise SchemaError(f"The registry has no {of}{reason}") from None


def _version(reply: Any, schema_id: int) -> Version:
    references = tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in reply.get("references") or ()
    )
    kind = str(reply.get("schemaType") or AVRO)
    return Version(reply.get("subject"), reply.get("version"), schema_id, kind, str(reply["schema"]), references)


def _name(subject: str, version: int | None) -> str:
    return f"subject {subject}" if version is None else f"version {version} of {subject}"


def _or_newest(version: int | None) -> int | str:
    return LATEST if version is None else version


def _config_path(subject: str | None) -> str:
    return "/config" if subject is None else f"/config/{quote(subject, safe='')}"


def split_version(text: str) -> tuple[str, int | None]:
    """Split SUBJECT:VERSION; the version is None if it is missing or `latest`. A subject may contain colons."""
    subject, colon, version = text.rpartition(":")
    if names_latest(text):
        return subject, None
    if colon and subject and version.isdecimal():
        return subject, int(version)
    return text, None


def names_latest(text: str) -> bool:
    """Return whether text is SUBJECT:latest."""
    subject, _, version = text.rpartition(":")
    return bool(subject) and version == LATEST


def parse_reference(text: str) -> Reference:
    """Parse NAME=SUBJECT:VERSION. Raises UsageError."""
    name, equals, place = text.partition("=")
    subject, version = split_version(place)
    if not (name and equals and subject) or version is None:
        raise UsageError(f"--reference takes NAME=SUBJECT:VERSION, not '{text}'")
    return Reference(name, subject, version)
