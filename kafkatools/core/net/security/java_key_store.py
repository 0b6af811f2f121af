"""Reader of JKS, Java's own key store format (sun.security.provider.JavaKeyStore).

Layout, big-endian: magic FEEDFEED, version 1 or 2, number of entries, entries, digest. Each entry has a tag (1 a
private key with its certificate chain, 2 a trusted certificate), an alias (modified UTF-8 with a two-byte length) and a
creation time. The digest is SHA-1 over the password in UTF-16, the words `Mighty Aphrodite` and all bytes before.

A private key is a PKCS #8 EncryptedPrivateKeyInfo with Sun's own algorithm. It consists of a salt, the key XOR a chain
of SHA-1 digests that starts with the salt, and the SHA-1 of password and key.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

from kafkatools.core.errors import KeyStoreUnreadable

MAGIC = b"\xfe\xed\xfe\xed"

_PRIVATE_KEY = 1
_TRUSTED_CERTIFICATE = 2
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
# 1.3.6.1.4.1.42.2.17.1.1, with its DER tag and length.
_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")


class KeyEntry(NamedTuple):
    """A protected private key and its certificate chain as DER, the key's own certificate first."""

    alias: str
    protected_key: bytes
    chain: tuple[bytes, ...]


class JavaKeyStore(NamedTuple):
    """The entries of a JKS file: private keys, and trusted certificates as DER."""

    keys: tuple[KeyEntry, ...]
    certificates: tuple[bytes, ...]


class WrongPassword(Exception):
    """The digest does not match: the password is wrong or the file is damaged."""


class _Cursor:
    def __init__(self, data: bytes, source: str) -> None:
        self._data = data
        self._source = source
        self.position = 0

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self._data):
            raise KeyStoreUnreadable(f"{self._source}: the key store ends in the middle of an entry")
        content = self._data[self.position : end]
        self.position = end
        return content

    def int32(self) -> int:
        number: int = struct.unpack(">i", self.take(4))[0]
        return number

    def text(self) -> str:
        length: int = struct.unpack(">H", self.take(2))[0]
        return self.take(length).decode("utf-8", errors="replace")

    def certificate(self, version: int) -> bytes:
        if version > 1:
            kind = self.text()
            if kind != "X.509":
                raise KeyStoreUnreadable(f"{self._source}: a certificate of the unknown type {kind}")
        return self.take(self.int32())


def read_java_key_store(data: bytes, password: str | None, source: str) -> JavaKeyStore:
    """Read a JKS file. Without a password its integrity is not checked, as in Java. Raises KeyStoreUnreadable for an
    invalid file, WrongPassword when the digest does not match."""
    cursor = _Cursor(data, source)
    if cursor.take(4) != MAGIC:
        raise KeyStoreUnreadable(f"{source}: not a Java key store")
    version = cursor.int32()
    if version not in (1, 2):
        raise KeyStoreUnreadable(f"{source}: a Java key store of the unknown version {version}")
    keys, certificates = [], []
    for _ in range(cursor.int32()):
        tag, alias = cursor.int32(), cursor.text()
        cursor.take(8)
        if tag == _PRIVATE_KEY:
            protected = cursor.take(cursor.int32())
            chain = tuple(cursor.certificate(version) for _ in range(cursor.int32()))
            keys.append(KeyEntry(alias, protected, chain))
        elif tag == _TRUSTED_CERTIFICATE:
            certificates.append(cursor.certificate(version))
        else:
            raise KeyStoreUnreadable(f"{source}: entry {alias} has the unknown type {tag}")
    content = data[: cursor.position]
    digest = cursor.take(_DIGEST_BYTES)
    if password is not None:
        computed = hashlib.sha1(_password_bytes(password) + _WHITENER + content, usedforsecurity=False).digest()
        if not hmac.compare_digest(computed, digest):
            raise WrongPassword
    return JavaKeyStore(tuple(keys), tuple(certificates))


def recover_key(entry: KeyEntry, password: str, source: str) -> bytes:
    """Decrypt a private key of a JKS file to PKCS #8. Raises WrongPassword, KeyStoreUnreadable."""
    protected = _octets_of(entry.protected_key, source)
    if len(protected) < 2 * _DIGEST_BYTES:
        raise KeyStoreUnreadable(f"{source}: the private key {entry.alias} is too short")
    digest, secret = protected[:_DIGEST_BYTES], _password_bytes(password)
    body, check = protected[_DIGEST_BYTES:-_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    stream = bytearray()
    while len(stream) < len(body):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), check):
        raise WrongPassword
    return key


def _password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _octets_of(info: bytes, source: str) -> bytes:
    """The encrypted bytes of an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { algorithm }, OCTET STRING }."""
    outer, _ = _der(info, 0, 0x30, source)
    algorithm, after = _der(outer, 0, 0x30, source)
    if not algorithm.startswith(_KEY_PROTECTOR):
        raise KeyStoreUnreadable(f"{source}: the private key is protected by an algorithm that JKS does not have")
    return _der(outer, after, 0x04, source)[0]


def _der(data: bytes, position: int, tag: int, source: str) -> tuple[bytes, int]:
    """Return the content of the DER element with `tag` at a position, and the position after it. Raises
    KeyStoreUnreadable, which names `source`, for another tag or an element that is cut off."""
    if position + 2 > len(data) or data[position] != tag:
        raise KeyStoreUnreadable(f"{source}: the private key is not a PKCS #8 structure")
    length, start = data[position + 1], position + 2
    if length & 0x80:
        width = length & 0x7F
        length, start = int.from_bytes(data[start : start + width], "big"), start + width
    if start + length > len(data):
        raise KeyStoreUnreadable(f"{source}: the private key ends too early")
    return data[start : start + length], start + length
