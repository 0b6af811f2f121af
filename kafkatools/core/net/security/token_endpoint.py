"""Fetch OAUTHBEARER tokens from a token endpoint (KIP-768, KIP-1139; ClientCredentialsJwtRetriever,
JwtBearerJwtRetriever).

A client shows its secret, a signed assertion that it is the client (both RFC 6749 4.4, the latter RFC 7523 2.2), or an
assertion that is exchanged for the token (RFC 7523 2.1).

Redirects are not followed and proxies not used, so secrets are sent only to the configured address. A failed
connection or a status of 5xx, 408 or 429 is retried with a doubling pause until sasl.login.retry.backoff.max.ms is
over.
"""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.json_texts import parse_json
from kafkatools.core.net.security.tokens import Token, TokenSource, token_of
from kafkatools.core.secrets import redacted, remember, remember_url

_MAX_ANSWER_BYTES = 1 << 20
_PASSING = (408, 429)
_FIRST_SERVER_ERROR = 500
_TEMPORARILY = "temporarily_unavailable"


class TokenRequest(NamedTuple):
    """The fields of a token request in their order, and the value of its Authorization header."""

    fields: Mapping[str, str]
    authorization: str | None = None

    def __repr__(self) -> str:
        return f"TokenRequest({self.fields.get('grant_type')})"


class Endpoint(NamedTuple):
    """A token endpoint, what makes each request, and time-outs in milliseconds. `make_request` raises
    AuthenticationFailed."""

    url: str
    make_request: Callable[[], TokenRequest]
    timeout_ms: int
    retry_ms: int
    retry_max_ms: int

    def __repr__(self) -> str:
        return f"Endpoint({self.shown_url})"

    @property
    def shown_url(self) -> str:
        """The URL of the token endpoint without user and password."""
        return remember_url(self.url)


class _TryAgain(Exception):
    """A token request failed and may be repeated; the message is the reason."""


def endpoint_source(endpoint: Endpoint, tls: ssl.SSLContext | None, clock: Clock) -> TokenSource:
    """A token source that asks a token endpoint. Raises ConfigError for an invalid URL. The source raises
    AuthenticationFailed when the endpoint gives no token."""
    parts = urllib.parse.urlsplit(endpoint.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"sasl.oauthbearer.token.endpoint.url {endpoint.shown_url} must be http://HOST, https://HOST or file:PATH"
        )

    def fetch() -> Token:
        started_ms, pause_ms = clock.now_ms(), endpoint.retry_ms
        while True:
            try:
                return _fetch_token(endpoint, parts, tls, clock.wall_ms())
            except _TryAgain as reason:
                if clock.now_ms() - started_ms + pause_ms > endpoint.retry_max_ms:
                    raise AuthenticationFailed(f"no token from {endpoint.shown_url}: {reason}") from None
                clock.sleep_ms(pause_ms)
                pause_ms *= 2

    return fetch


def _fetch_token(endpoint: Endpoint, parts: urllib.parse.SplitResult, tls: ssl.SSLContext | None, now_ms: int) -> Token:
    request = endpoint.make_request()
    timeout_s = endpoint.timeout_ms / 1000
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=tls)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    try:
        connection.request("POST", target, body=urllib.parse.urlencode(request.fields), headers=_headers(request))
        with connection.getresponse() as response:
            status, content = response.status, response.read(_MAX_ANSWER_BYTES)
    except ssl.SSLCertVerificationError as problem:
        raise AuthenticationFailed(f"no token from {endpoint.shown_url}: TLS: {problem.verify_message}") from None
    except (OSError, http.client.HTTPException) as problem:
        raise _TryAgain(getattr(problem, "strerror", None) or type(problem).__name__) from None
    finally:
        connection.close()
    return _token_of(endpoint, status, content, now_ms)


def _headers(request: TokenRequest) -> dict[str, str]:
    authorization = {} if request.authorization is None else {"Authorization": request.authorization}
    return {
        **authorization,
        "Accept": "application/json",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _token_of(endpoint: Endpoint, status: int, content: bytes, now_ms: int) -> Token:
    try:
        reply = parse_json(content)
    except ValueError:
        reply = None
    reply = reply if isinstance(reply, dict) else {}
    if status in (200, 201):
        try:
            return token_of(reply.get("access_token") or reply.get("id_token"), now_ms, reply.get("expires_in"))
        except AuthenticationFailed:
            raise AuthenticationFailed(
                f"no token from {endpoint.shown_url}: its response has no access_token"
            ) from None
    details = [redacted(str(reply[name])) for name in ("error", "error_description") if reply.get(name)]
    reason = f"status {status}" + (f" ({': '.join(details)[:200]})" if details else "")
    if status in _PASSING or status >= _FIRST_SERVER_ERROR or reply.get("error") == _TEMPORARILY:
        raise _TryAgain(reason)
    raise AuthenticationFailed(f"no token from {endpoint.shown_url}: {reason}")


def secret_request(user: str, secret: str, scope: str | None, *, encodes_header: bool) -> TokenRequest:
    """The request of a client that shows its secret (ClientSecretRequestFormatter)."""
    fields = {"grant_type": "client_credentials", **_scope(scope)}
    remember(secret)
    if encodes_header:
        user, secret = urllib.parse.quote_plus(user), urllib.parse.quote_plus(secret)
    credentials = base64.b64encode(f"{user}:{secret}".encode()).decode()
    remember(credentials)
    return TokenRequest(fields, f"Basic {credentials}")


def client_assertion_request(user: str | None, assertion: str, scope: str | None) -> TokenRequest:
    """The request of a client that shows a signed assertion (ClientAssertionRequestFormatter)."""
    return TokenRequest(
        {
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion,
            "grant_type": "client_credentials",
            **({"client_id": user} if user else {}),
            **_scope(scope),
        }
    )


def jwt_bearer_request(assertion: str, scope: str | None) -> TokenRequest:
    """The request that exchanges an assertion for a token (JwtBearerRequestFormatter)."""
    grant_type = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    return TokenRequest({"grant_type": grant_type, "assertion": assertion, **_scope(scope)})


def _scope(scope: str | None) -> dict[str, str]:
    return {"scope": scope.strip()} if scope and scope.strip() else {}
