"""URLs of servers that get alerts and metrics, without their secrets in messages."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kafkatools.core.secrets import remember


class HttpUrl(NamedTuple):
    """An http or https URL without a user. `label`: its scheme, host and port, to print. `authorization`: the header of
    a user and password in the URL."""

    url: str
    label: str
    authorization: str | None = None


def parse_url(text: str) -> HttpUrl:
    """Parse an http or https URL, and remember its path, query and password, so that they are hidden in messages.
    Raises ValueError, without the URL in its text."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("its host or port is invalid") from None
    if parts.scheme not in ("http", "https") or not host or any(char.isspace() or ord(char) < 32 for char in text):
        raise ValueError("a URL begins with http://HOST or https://HOST and has no spaces")
    remember(parts.path.strip("/"), parts.query, parts.password, unquote(parts.password or ""))
    shown = f"[{host}]" if ":" in host else host
    address = shown if port is None else f"{shown}:{port}"
    authorization = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    plain = parts._replace(netloc=address, fragment="").geturl()
    return HttpUrl(plain, f"{parts.scheme}://{address}", authorization)
