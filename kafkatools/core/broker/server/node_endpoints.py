"""The field NodeEndpoints of Produce and Fetch responses (KIP-951): a client that asked the wrong broker gets the
leader's address without a Metadata request."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.varints import unsigned_varint

_INT32 = Struct(">i")


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the field NodeEndpoints, which has tag 0 in both responses."""
    out = bytearray(unsigned_varint(len(endpoints) + 1))
    for each in endpoints:
        out += _INT32.pack(each.node_id) + _compact(each.host) + _INT32.pack(each.port) + _compact(each.rack) + b"\0"
    return bytes(out)


def _compact(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    encoded = text.encode()
    return unsigned_varint(len(encoded) + 1) + encoded
