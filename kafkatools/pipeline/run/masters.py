"""Whether a Spark master answers, before a JVM is started for it.

Spark tries a standalone master for 90 s and then reports half an error; a client of Spark Connect retries for longer.
So the addresses of such a master are tried by TCP first. Masters without an address (local, yarn) are not tried.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from kafkatools.pipeline.errors import PipelineError

_TIMEOUT_S = 5.0
_STANDALONE = "spark://"
_CONNECT = "sc://"
_CONNECT_PORT = 15002
_KUBERNETES = "k8s://"
_PORTS = {"https": 443, "http": 80}


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Return the host and port of each address in a master URL: several of a standalone cluster with standby masters,
    none of a master without an address. Raises PipelineError for a malformed address."""
    try:
        if master.startswith(_STANDALONE):
            urls = [urlsplit(f"//{address}") for address in master.removeprefix(_STANDALONE).split(",")]
            return [(url.hostname or "", url.port or 7077) for url in urls]
        if master.startswith(_CONNECT):
            url = urlsplit(f"//{master.removeprefix(_CONNECT).partition('/')[0].partition(';')[0]}")
            return [(url.hostname or "", url.port or _CONNECT_PORT)]
        if master.startswith(_KUBERNETES):
            text = master.removeprefix(_KUBERNETES)
            url = urlsplit(text if "://" in text else f"https://{text}")
            return [(url.hostname or "", url.port or _PORTS.get(url.scheme, _PORTS["https"]))]
    except ValueError as error:
        raise PipelineError(f"Invalid Spark master {master}: {error}") from None
    return []


def ensure_reachable(master: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Raise PipelineError if none of the addresses of a master accepts a connection within `timeout_s` each."""
    problems = []
    for host, port in master_addresses(master):
        try:
            socket.create_connection((host, port), timeout_s).close()
            return
        except TimeoutError:
            problems.append(f"{host}:{port}: no answer within {timeout_s:g} s")
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    if problems:
        raise PipelineError(
            f"The Spark master {master} cannot be reached ({'; '.join(problems)}): check its address and that it runs"
        )
