"""Read and write PEM text, from files or from setting values (DefaultSslEngineFactory.PemStore, PemParser).

In a properties file the text is often one line with spaces in place of line ends, so its blocks are parsed and written
again for the TLS library. Text between blocks is a comment.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

from kafkatools.core.errors import KeyStoreUnreadable

_BLOCK = re.compile(r"-{5}BEGIN ([A-Z0-9 ]+?)-{5}([^-]*)-{5}END \1-{5}")
_LINE = 64
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
_KEYS = ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY")


class Block(NamedTuple):
    """A PEM block: the label of its BEGIN line and the decoded bytes."""

    label: str
    data: bytes

    def text(self) -> str:
        """The block as PEM text with lines of 64 characters."""
        body = base64.b64encode(self.data).decode()
        lines = [body[i : i + _LINE] for i in range(0, len(body), _LINE)]
        return "\n".join([f"-----BEGIN {self.label}-----", *lines, f"-----END {self.label}-----", ""])


def blocks(text: str, source: str) -> list[Block]:
    """Parse the PEM blocks of a text; `source` names the text in errors. Raises KeyStoreUnreadable."""
    parsed = []
    for label, body in _BLOCK.findall(text):
        if "Proc-Type:" in body:
            raise KeyStoreUnreadable(
                f"{source}: the private key is in OpenSSL's old encrypted form; convert it with `openssl pkcs8 -topk8`"
            )
        try:
            parsed.append(Block(label, base64.b64decode("".join(body.split()), validate=True)))
        except (binascii.Error, ValueError):
            raise KeyStoreUnreadable(f"{source}: the block {label} is not base64") from None
    return parsed


def certificates(text: str, source: str) -> list[bytes]:
    """The certificates in a PEM text as DER, at least one. Raises KeyStoreUnreadable."""
    encoded = [block.data for block in blocks(text, source) if block.label in _CERTIFICATES]
    if not encoded:
        raise KeyStoreUnreadable(f"{source}: it contains no certificate in PEM")
    return encoded


def private_key(text: str, source: str) -> Block:
    """The only private key in a PEM text. Raises KeyStoreUnreadable when there is none or more than one."""
    keys = [block for block in blocks(text, source) if block.label in _KEYS]
    if len(keys) != 1:
        count = "no private key" if not keys else f"{len(keys)} private keys instead of one"
        raise KeyStoreUnreadable(f"{source}: it contains {count} in PEM")
    return keys[0]


def certificate_chain(certificates: Iterable[bytes]) -> str:
    """Format DER certificates as PEM text."""
    return "".join(Block("CERTIFICATE", der).text() for der in certificates)
