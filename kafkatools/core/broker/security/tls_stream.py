"""The bytes of a connection with TLS, on the broker's side (Kafka's SslTransportLayer).

Rules: nothing here waits. Like a socket it raises BlockingIOError when no byte can be read or written. It reads as much
as there is room for, and OpenSSL may hold more of a record: `has_pending` says so, since no selector does. A write that
would block is repeated by the connection with bytes that begin with the same ones.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Sequence

from kafkatools.core.broker.security.server_tls import ServerTls
from kafkatools.core.errors import SslAuthenticationFailed
from kafkatools.core.net.security.revocation import REFUSALS
from kafkatools.core.net.selector import READ, WRITE

_JOINED_BYTES = 64 * 1024
_FILE_BYTES = 128 * 1024
_DRAINED_READS = 16
_UNEXPECTED_MESSAGE = b"\x15\x03\x03\0\2\2\x0a"
_NOT_TLS = (
    "HTTP_REQUEST",
    "WRONG_VERSION_NUMBER",
    "UNKNOWN_PROTOCOL",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "BAD_RECORD_TYPE",
    "RECORD_TOO_SMALL",
)
_REASONS = {
    **dict.fromkeys(_NOT_TLS, "it does not speak TLS"),
    "UNSUPPORTED_PROTOCOL": "no TLS version in common (ssl.enabled.protocols)",
    "NO_SHARED_CIPHER": "no cipher suite in common (ssl.cipher.suites)",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate, and ssl.client.auth is required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the issuer of this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept this broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "this broker's certificate has expired",
}


class TlsStream:
    """The TLS side of one accepted connection. The constructor takes over the socket; raises OSError when the client is
    gone."""

    def __init__(self, accepted: socket.socket, tls: ServerTls) -> None:
        self._tls = tls
        if tls.revocation is not None:
            tls.revocation.refresh()
        self.socket: ssl.SSLSocket = tls.context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        self._has_ended = self._is_resumed = False
        self.principal = ""

    def handshake(self) -> int:
        """Continue the handshake; return the event to wait for, or 0 when it is complete and `principal` is known.
        Raises OSError with the reason of a failure."""
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            return READ
        except ssl.SSLWantWriteError:
            return WRITE
        except ssl.SSLError as problem:
            if problem.reason in _NOT_TLS:
                self._send_alert()
            self._drain()
            raise OSError(_words(problem)) from None
        self._is_resumed = self._tls.revocation is not None and self.socket.session_reused is True
        if self._is_resumed:
            raise OSError("it resumed a TLS session, so its certificate was not compared with ssl.crl.location")
        self._check_suite()
        try:
            self.principal = self._tls.principal_of(self.socket.getpeercert(binary_form=True))
        except SslAuthenticationFailed as error:
            raise OSError(str(error)) from None
        return 0

    def _send_alert(self) -> None:
        """Send a TLS alert to a client that does not speak TLS, as Java does, so that it can name the cause."""
        with contextlib.suppress(OSError):
            os.write(self.socket.fileno(), _UNEXPECTED_MESSAGE)

    def _drain(self) -> None:
        """Read what has arrived: closing a socket with unread bytes resets the connection, and the client's next write
        would fail before it has read the alert."""
        with contextlib.suppress(OSError):
            for _ in range(_DRAINED_READS):
                if not os.read(self.socket.fileno(), _JOINED_BYTES):
                    break

    def _check_suite(self) -> None:
        cipher, allowed = self.socket.cipher(), self._tls.suites
        if cipher is not None and cipher[0].startswith("TLS_") and allowed and cipher[0] not in allowed:
            raise OSError(f"it chose {cipher[0]}, which ssl.cipher.suites does not allow")

    @property
    def has_pending(self) -> bool:
        """Return whether `recv_into` has bytes, or the end, that no selector reports."""
        return self._has_ended or self.socket.pending() > 0

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive and decrypt up to the buffer's size; 0 at the end. Raises BlockingIOError, OSError."""
        filled, room, secured = 0, len(buffer), self.socket
        if self._has_ended:
            return 0
        try:
            while filled < room:
                count = secured.recv_into(buffer[filled:] if filled else buffer)
                if count == 0:
                    self._has_ended = True
                    break
                filled += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not filled:
                raise BlockingIOError from None
        return filled

    def send(self, data: bytes | memoryview, /) -> int:
        """Encrypt and send; returns the number of bytes sent. Raises BlockingIOError, OSError."""
        sent, size, secured = 0, len(data), self.socket
        view = memoryview(data)
        try:
            while sent < size:
                sent += secured.send(view[sent:] if sent else view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        return sent

    def sendmsg(self, buffers: Sequence[bytes | memoryview], ancillary: tuple[()], flags: int, /) -> int:
        """Join the first buffers, up to 64 KiB, and send them as one; a large first buffer is sent alone. Returns the
        number of bytes sent; raises BlockingIOError, OSError."""
        first = buffers[0]
        if len(first) >= _JOINED_BYTES:
            return self.send(first)
        parts: list[bytes | memoryview] = []
        room = _JOINED_BYTES
        for part in buffers:
            parts.append(part if len(part) <= room else memoryview(part)[:room])
            room -= len(parts[-1])
            if room == 0:
                break
        return self.send(b"".join(parts))

    def send_file(self, descriptor: int, position: int, size_bytes: int) -> int:
        """Read at most 128 KiB of a file and send them; returns the number of bytes sent, 0 at the end of the file.
        Raises BlockingIOError, OSError."""
        data = os.pread(descriptor, min(size_bytes, _FILE_BYTES), position)
        return self.send(data) if data else 0

    def close(self) -> None:
        """Send close_notify if that is possible without waiting, and close the connection. After a resumed session
        nothing is sent: OpenSSL then forgets the session, and the client's next connection has a new one."""
        if not self._is_resumed:
            with contextlib.suppress(OSError, ValueError):
                self.socket.unwrap()
        self.socket.close()


def _words(problem: ssl.SSLError) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        revoked = REFUSALS.get(problem.verify_code)
        return (
            revoked.format("its certificate") if revoked else f"its certificate is not valid: {problem.verify_message}"
        )
    if isinstance(problem, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "it closed the connection during the TLS handshake"
    reason = problem.reason or "the TLS handshake failed"
    return _REASONS.get(reason, reason.lower().replace("_", " "))
