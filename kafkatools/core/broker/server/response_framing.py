"""Encoding of Produce and Fetch responses by hand: the field NodeEndpoints (KIP-951).

By NodeEndpoints a client that asked the wrong broker gets the leader's address without a Metadata request.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.varints import compact_string, unsigned_varint

_INT32 = Struct(">i")


def endpoint_tags(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the tagged fields at the end of a response: NodeEndpoints (tag 0), or none without endpoints."""
    if not endpoints:
        return b"\0"
    field = unsigned_varint(len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        field += _INT32.pack(node_id) + compact_string(host) + _INT32.pack(port) + compact_string(rack) + b"\0"
    return b"\1\0" + unsigned_varint(len(field)) + field
