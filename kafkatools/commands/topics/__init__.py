"""kt topics: create, list, describe, alter and delete topics (kafka-topics.sh, TopicCommand).

The rules on options are TopicCommandOptions.checkArgs in its order. `names.py` resolves --topic; `create.py`,
`changes.py` and `describe.py` hold the actions. For --alter and --delete, a --topic that is the exact name of a topic
selects this topic only. Topics that a pattern matched are listed on stderr.
"""

from __future__ import annotations

from importlib import import_module

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules
from kafkatools.options.common import setting_option
from kafkatools.options.connection import connect_admin

_ACTIONS = {"create": "create", "list": "names", "alter": "changes", "describe": "describe", "delete": "changes"}
"""Each action with its module, whose function `run_ACTION` carries it out."""
REPORTS = ("under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions", "at-min-isr-partitions")
"""Options of --describe that choose partitions by their state."""
_DELETE_CONFIG = (
    "delete-config option is no longer supported and deprecated since version 4.0. "
    "The config will be fully removed in future releases."
)
_ALTER_CONFIG = (
    'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
    "(To alter topic configurations, the kafka-configs tool can be used.)"
)

OPTIONS = (
    Option("--create", "Create a topic."),
    Option("--list", "List topics."),
    Option("--describe", "Show the partitions and settings of topics."),
    Option("--alter", "Add partitions to topics."),
    Option("--delete", "Delete topics."),
    BOOTSTRAP_SERVER,
    Option("--topic", "The topic; a regular expression except with --create.", value="TOPIC"),
    Option("--topic-id", "Describe the topic with this id.", value="ID"),
    Option("--partitions", "Number of partitions.", value="COUNT", type=java_int),
    Option("--replication-factor", "Number of replicas of each partition.", value="COUNT", type=java_int),
    Option(
        "--replica-assignment",
        "Brokers of the replicas of each partition, the preferred leader first: 1:2,2:3 is two partitions "
        "with two replicas each.",
        value="BROKER:BROKER,...",
    ),
    setting_option("--config", "Setting of the new topic, also with units: retention.ms=7d."),
    Option("--if-not-exists", "With --create: do nothing when the topic exists."),
    Option("--if-exists", "With --alter, --delete, --describe: do nothing when the topic does not exist."),
    Option("--exclude-internal", "With --list and --describe: leave out internal topics."),
    Option("--topics-with-overrides", "With --describe: only topics with settings of their own."),
    Option("--under-replicated-partitions", "With --describe: only under-replicated partitions."),
    Option("--unavailable-partitions", "With --describe: only partitions without a live leader."),
    Option(
        "--under-min-isr-partitions",
        "With --describe: only partitions with fewer in-sync replicas than min.insync.replicas.",
    ),
    Option(
        "--at-min-isr-partitions", "With --describe: only partitions with exactly min.insync.replicas in-sync replicas."
    ),
    Option(
        "--partition-size-limit-per-response",
        "With --describe: maximum number of partitions in one response.",
        value="COUNT",
        type=java_int,
    ),
    command_config(),
    Option(
        "--delete-config",
        "Has no effect.",
        value="NAME",
        repeatable=True,
        replacement="kt configs --alter --delete-config",
    ),
    Option("--dry-run", "With --create, --alter, --delete: print what would happen, and change nothing.", ours=True),
)


def _other_actions(*allowed: str) -> tuple[str, ...]:
    return tuple(action for action in sorted(_ACTIONS) if action not in allowed)


RULES: tuple[rules.Rule, ...] = (
    rules.ExactlyOne(
        tuple(_ACTIONS), "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
    ),
    rules.Requirement(
        ("topic", "topic-id"),
        when=("describe", "if-exists"),
        message="--topic or --topic-id is required to describe a topic",
    ),
    rules.Requirement(("topic",), unless=("list", "describe")),
    rules.Refusal("config", ("alter",), _ALTER_CONFIG),
    rules.Requirement(("partitions",), when=("alter",)),
    rules.Refusal("config", _other_actions("create")),
    rules.Refusal("partitions", _other_actions("alter", "create")),
    rules.Refusal("replication-factor", _other_actions("create")),
    rules.Refusal("replica-assignment", _other_actions("alter", "create")),
    rules.Refusal("replica-assignment", ("partitions", "replication-factor"), when=("create",)),
    *(rules.Refusal(report, (*_other_actions("describe"), "topics-with-overrides")) for report in REPORTS),
    rules.Refusal("topics-with-overrides", _other_actions("describe")),
    rules.Refusal("if-exists", ("create", "list")),
    rules.Refusal("if-not-exists", _other_actions("create")),
    rules.Refusal("exclude-internal", _other_actions("describe", "list")),
    rules.Refusal("dry-run", _other_actions("create", "alter", "delete")),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt topics, such as --create. Returns FAILED when a topic failed."""
    if args.has_option("delete-config"):
        console.note(_DELETE_CONFIG)
    action = next(action for action in _ACTIONS if args.has_option(action))
    with connect_admin(console, args) as admin:
        module = import_module(f"kafkatools.commands.topics.{_ACTIONS[action]}")
        status: ExitStatus = getattr(module, f"run_{action}")(console, args, admin)
        return status


COMMAND = Command(
    "topics",
    "Create, list, describe, alter or delete topics.",
    OPTIONS,
    run,
    rules=RULES,
    error_prefix="Error while executing topic command : ",
    missing_bootstrap="--bootstrap-server must be specified",
    examples=(
        "kt topics --create --topic orders --partitions 3",
        "kt topics --list",
        "kt topics --describe --topic orders",
        "kt topics --delete --topic 'test-.*' --dry-run",
        "kt topics --describe --under-replicated-partitions --bootstrap-server broker1:9092",
    ),
    destructive=("delete", "alter"),
)
