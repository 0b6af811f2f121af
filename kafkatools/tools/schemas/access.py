"""The addresses and credentials of a schema registry, from Confluent's settings.

Rules: `schema.registry.url` may name several addresses, separated by commas, which are tried in order. User and
password come from the URL or from basic.auth.user.info, a token from bearer.auth.token, TLS from schema.registry.ssl.*.
Each may also begin with `schema.registry.`. Settings that belong to another URL than the requested one are not used, so
no password is sent to another host.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from kafkatools.core.secrets import remember
from kafkatools.exit_status import UsageError

if TYPE_CHECKING:
    import ssl

URL = "schema.registry.url"
_PREFIX = "schema.registry."
_TLS = "schema.registry.ssl."
_BASIC = "basic.auth.user.info"
_BASIC_SOURCE = "basic.auth.credentials.source"
_BEARER = "bearer.auth.token"
_BEARER_SOURCE = "bearer.auth.credentials.source"
_NOT_A_URL = "The address of a schema registry must be http://HOST:PORT or https://HOST:PORT, not '{}'"


class RegistryAccess(NamedTuple):
    """The addresses of a schema registry, without user and password. `authorization`: the HTTP header, None for none.
    `tls`: client settings such as ssl.truststore.location. `timeout_ms` is that of one request, also to connect."""

    urls: tuple[str, ...]
    authorization: str | None = None
    tls: Mapping[str, str] = {}
    timeout_ms: int = 10_000

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None if no address is https. Raises ConfigError, KeyStoreUnreadable."""
        if not any(url.startswith("https:") for url in self.urls):
            return None
        from kafkatools.core.config import ADMIN, Config
        from kafkatools.core.net.security.tls_context import client_tls

        return client_tls(Config(ADMIN, {"bootstrap.servers": "localhost:9092", **self.tls})).context


def registry_access(settings: Mapping[str, str], url: str | None = None, timeout_ms: int = 10_000) -> RegistryAccess:
    """Return the access to the registry at `url`, or at the setting schema.registry.url without one. Raises UsageError
    if there is no URL, or for an invalid URL or setting."""
    configured = settings.get(URL)
    requested = url or configured
    if not requested:
        raise UsageError(f"Missing the address of the schema registry: give --schema-registry URL or set {URL}")
    if url and configured and _addresses(url)[0] != _addresses(configured)[0]:
        settings = {}
    addresses, user = _addresses(requested)
    tls = {name.removeprefix(_PREFIX): value for name, value in settings.items() if name.startswith(_TLS)}
    return RegistryAccess(addresses, _authorization(settings, user), tls, timeout_ms)


def basic_authorization(user: str, password: str) -> str:
    """Return the Authorization header of a user and password."""
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    remember(password, token)
    return f"Basic {token}"


def _addresses(text: str) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """Return the URLs without user and password, and the first URL's user and password, None without."""
    addresses, user = [], None
    for address in text.split(","):
        try:
            parts = urlsplit(address.strip())
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port that is not a number, or an incomplete IPv6 address
            is_web = False
        if not is_web or parts.query or parts.fragment:
            raise UsageError(_NOT_A_URL.format(address.rpartition("@")[2].strip()))
        if parts.username is not None and user is None:
            user = unquote(parts.username), unquote(parts.password or "")
        addresses.append(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/"))
    return tuple(addresses), user


def _authorization(settings: Mapping[str, str], user: tuple[str, str] | None) -> str | None:
    info, token = _setting(settings, _BASIC), _setting(settings, _BEARER)
    source, bearer_source = _setting(settings, _BASIC_SOURCE), _setting(settings, _BEARER_SOURCE)
    if source and source.upper() not in ("URL", "USER_INFO"):
        raise UsageError(f"{_BASIC_SOURCE} may be URL or USER_INFO, not {source}")
    if bearer_source and bearer_source.upper() != "STATIC_TOKEN":
        raise UsageError(f"{_BEARER_SOURCE} may only be STATIC_TOKEN, not {bearer_source}")
    if user is not None:
        return basic_authorization(*user)
    if info and token:
        raise UsageError(f"Both {_BASIC} and {_BEARER} are set: set only one of them")
    if info:
        name, colon, password = info.partition(":")
        if not colon:
            raise UsageError(f"{_BASIC} must be USER:PASSWORD")
        return basic_authorization(name, password)
    remember(token)
    return f"Bearer {token}" if token else None


def _setting(settings: Mapping[str, str], name: str) -> str | None:
    return settings.get(name) or settings.get(_PREFIX + name) or None
