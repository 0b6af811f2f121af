"""kt acls: list, add and remove ACLs (kafka-acls.sh, AclCommand).

The ACLs that --remove matches are printed on stderr before the prompt. `entries.py` parses options, `changes.py`
carries changes out, after writing the undo file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.acls.entries import (
    Entry,
    Pattern,
    entry_of,
    pattern_of,
    patterns,
    principals,
    to_add,
    to_remove,
)
from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, rules
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER, connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.acls import Acl

_ACTIONS = ("list", "add", "remove", "from-file")
_CONSUMER = (
    "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be "
    "specified."
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt acls: --list, --add, --remove or --from-file. Returns FAILED when a change failed or the prompt was
    declined. Raises UsageError, CommandError or KafkaError."""
    if args.list:
        return _list(console, args)
    from kafkatools.commands.acls import changes

    if args.from_file is not None:
        planned = changes.read_file(args.from_file)
        with connect_admin(console, args) as admin:
            return changes.carry_out(console, args, admin, planned)
    if args.add:
        requested = to_add(args)
        with connect_admin(console, args) as admin:
            return changes.add(console, args, admin, requested)
    requested = to_remove(args)
    with connect_admin(console, args) as admin:
        return changes.remove(console, args, admin, requested)


def _list(console: Console, args: Args) -> ExitStatus:
    from kafkatools.core.admin.acls import AclFilter, describe_acls

    requested = patterns(args, is_needed=False)
    filters = [AclFilter(kind, name, pattern_type=pattern) for kind, name, pattern in requested] or [AclFilter()]
    names = principals(text for text in args.principal if text)
    with connect_admin(console, args) as admin:
        acls = sorted({acl for acl_filter in filters for acl in describe_acls(admin, acl_filter)})
    if args.json:
        from kafkatools.commands.acls.changes import row

        for acl in acls:
            if not names or acl.principal in names:
                console.print_json(row(acl))
        return ExitStatus.OK
    if not names:
        _print(console, acls)
    for name in names:
        console.print(f"ACLs for principal `{name}`")
        _print(console, [acl for acl in acls if acl.principal == name])
    return ExitStatus.OK


def _print(console: Console, acls: list[Acl]) -> None:
    by_pattern: dict[Pattern, list[Entry]] = {}
    for acl in acls:
        by_pattern.setdefault(pattern_of(acl), []).append(entry_of(acl))
    for pattern, entries in by_pattern.items():
        console.print(f"Current ACLs for resource `{pattern}`:")
        for entry in entries:
            console.print(f"\t{entry}")
        console.print("")


def _names(name: str, about: str, value: str) -> Option:
    return Option(name, about, value=value, repeatable=True)


COMMAND = Command(
    "acls",
    "List, add and remove ACLs.",
    options=(
        Option("--list", "List the ACLs of the named resources. Without a resource: all ACLs."),
        Option("--add", "Add ACLs that allow or deny operations on the named resources."),
        Option("--remove", "Remove ACLs of the named resources. Without a principal: all their ACLs."),
        Option("--from-file", "Apply the changes in a file that --undo-file wrote.", value="FILE", ours=True),
        BOOTSTRAP_SERVER,
        BOOTSTRAP_CONTROLLER,
        _names("--topic", "A topic; * for all topics.", "TOPIC"),
        _names("--group", "A group; * for all groups.", "GROUP"),
        Option("--cluster", "The cluster as a resource."),
        _names("--transactional-id", "A transactional id; * for all.", "ID"),
        _names("--delegation-token", "A delegation token; * for all tokens.", "ID"),
        _names("--user-principal", "A user principal as a resource, for CreateTokens and DescribeTokens.", "TYPE:NAME"),
        Option(
            "--resource-pattern-type",
            "How resource names match: literal or prefixed. With --list and --remove also any (literal and "
            "prefixed) and match (every ACL that applies to a resource of this name).",
            value="TYPE",
            default="literal",
            choices=("any", "match", "literal", "prefixed"),
        ),
        _names("--operation", "An operation, such as Read or DescribeConfigs. Default: All.", "OPERATION"),
        _names("--allow-principal", "A principal to allow access; User:* for all.", "TYPE:NAME"),
        _names("--deny-principal", "A principal to deny access. Deny wins over allow.", "TYPE:NAME"),
        _names("--allow-host", "A host from which access is allowed. Default: all hosts.", "HOST"),
        _names("--deny-host", "A host from which access is denied. Default: all hosts.", "HOST"),
        Option(
            "--producer",
            "The ACLs that a producer needs: Write, Describe and Create on topics, Write and Describe on "
            "transactional ids.",
        ),
        Option("--idempotent", "With --producer: also IdempotentWrite on the cluster."),
        Option("--consumer", "The ACLs that a consumer needs: Read and Describe on topics, Read on groups."),
        Option(
            "--principal",
            "With --list: only ACLs of this principal.",
            value="TYPE:NAME",
            repeatable=True,
            optional_value=True,
        ),
        Option("--force", "Remove without a prompt."),
        Option(
            "--undo-file", "First write the reverse changes to this file, for --from-file.", value="FILE", ours=True
        ),
        Option("--dry-run", "Print which ACLs would be added or removed, and change nothing.", ours=True),
        Option("--command-config", "Properties file with settings of the client.", value="FILE", optional_value=True),
    ),
    run=run,
    rules=(
        rules.Refusal(
            "bootstrap-server",
            ("bootstrap-controller",),
            "Only one of --bootstrap-server or --bootstrap-controller must be specified",
        ),
        rules.ExactlyOne(_ACTIONS, "Command must include exactly one action: --list, --add, --remove. "),
        rules.Refusal("list", ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal")),
        rules.Refusal("list", ("undo-file", "dry-run")),
        rules.Refusal("dry-run", ("undo-file",)),
        rules.Refusal("producer", ("operation", "deny-principal", "deny-host")),
        rules.Refusal("consumer", ("operation", "deny-principal", "deny-host")),
        rules.Requirement(
            ("list",), when=("principal",), message="The --principal option is only available if --list is set"
        ),
        rules.Requirement(("topic",), when=("producer",), message="With --producer you must specify a --topic"),
        rules.Requirement(
            ("producer",),
            when=("idempotent",),
            message="The --idempotent option is only available if --producer is set",
        ),
        rules.Requirement(("topic",), when=("consumer",), message=_CONSUMER),
        rules.Requirement(("group",), when=("consumer",), message=_CONSUMER),
        rules.Requirement(("producer",), when=("consumer", "cluster"), message=_CONSUMER),
        rules.Requirement(("producer",), when=("consumer", "transactional-id"), message=_CONSUMER),
    ),
    destructive=("add", "remove", "from-file"),
    error_prefix="Error while executing ACL command: ",
    missing_bootstrap="One of --bootstrap-server or --bootstrap-controller must be specified",
    examples=(
        "kt acls --list",
        "kt acls --add --allow-principal User:alice --operation Read --topic orders",
        "kt acls --add --producer --allow-principal User:shop --topic orders",
        "kt acls --remove --topic orders --dry-run",
        "kt acls --remove --topic orders --undo-file before.jsonl",
    ),
)
