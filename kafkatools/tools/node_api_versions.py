"""API versions of nodes as text, that of Kafka's NodeApiVersions, and as JSON rows."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.admin.cluster import ApiRange
from kafkatools.core.net.metadata import Node
from kafkatools.core.protocol.api_versions import ApiKey


def versions_text(node: Node, ranges: Iterable[ApiRange]) -> str:
    """Return the node and a line for each API in the order of API keys; UNSUPPORTED for those that the node lacks."""
    return f"{node_text(node)} -> (\n\t" + ",\n\t".join(_lines(ranges)) + "\n)"


def node_text(node: Node) -> str:
    """Return the node's address, id and rack in Kafka's form."""
    return f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: false)"


def versions_row(node: Node, ranges: Iterable[ApiRange], *, key: str) -> dict[str, object]:
    """Return a JSON row of a node and its APIs; `key` names the node's id, such as `broker`."""
    names = {int(api_key): api_key.label for api_key in ApiKey}
    apis = [
        {
            "key": api_range.api_key,
            "name": names.get(api_range.api_key),
            "min_version": api_range.min_version,
            "max_version": api_range.max_version,
        }
        for api_range in ranges
    ]
    return {key: node.id, "host": node.host, "port": node.port, "rack": node.rack, "apis": apis}


def _lines(ranges: Iterable[ApiRange]) -> list[str]:
    """Return a line for each API in the order of API keys; UNSUPPORTED for those that the node lacks."""
    lines = {api_range.api_key: _line(api_range) for api_range in ranges}
    for key in ApiKey:
        if key not in lines and not key.is_between_nodes:
            lines[key] = f"{key.label}({int(key)}): UNSUPPORTED"
    return [lines[key] for key in sorted(lines)]


def _line(api_range: ApiRange) -> str:
    low, high = api_range.min_version, api_range.max_version
    versions = str(low) if low == high else f"{low} to {high}"
    try:
        api_key = ApiKey(api_range.api_key)
    except ValueError:
        return f"UNKNOWN({api_range.api_key}): {versions}"
    if api_key.last_version < low:
        usable = "unusable: node too new"
    elif high < api_key.first_version:
        usable = "unusable: node too old"
    else:
        usable = f"usable: {min(api_key.last_version, high)}"
    return f"{api_key.label}({api_range.api_key}): {versions} [{usable}]"
