"""kt empty-topics: list the topics without records, or delete them."""

from __future__ import annotations

from kafkatools.plugins import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Console,
    ExitStatus,
    Option,
    command_config,
    open_admin,
)


def run(console: Console, args: Args) -> ExitStatus:
    """Print each topic without records, and with --delete delete it."""
    with open_admin(console, args) as admin:
        names = [topic.name for topic in admin.list_topics()]
        parts = [
            (name, part.partition) for name, topic in admin.describe_topics(names).items() for part in topic.partitions
        ]
        starts, ends = (admin.list_offsets(dict.fromkeys(parts, place)) for place in ("earliest", "latest"))
        filled = {part.topic for part, end in ends.items() if end.offset > starts[part].offset}
        empty = [name for name in names if name not in filled]
        if args.delete and empty:
            admin.delete_topics(empty)
    for name in empty:
        console.print(f"{name} deleted" if args.delete else name, {"topic": name, "deleted": bool(args.delete)})
    return ExitStatus.OK


COMMAND = Command(
    "empty-topics",
    "List the topics without records.",
    options=(
        Option("--delete", "Delete them."),
        BOOTSTRAP_SERVER,
        command_config(),
    ),
    run=run,
    needs_arguments=False,
    destructive=("delete",),  # asks on a protected cluster
    examples=("kt empty-topics", "kt --profile staging empty-topics --delete"),
)
