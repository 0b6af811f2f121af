"""Certificate revocation lists of clients and listeners: ssl.crl.location, as librdkafka has it.

Rules: the file has lists in PEM, and other blocks in it are ignored, so that it cannot add trust. Every authority in a
chain needs a list that has not expired; a certificate of an authority without one is refused. The file is read again
when it changes, at the next connection. Lists stay in the TLS library's store, which uses the newest of an issuer. A
file that cannot be read any more leaves the former lists in force, and a warning says so once.
"""

from __future__ import annotations

import os
import ssl
import threading

from kafkatools.core.config import Config
from kafkatools.core.errors import KeyStoreUnreadable
from kafkatools.core.net.security import pem
from kafkatools.core.net.security.private_file import private_file
from kafkatools.core.net.security.warnings import warn

SETTING = "ssl.crl.location"
_LABEL = "X509 CRL"

REFUSALS = {
    3: f"there is no revocation list of an issuer of {{}} ({SETTING})",
    8: f"the revocation list of an issuer of {{}} has an invalid signature ({SETTING})",
    11: f"the revocation list of an issuer of {{}} is not valid yet ({SETTING})",
    12: f"the revocation list of an issuer of {{}} has expired: fetch a new one ({SETTING})",
    23: f"{{}} has been revoked ({SETTING})",
}
"""OpenSSL's codes of a verification that failed by a revocation list; `{}` is the certificate."""


class RevocationLists:
    """The revocation lists of one TLS context; `refresh` may be called by any thread."""

    def __init__(self, context: ssl.SSLContext, path: str) -> None:
        """Load the lists. Raises KeyStoreUnreadable."""
        self._context = context
        self._path = path
        self._lock = threading.Lock()
        self._has_failed = False  # since the last change of the file that was read
        self._version = self._find_version()
        self._load()
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN

    def refresh(self) -> None:
        """Load the lists again if the file has changed; logs a warning when it cannot be read."""
        with self._lock:
            try:
                version = self._find_version()
                if version == self._version:
                    return
                self._load()
                self._version, self._has_failed = version, False
            except KeyStoreUnreadable as error:
                if not self._has_failed:
                    warn(f"{error}; the revocation lists that were read before stay in force")
                self._has_failed = True

    def _find_version(self) -> tuple[int, int, int]:
        try:
            status = os.stat(self._path)
        except OSError as problem:
            raise KeyStoreUnreadable(f"{SETTING} {self._path}: {problem.strerror or problem}") from None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _load(self) -> None:
        source = f"{SETTING} {self._path}"
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError as problem:
            raise KeyStoreUnreadable(f"{source}: {problem.strerror or problem}") from None
        lists = [block.text() for block in pem.blocks(text, source) if block.label == _LABEL]
        if not lists:
            raise KeyStoreUnreadable(
                f"{source}: it contains no revocation list in PEM (openssl crl -inform DER converts one)"
            )
        try:
            with private_file("".join(lists).encode()) as path:
                self._context.load_verify_locations(path)
        except ssl.SSLError:
            raise KeyStoreUnreadable(f"{source}: a revocation list in it is damaged") from None


def revocation_lists(context: ssl.SSLContext, config: Config) -> RevocationLists | None:
    """Make the context check ssl.crl.location; None without the setting. Raises KeyStoreUnreadable."""
    path: str | None = config[SETTING]
    return RevocationLists(context, path) if path else None
