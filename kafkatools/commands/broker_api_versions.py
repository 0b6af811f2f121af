"""kt broker-api-versions: list the API versions of brokers (kafka-broker-api-versions.sh, BrokerApiVersionsCommand).

The text is that of Kafka's NodeApiVersions. Brokers that do not answer are named on stderr, with exit status 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, command_config
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt broker-api-versions. Returns FAILED when a broker did not answer."""
    from kafkatools.core.admin.cluster import describe_api_versions
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.node_api_versions import node_text, versions_row, versions_text

    with connect_admin(console, args) as admin:
        replies = describe_api_versions(admin)
    status = ExitStatus.OK
    for node, reply in replies.items():
        if isinstance(reply, KafkaError):
            console.error(f"{node_text(node)} -> ERROR: {reply}", reply.name, broker=node.id)
            status = ExitStatus.FAILED
        else:
            console.print(versions_text(node, reply), versions_row(node, reply, key="broker"))
    return status


COMMAND = Command(
    "broker-api-versions",
    "List the API versions that brokers support.",
    options=(BOOTSTRAP_SERVER, command_config()),
    run=run,
    needs_arguments=False,
    examples=("kt broker-api-versions --bootstrap-server localhost:9092",),
)
