"""The principal of a client in an Envelope (DefaultPrincipalData version 0, KIP-590)."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.varints import read_unsigned_varint, unsigned_varint

_VERSION = b"\0\0"
_NO_TAGS = b"\0"


class ClientPrincipal(NamedTuple):
    """A principal, `type:name`, and whether it was authenticated by a delegation token."""

    principal: str
    is_token_authenticated: bool


def encode_principal(client: ClientPrincipal) -> bytes:
    """Encode a principal for an Envelope."""
    kind, _, name = client.principal.partition(":")
    texts = (text.encode() for text in (kind, name))
    encoded = b"".join(unsigned_varint(len(text) + 1) + text for text in texts)
    return _VERSION + encoded + (b"\1" if client.is_token_authenticated else b"\0") + _NO_TAGS


def decode_principal(data: bytes) -> ClientPrincipal:
    """Decode the principal of an Envelope. Raises DecodeError."""
    if not data.startswith(_VERSION):
        raise DecodeError("a principal of an unknown version")
    texts, position = [], len(_VERSION)
    for _ in range(2):
        size, position = read_unsigned_varint(memoryview(data), position)
        texts.append(data[position : position + size - 1])
        position += size - 1
    if len(data) < position + 2:
        raise DecodeError("a truncated principal")
    try:
        return ClientPrincipal(f"{texts[0].decode()}:{texts[1].decode()}", data[position] == 1)
    except UnicodeDecodeError:
        raise DecodeError("a principal that is not UTF-8") from None
