"""A schema registry as far as reading needs it: schemas by id, with what they refer to, and the newest of a subject.

Confluent's wire format: byte 0, the schema's id in four bytes (big endian), then what is encoded; for Protobuf the path
to the message in its file stands between: a count and so many indexes as zigzag varints, a single 0 for the first.
Answers are kept for as long as the process lives: a schema under an id never changes.
"""

from __future__ import annotations

import base64
import json
from typing import NamedTuple, NotRequired, TypedDict
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from kafkatools.pipeline.errors import PipelineError

HEADER_SIZE = 5
_TIMEOUT_S = 10
_ATTEMPTS = 3
_SERVER_ERRORS = 500


class RegisteredSchema(NamedTuple):
    """A schema's text and kind (AVRO, PROTOBUF, JSON), and those that it refers to, by the names it calls them."""

    text: str
    kind: str
    references: tuple[tuple[str, RegisteredSchema], ...] = ()


class _Reference(TypedDict):
    """A schema that another one names."""

    name: str
    subject: str
    version: int


class _Answer(TypedDict):
    """A schema, as Confluent's registry answers."""

    id: int
    schema: str
    schemaType: NotRequired[str]
    references: NotRequired[list[_Reference]]


class SchemaRegistry:
    """One registry; it can be pickled, and asks when it is asked."""

    def __init__(self, url: str, credentials: tuple[str, str] | None = None) -> None:
        self.url = url
        self._credentials = credentials
        self._known: dict[str, _Answer | None] = {}

    def __repr__(self) -> str:
        return f"SchemaRegistry({self.url})"

    def by_id(self, schema_id: int, form: str = "") -> RegisteredSchema | None:
        """The schema under an id; None when there is none. PipelineError when the registry does not answer.

        `form` "serialized": a Protobuf schema as the base64 of its descriptor, where the registry can do that.
        """
        query = f"?format={form}" if form else ""
        answer = self._get(f"/schemas/ids/{schema_id}{query}")
        return None if answer is None else self._schema(answer, query)

    def newest_id(self, subject: str) -> int | None:
        """The id of the newest schema of a subject; None when there is none."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return None if answer is None else int(answer["id"])

    def _schema(self, answer: _Answer, query: str) -> RegisteredSchema:
        references = []
        for one in answer.get("references") or ():
            path = f"/subjects/{quote(one['subject'], safe='')}/versions/{one['version']}{query}"
            found = self._get(path)
            if found is None:
                raise PipelineError(f"{self.url}: a schema refers to {one['subject']} {one['version']}, which is gone")
            references.append((str(one["name"]), self._schema(found, query)))
        return RegisteredSchema(answer["schema"], answer.get("schemaType") or "AVRO", tuple(references))

    def _get(self, path: str) -> _Answer | None:
        if path not in self._known:
            self._known[path] = self._ask(path)
        return self._known[path]

    def _ask(self, path: str) -> _Answer | None:
        request = Request(self.url + path, headers={"Accept": "application/vnd.schemaregistry.v1+json"})
        if self._credentials is not None:
            token = base64.b64encode(":".join(self._credentials).encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with urlopen(request, timeout=_TIMEOUT_S) as answer:
                    found: _Answer = json.load(answer)
                    return found
            except HTTPError as error:
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
    """The id in front of a value in the wire format; None when it is not in it."""
    if len(data) < HEADER_SIZE or data[0]:
        return None
    return int.from_bytes(data[1:HEADER_SIZE], "big")
