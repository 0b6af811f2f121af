"""A read-only client of a Confluent-compatible schema registry: schemas by ID with their references, newest ID by
subject.

Confluent's wire format is byte 0, the schema ID in four big-endian bytes, then the encoded value. For Protobuf the
message index path precedes the value: a count and that many indexes as zigzag varints; a single 0 means the first
message. Replies are cached for the life of the object, also "not found" and the newest ID of a subject.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from kafkatools.pipeline.errors import PipelineError

HEADER_SIZE = 5
_TIMEOUT_S = 10
_ATTEMPTS = 3
_SERVER_ERRORS = 500


class RegisteredSchema(NamedTuple):
    """A schema's text, its type (AVRO, PROTOBUF or JSON) and the schemas it references, by reference name."""

    text: str
    kind: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class SchemaRegistry:
    """A schema registry at a URL, with optional user and password. Requests are made on demand; the object can be
    pickled."""

    def __init__(self, url: str, credentials: tuple[str, str] | None = None) -> None:
        self.url = url
        self._credentials = credentials
        self._replies: dict[str, dict[str, Any] | None] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url})"

    def by_id(self, schema_id: int, form: str = "") -> RegisteredSchema | None:
        """Fetch a schema and its references by ID; None if the ID is unknown. `form` "serialized" requests a Protobuf
        schema as a base64 descriptor, if the registry supports that. Raises PipelineError if the registry does not
        answer or returns an error, or a referenced schema is missing."""
        query = f"?format={form}" if form else ""
        response = self._get(f"/schemas/ids/{schema_id}{query}")
        return None if response is None else self._schema(response, query)

    def newest_id(self, subject: str) -> int | None:
        """Fetch the ID of the newest schema of a subject; None if the subject is unknown. Raises PipelineError if the
        registry does not answer or returns an error."""
        response = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if response is None else int(response["id"])

    def _schema(self, response: dict[str, Any], query: str) -> RegisteredSchema:
        references = []
        for reference in response.get("references") or ():
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}{query}"
            referenced = self._get(path)
            if referenced is None:
                subject = f"version {reference['version']} of {reference['subject']}"
                raise PipelineError(f"{self.url}: a schema references {subject}, which the registry does not have")
            references.append((str(reference["name"]), self._schema(referenced, query)))
        return RegisteredSchema(response["schema"], response.get("schemaType") or "AVRO", tuple(references))

    def _get(self, path: str) -> dict[str, Any] | None:
        if path not in self._replies:
            self._replies[path] = self._request(path)
        return self._replies[path]

    def _request(self, path: str) -> dict[str, Any] | None:
        request = Request(self.url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self._credentials is not None:
            token = base64.b64encode(":".join(self._credentials).encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with urlopen(request, timeout=_TIMEOUT_S) as reply:
                    response: dict[str, Any] = json.load(reply)
                    return response
            except HTTPError as error:
                error.close()
                if error.code == 404:
                    return None
                if error.code < _SERVER_ERRORS or attempt == _ATTEMPTS:
                    raise PipelineError(f"{self.url}{path}: {error.code} {error.reason}") from error
            except (URLError, TimeoutError, ValueError) as error:
                if attempt == _ATTEMPTS:
                    reason = error.reason if isinstance(error, URLError) else error
                    text = getattr(reason, "strerror", None) or reason
                    raise PipelineError(f"{self.url} does not answer: {text}") from error
        return None


def schema_id(data: bytes) -> int | None:
    """Return the schema ID in bytes 1 to 4 of a value; None if the value has fewer than five bytes or does not begin
    with byte 0."""
    if len(data) < HEADER_SIZE or data[0]:
        return None
    return int.from_bytes(data[1:HEADER_SIZE], "big")
