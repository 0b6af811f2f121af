"""HTTP requests to a schema registry: JSON in both directions, errors as one line.

Rules: redirects are not followed, since the request may carry a password. Several addresses are tried in order. A
404 of the registry is left to the caller; denied access, server errors, unknown paths and replies that are not JSON are
failures of the whole registry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException, IncompleteRead
from ssl import SSLError
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from kafkatools.core.json_texts import parse_json
from kafkatools.tools.schemas.errors import RegistryFailed, SchemaError

if TYPE_CHECKING:
    from kafkatools.core.json_values import JsonValue
    from kafkatools.tools.schemas.access import RegistryAccess

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_CONTENT_TYPE}, application/json"
_MAX_ANSWER_BYTES = 64 << 20
_ATTEMPTS = 3
_SERVER_ERRORS = 500
_LATER = (408, 429)  # Request Timeout, Too Many Requests: Confluent's clients repeat these requests too
_HINTS = {
    401: "Set basic.auth.user.info=USER:PASSWORD or bearer.auth.token in the profile or in a properties file.",
    403: "The user may not do this.",
}
_UNKNOWN_ISSUER = (18, 19, 20, 21)  # X509_V_ERR_*: self-signed, or the issuer's certificate is missing
_TLS_HINT = (
    "Set schema.registry.ssl.truststore.location to a file with the certificate of the authority that signed the "
    "registry's, and schema.registry.ssl.truststore.type=PEM for a PEM file."
)


class NotFound(SchemaError):
    """The registry does not have what the path names (404)."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """Follow no redirect."""


class RegistryTransport:
    """Sends requests to the addresses of a registry. The object can be pickled."""

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._opener: OpenerDirector | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_access": self._access, "_opener": None}

    def request(self, method: str, path: str, body: JsonValue = None) -> Any:
        """Return the JSON of the answer. Raises NotFound, RegistryFailed if no address gives a usable answer, and
        SchemaError with the registry's message for other errors."""
        failure: RegistryFailed | None = None
        for url in self._access.urls:
            for attempt in range(_ATTEMPTS):
                try:
                    return self._answer(url, method, path, body)
                except RegistryFailed as error:
                    failure = error
                    if attempt and not isinstance(error, _ServerError):
                        break  # one more attempt, for a connection that was closed
                    if isinstance(error, _Final):
                        break
        assert failure is not None
        raise failure

    def _answer(self, url: str, method: str, path: str, body: JsonValue) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(url + path, data, {"Accept": _ACCEPT}, method=method)
        if data is not None:
            request.add_header("Content-Type", _CONTENT_TYPE)
        if self._access.authorization is not None:
            request.add_header("Authorization", self._access.authorization)
        try:
            with self._open(request) as answer:
                content = answer.read(_MAX_ANSWER_BYTES)
                if answer.length and len(content) < _MAX_ANSWER_BYTES:  # reads with a limit do not raise
                    raise IncompleteRead(content, answer.length)
                kind = answer.headers.get_content_type()
        except HTTPError as error:
            with error:
                raise _error_of(url, path, error) from None
        except TimeoutError:
            raise _TimedOut(f"{url} does not answer within {self._access.timeout_ms} ms") from None
        except (OSError, HTTPException, ValueError) as error:
            raise _unreachable(url, error, self._access.timeout_ms) from None
        try:
            return parse_json(content)
        except ValueError:
            raise _Final(f"{url}{path} answers with {kind}, not with JSON: it is not a schema registry") from None

    def _open(self, request: Request) -> Any:
        if self._opener is None:
            self._opener = build_opener(_NoRedirects, HTTPSHandler(context=self._access.tls_context()))
        return self._opener.open(request, timeout=self._access.timeout_ms / 1000)


class _Final(RegistryFailed):
    """A failure that another attempt would not change."""


class _TimedOut(_Final):
    """The registry did not answer in time."""

    is_temporary = True


class _Unconnected(RegistryFailed):
    """The connection was refused or lost."""

    is_temporary = True


class _ServerError(RegistryFailed):
    """The registry answered that it cannot answer now."""

    is_temporary = True


def _unreachable(url: str, error: Exception, timeout_ms: int) -> RegistryFailed:
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return _TimedOut(f"{url} does not answer within {timeout_ms} ms")
    text = getattr(reason, "verify_message", None) or getattr(reason, "strerror", None)
    if isinstance(reason, SSLError):
        words = getattr(reason, "verify_message", None) or (reason.reason or "failed").replace("_", " ").lower()
        hint = _TLS_HINT if getattr(reason, "verify_code", 0) in _UNKNOWN_ISSUER else ""
        return _Final(f"{url}: TLS failed: {words.rstrip('.')}", hint=hint)
    kind = _Unconnected if isinstance(reason, (ConnectionError, IncompleteRead)) else _Final
    return kind(f"{url} does not answer: {text or str(reason) or type(reason).__name__}")


def _is_unknown_path(answer: Mapping[str, object], message: str) -> bool:
    """Return whether a 404 in JSON is the web server's, for a path that it does not serve. The codes of a registry are
    40401 and the like; early versions of Apicurio Registry have 404, with a message of their own."""
    is_generic = message.removeprefix("HTTP 404 ") in ("", "Not Found") or message.startswith("RESTEASY")
    return "error_code" not in answer or (answer["error_code"] == 404 and is_generic)


def _error_of(url: str, path: str, error: HTTPError) -> SchemaError:
    """Return the exception for an answer with an error status."""
    try:
        answer = parse_json(error.read(1 << 16))
    except (OSError, HTTPException, ValueError):  # the status says enough if the rest does not arrive
        answer = None
    is_reply = isinstance(answer, dict)
    message = " ".join(str(answer.get("message") or "").split()) if is_reply else ""
    is_reply = is_reply and not (error.code == 404 and _is_unknown_path(answer, message))
    if error.code == 404 and is_reply:
        return NotFound(message)
    if 300 <= error.code < 400:
        target = error.headers.get("Location", "another address")
        return _Final(f"{url} redirects to {target}: give that address of the schema registry")
    text = f"{url}{path}: {error.code} {error.reason}" + (f": {message}" if message else "")
    if error.code >= _SERVER_ERRORS or error.code in _LATER:
        return _ServerError(text)
    if error.code in (401, 403):
        return _Final(text, hint=_HINTS[error.code])
    if not is_reply:
        return _Final(f"{text}: is this the address of a schema registry?")
    return SchemaError(text)
