"""kt broker-api-versions: list the API versions of brokers (kafka-broker-api-versions.sh, BrokerApiVersionsCommand).

The text is that of Kafka's NodeApiVersions. Brokers that do not answer are named on stderr, with exit status 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, command_config
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.cluster import ApiRange
    from kafkatools.core.net.metadata import Node


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt broker-api-versions. Returns FAILED when a broker did not answer."""
    from kafkatools.core.admin.cluster import describe_api_versions
    from kafkatools.core.errors import KafkaError

    with connect_admin(console, args) as admin:
        replies = describe_api_versions(admin)
    status = ExitStatus.OK
    for node, reply in replies.items():
        name = f"{node.host}:{node.port} (id: {node.id} rack: {node.rack or 'null'} isFenced: false)"
        if isinstance(reply, KafkaError):
            console.error(f"{name} -> ERROR: {reply}", reply.name, broker=node.id)
            status = ExitStatus.FAILED
        elif args.json:
            _print_json(console, node, reply)
        else:
            console.print(f"{name} -> (")
            console.print_lines("\t" + ",\n\t".join(_lines(reply)) + "\n)")
    return status


def _lines(ranges: Iterable[ApiRange]) -> list[str]:
    """Return a line for each API in the order of API keys; UNSUPPORTED for those that the broker lacks."""
    from kafkatools.core.protocol.api_versions import ApiKey

    lines = {api_range.api_key: _line(api_range) for api_range in ranges}
    for key in ApiKey:
        if key not in lines and not key.is_between_nodes:
            lines[key] = f"{key.label}({int(key)}): UNSUPPORTED"
    return [lines[key] for key in sorted(lines)]


def _line(api_range: ApiRange) -> str:
    from kafkatools.core.protocol.api_versions import ApiKey

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


def _print_json(console: Console, node: Node, ranges: Iterable[ApiRange]) -> None:
    from kafkatools.core.protocol.api_versions import ApiKey

    names = {int(key): key.label for key in ApiKey}
    apis = [
        {
            "key": api_range.api_key,
            "name": names.get(api_range.api_key),
            "min_version": api_range.min_version,
            "max_version": api_range.max_version,
        }
        for api_range in ranges
    ]
    console.print_json({"broker": node.id, "host": node.host, "port": node.port, "rack": node.rack, "apis": apis})


COMMAND = Command(
    "broker-api-versions",
    "List the API versions that brokers support.",
    options=(BOOTSTRAP_SERVER, command_config()),
    run=run,
    needs_arguments=False,
    examples=("kt broker-api-versions --bootstrap-server localhost:9092",),
)
