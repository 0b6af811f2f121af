"""Whether a Spark master answers, before a JVM is started for it.

Spark tries a standalone master for 90 s and then reports half an error, also if another program listens on the port; a
client of Spark Connect retries for longer. So the addresses of such a master are tried first: by TCP, and by requests
that only a Spark master (a Connect server) answers in its protocol. Workers and drivers speak the same protocol as a
master: a second request asks for the endpoint that a master alone has, as Spark's own clients do. Masters without an
address (local, yarn) are not tried.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kafkatools.pipeline.errors import PipelineError

_TIMEOUT_S = 5.0
_STANDALONE = "spark://"
_CONNECT = "sc://"
_CONNECT_PORT = 15002
_KUBERNETES = "k8s://"
_PORTS = {"https": 443, "http": 80}

# Spark's RPC (org.apache.spark.network.protocol): the length of the whole frame, a type, the fields. A StreamRequest
# for a file that no server has is answered without a line in the server's log, and before a client authenticates.
_STREAM_REQUEST, _STREAM_FAILURE = 6, 8
_STREAM = b"/files/kafkatools"
_RPC_REQUEST = struct.pack(f">qBi{len(_STREAM)}s", 13 + len(_STREAM), _STREAM_REQUEST, len(_STREAM), _STREAM)
_RPC_HEADER = struct.Struct(">qB")
_MAX_FRAME_BYTES = 1 << 16
_NOT_A_MASTER = "a Spark worker or driver listens there, not a master, whose usual port is 7077"

# RpcEndpointVerifier.CheckExistence("Master"), with which Spark looks up the endpoint of a master (RpcEnv). The body
# is NettyRpcEnv's RequestMessage: no sender, the receiver's address and endpoint, and the question in Java's
# serialization, whose class has had the same version from Spark 4.0 on. The reply is a java.lang.Boolean. A peer that
# cannot answer (another version, or authentication) replies with a failure, which says nothing about its kind.
_CALL, _ANSWER = 3, 4
_RPC_CALL = struct.Struct(">qBqi")
_VERIFIER = b"endpoint-verifier"
_IS_MASTER_THERE = (
    b"\xac\xed\x00\x05sr\x00=org.apache.spark.rpc.netty.RpcEndpointVerifier$CheckExistence"
    b"J\xa5\x1e\x9e\xe4\xc1\x9a\xc4\x02\x00\x01L\x00\x04namet\x00\x12Ljava/lang/String;xpt\x00\x06Master"
)
_JAVA_BOOLEAN = b"java.lang.Boolean"

# HTTP/2 (RFC 9113, section 3.4), which gRPC speaks: each side begins with a SETTINGS frame.
_HTTP2_REQUEST = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_HEADER_BYTES, _HTTP2_SETTINGS = 9, 4


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


def ensure_reachable(master: str, settings: Mapping[str, str] | None = None, timeout_s: float = _TIMEOUT_S) -> None:
    """Raise PipelineError if none of the addresses of a master accepts a connection and answers as a Spark master
    within `timeout_s` each. What listens with TLS (`spark.ssl.rpc.enabled` in `settings`, a token or use_ssl of Spark
    Connect) only has to accept the connection."""
    settings = settings or {}
    is_spark = _check_of(master, settings)
    has_roles = is_spark is _is_spark_rpc and settings.get("spark.authenticate", "").lower() != "true"
    problems = []
    for host, port in master_addresses(master):
        try:
            with socket.create_connection((host, port), timeout_s) as connection:
                if is_spark is not None and not is_spark(connection):
                    problems.append(f"{host}:{port}: what listens there is not {_speaker(master)}")
                elif has_roles and _lacks_master(connection, host, port):
                    problems.append(f"{host}:{port}: {_NOT_A_MASTER}")
                else:
                    return
        except TimeoutError:
            problems.append(f"{host}:{port}: no answer within {timeout_s:g} s")
        except ConnectionResetError:
            problems.append(f"{host}:{port}: what listens there is not {_speaker(master)}")
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    if problems:
        raise PipelineError(
            f"The Spark master {master} cannot be reached ({'; '.join(problems)}): check its address and that it runs"
        )


def _speaker(master: str) -> str:
    if master.startswith(_CONNECT):
        return "a Spark Connect server without TLS (;use_ssl=true for one with TLS)"
    return "a Spark master without TLS (spark.ssl.rpc.enabled=true for one with TLS; 7077 is its usual port)"


def _check_of(master: str, settings: Mapping[str, str]) -> Callable[[socket.socket], bool] | None:
    """Return the check of a connection's peer; None if it needs none or uses TLS."""
    if master.startswith(_STANDALONE):
        return None if settings.get("spark.ssl.rpc.enabled", "").lower() == "true" else _is_spark_rpc
    if master.startswith(_CONNECT):
        parameters = master.lower().partition(";")[2]
        return None if "use_ssl=true" in parameters or "token=" in parameters else _is_http2
    return None


def _is_spark_rpc(connection: socket.socket) -> bool:
    connection.sendall(_RPC_REQUEST)
    kind, content = _receive_frame(connection)
    return kind == _STREAM_FAILURE and content.startswith(struct.pack(">i", len(_STREAM)) + _STREAM)


def _lacks_master(connection: socket.socket, host: str, port: int) -> bool:
    """Return whether a peer that speaks Spark's RPC says that it is not a standalone master."""
    receiver = b"\1" + _text(host.encode()) + struct.pack(">i", port) + _text(_VERIFIER)
    body = b"\0" + receiver + _IS_MASTER_THERE
    connection.sendall(_RPC_CALL.pack(_RPC_CALL.size + len(body), _CALL, 0, len(body)) + body)
    kind, content = _receive_frame(connection)
    return kind == _ANSWER and _JAVA_BOOLEAN in content and content.endswith(b"\0")


def _text(text: bytes) -> bytes:
    """Return an ASCII text as java.io.DataOutput.writeUTF writes it."""
    return struct.pack(">H", len(text)) + text


def _receive_frame(connection: socket.socket) -> tuple[int, bytes]:
    """Return the type and the content of a frame of Spark's RPC; type -1 if the peer sends something else. Raises
    TimeoutError."""
    header = _receive(connection, _RPC_HEADER.size)
    if len(header) < _RPC_HEADER.size:
        return -1, b""
    frame_bytes, kind = _RPC_HEADER.unpack(header)
    if not _RPC_HEADER.size <= frame_bytes <= _MAX_FRAME_BYTES:
        return -1, b""
    return kind, _receive(connection, frame_bytes - _RPC_HEADER.size)


def _is_http2(connection: socket.socket) -> bool:
    connection.sendall(_HTTP2_REQUEST)
    header = _receive(connection, _HTTP2_HEADER_BYTES)
    return len(header) == _HTTP2_HEADER_BYTES and header[3] == _HTTP2_SETTINGS


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return `size` bytes, fewer if the peer closes the connection. Raises TimeoutError."""
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            break
        data += part
    return data
