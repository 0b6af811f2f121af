"""kt groups: list groups of all types (kafka-groups.sh, org.apache.kafka.tools.GroupsCommand)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.groups import timeline
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.groups import GroupListing

_TYPES = ("classic", "consumer", "share", "streams")
_LEAST_WIDTH = 20


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt groups: list the groups that match the filters. Returns FAILED if a broker did not list its groups. Raises
    UsageError for an unknown --group-type, KafkaError if no broker answers."""
    if args.group_type is not None and args.group_type.lower() not in _TYPES:
        raise UsageError("--group-type must be a valid group type.")
    from kafkatools.core.admin.groups import list_groups
    from kafkatools.core.java.hash_order import hash_order

    with connect_admin(console, args) as admin:
        listings = list_groups(admin)
    if not listings.has_responses:
        raise next(iter(listings.errors.values()))
    by_name = {group.group_id: group for group in listings.groups if _takes(args, group)}
    rows = (
        {"group": group.group_id, "type": group.type, "state": group.state, "protocol": group.protocol_type}
        for group in sorted(by_name.values())
    )
    console.show(rows, _table([by_name[name] for name in hash_order(by_name)]))
    for node, error in listings.errors.items():
        prefix = f"broker {node}: " if node >= 0 else ""
        console.error(f"{args.command.error_prefix}{prefix}{error}", error.name, broker=node)
    return ExitStatus.FAILED if listings.errors else ExitStatus.OK


def _takes(args: Args, group: GroupListing) -> bool:
    """Return whether a group matches the filter options (GroupsCommand.combinedFilter)."""
    if args.group_type is not None or args.protocol is not None:
        has_type = args.group_type is None or group.type.lower() == args.group_type.lower()
        return has_type and (args.protocol is None or group.protocol_type == args.protocol)
    if args.consumer:
        return group.protocol_type in ("consumer", "") or group.type == "Consumer"
    if args.share or args.streams:
        return group.type == ("Share" if args.share else "Streams")
    return True


def _table(groups: Sequence[GroupListing]) -> Iterator[str]:
    rows = [(group.group_id, "" if group.type == "Unknown" else group.type, group.protocol_type) for group in groups]
    width = max([_LEAST_WIDTH, *(len(cell) for row in rows for cell in row)])
    cell = f"%-{width}s"
    yield f"{cell} {cell} {cell}" % ("GROUP", "TYPE", "PROTOCOL")
    for row in rows:
        yield f"{cell} {cell} {cell} " % row


COMMAND = Command(
    "groups",
    "List groups of all types.",
    options=(
        Option("--list", "List groups with their type and protocol."),
        BOOTSTRAP_SERVER,
        Option("--group-type", "Only groups of this type.", value="TYPE", choices=_TYPES),
        Option("--protocol", "Only groups with this protocol.", value="PROTOCOL"),
        Option("--consumer", "Only consumer groups of either protocol and simple consumer groups."),
        Option("--share", "Only share groups."),
        Option("--streams", "Only streams groups."),
        command_config(),
    ),
    run=run,
    subcommands=(timeline.COMMAND,),
    rules=(
        rules.Requirement(("list",), message="Command must include exactly one action: --list."),
        rules.Refusal("consumer", ("group-type", "protocol", "share", "streams")),
        rules.Refusal("share", ("consumer", "group-type", "protocol", "streams")),
        rules.Refusal("streams", ("consumer", "group-type", "protocol", "share")),
    ),
    error_prefix="Error while executing groups command : ",
    missing_bootstrap="Missing required option(s) [bootstrap-server]",
    examples=("kt groups --list", "kt groups --list --consumer --json", "kt groups timeline shop"),
)
