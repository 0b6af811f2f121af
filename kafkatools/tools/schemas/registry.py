"""A client of a Confluent-compatible schema registry: schemas by ID with their references, and the newest ID of a
subject.

Rules: replies are kept for the life of the object, "not found" until `forget_missing`. After a failure of the registry
as a whole no further request is sent for `retry_ms`, so that a registry that is down costs one timeout and not one per
record. With a cache directory, replies that never change are also stored there, and used only if the registry fails: a
registry that was set up again may use the same IDs for other schemas.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from kafkatools.core import atomic_file
from kafkatools.core.clock import SystemClock
from kafkatools.tools.schemas.access import RegistryAccess
from kafkatools.tools.schemas.errors import RegistryFailed, SchemaError, reading_reply
from kafkatools.tools.schemas.transport import NotFound, RegistryTransport

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
LATEST = "latest"


class RegisteredSchema(NamedTuple):
    """A schema's text, its type (AVRO, PROTOBUF or JSON) and the schemas it references, by reference name."""

    text: str
    kind: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class SchemaCache:
    """Stores replies of one registry as files of a directory that only the user can read."""

    def __init__(self, directory: str, access: RegistryAccess) -> None:
        name = hashlib.sha256("\n".join(access.urls).encode()).hexdigest()[:16]
        self._directory = os.path.join(directory, name)

    def load(self, path: str) -> Any:
        """Return the stored reply; None if there is none or it is damaged."""
        try:
            with open(self._file(path), encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError):
            return None

    def store(self, path: str, reply: object) -> None:
        """Store a reply. A directory that cannot be written is ignored."""
        if self.load(path) == reply:
            return
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            atomic_file.replace(self._file(path), json.dumps(reply).encode(), 0o600)
        except OSError:
            return

    def _file(self, path: str) -> str:
        return os.path.join(self._directory, hashlib.sha256(path.encode()).hexdigest()[:32] + ".json")


def subject_path(subject: str, *more: object) -> str:
    """Return the path of a subject or of a resource below it."""
    return "/".join((f"/subjects/{quote(subject, safe='')}", *map(str, more)))


class SchemaRegistry:
    """A schema registry. Requests are made on demand; without a cache the object can be pickled. `used_cache` is the
    failure that made it use stored replies, None if it has not."""

    def __init__(
        self,
        access: RegistryAccess,
        cache: SchemaCache | None = None,
        *,
        retry_ms: int = 0,
        clock: Clock | None = None,
    ) -> None:
        self.url = access.urls[0]
        self.used_cache: RegistryFailed | None = None
        self._transport = RegistryTransport(access)
        self._cache = cache
        self._retry_ms = retry_ms
        self._clock = clock or SystemClock()
        self._failure: RegistryFailed | None = None
        self._failed_ms = 0
        self._replies: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url})"

    def by_id(self, schema_id: int, form: str = "") -> RegisteredSchema | None:
        """Fetch a schema and its references by ID; None if the ID is unknown. `form` "serialized" requests a Protobuf
        schema as a base64 descriptor, if the registry supports that. Raises RegistryFailed, and SchemaError if a
        referenced schema is missing."""
        query = f"?format={form}" if form else ""
        reply = self.get(f"/schemas/ids/{schema_id}{query}")
        if reply is None:
            return None
        registered = self.schema_of(reply, query)
        if form and any(";" in reference.text for _, reference in registered.references):
            return self.by_id(schema_id)  # some registries serialize no schema that is requested by its version
        return registered

    def newest_id(self, subject: str) -> int | None:
        """Fetch the ID of the newest schema of a subject; None if the subject is unknown. Raises RegistryFailed."""
        reply = self.get(subject_path(subject, "versions", LATEST), is_constant=False)
        with reading_reply(self.url):
            return None if reply is None else int(reply["id"])

    def schema_of(self, reply: Any, query: str = "") -> RegisteredSchema:
        """Build a schema from a registry's reply, with the schemas it references. Raises RegistryFailed for a reply
        that is not a schema, SchemaError if a referenced schema is missing."""
        with reading_reply(self.url):
            text, kind = str(reply["schema"]), str(reply.get("schemaType") or AVRO)
            named = [(str(one["name"]), str(one["subject"]), one["version"]) for one in reply.get("references") or ()]
        references = []
        for name, subject, version in named:
            path = subject_path(subject, "versions", version)
            referenced = self.get(path + query)
            if referenced is None:  # records may still need a version that is deleted, but not permanently
                referenced = self.get(f"{path}?deleted=true{query.replace('?', '&')}")
            if referenced is None:
                missing = f"version {version} of {subject}"
                raise SchemaError(f"{self.url}: a schema references {missing}, which the registry does not have")
            references.append((name, self.schema_of(referenced, query)))
        return RegisteredSchema(text, kind, tuple(references))

    def get(self, path: str, *, is_constant: bool = True) -> Any:
        """Return the reply to a GET request, once requested; None if the registry does not have it. `is_constant`: the
        reply never changes, so it may be stored. Raises RegistryFailed or SchemaError."""
        if path not in self._replies:
            self._replies[path] = self._fetch(path, is_constant=is_constant)
        return self._replies[path]

    def forget_missing(self) -> None:
        """Forget which schemas and subjects the registry did not have, so that they are requested again."""
        self._replies = {path: reply for path, reply in self._replies.items() if reply is not None}

    def _fetch(self, path: str, *, is_constant: bool) -> Any:
        cache = self._cache if is_constant else None
        try:
            reply = self.request("GET", path)
        except NotFound:
            return None
        except RegistryFailed as error:
            reply = None if cache is None else cache.load(path)
            if reply is None:
                raise
            self.used_cache = error
            return reply
        if cache is not None:
            cache.store(path, reply)
        return reply

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the JSON of the answer. Raises NotFound, RegistryFailed, and SchemaError with the
        registry's message."""
        now_ms = self._clock.now_ms()
        if self._failure is not None and now_ms - self._failed_ms < self._retry_ms:
            raise self._failure
        try:
            reply = self._transport.request(method, path, body)
        except RegistryFailed as error:
            self._failure, self._failed_ms = error, self._clock.now_ms()
            raise
        self._failure = None
        return reply
