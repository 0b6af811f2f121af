"""kt monitor: watch brokers, topics, groups and rates of any Kafka cluster. Kafka has no such tool.

A ClusterCollector queries the cluster every --interval. Its views go to the terminal (with keys `terminal/`, without
`screen.py`), to lines (`lines.py`), to --json (`json_form.py`), and by a server thread (`server.py`) to browsers and
Prometheus. One thread queries the cluster for views: with keys a thread of its own, else the main thread. Server
threads read the latest view from the `Board`. A request for records starts a process that reads them.
"""

from __future__ import annotations

from kafkatools.commands.monitor.sections import FAMILIES, SECTIONS
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.quantities import positive_seconds
from kafkatools.options.schema_registry import SCHEMA_REGISTRY


def interval(text: str) -> float:
    """Parse the seconds of --interval, as a number or with a unit. Raises UsageError."""
    return _seconds("--interval", text, (0.1, 86_400), "from 0.1 to 86400, such as 2, 500ms or 5m")


def _repeat(text: str) -> float:
    return _seconds("--alert-repeat", text, (0.001, 1e9), "above 0, such as 90, 30m or 1h")


def _seconds(option: str, text: str, limits: tuple[float, float], form: str) -> float:
    try:
        number = positive_seconds(text)
    except ValueError:
        number = -1.0
    least, most = limits
    if not least <= number <= most:
        raise UsageError(f"{option} takes seconds {form}, not '{text}'")
    return number


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt monitor until Ctrl-C or until a condition of --fail-if holds (FINDINGS) or is unknown (FAILED). With
    --once show one view, and return FAILED if data is missing. Raises UsageError, CommandError or KafkaError."""
    from kafkatools.commands.monitor.monitor_options import read_options
    from kafkatools.commands.monitor.watch import watch

    return watch(console, args, read_options(args, console.environ))


OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config(),
    Option(
        "--interval", "Refresh interval in seconds, or with a unit: 500ms. Default: 2.", value="SECONDS", type=interval
    ),
    Option("--once", "Print one snapshot and exit."),
    Option("--topic", "Only this topic.", value="TOPIC", repeatable=True),
    Option("--group", "Only this group.", value="GROUP", repeatable=True),
    Option("--regex", "Treat --topic and --group as Java regular expressions."),
    Option(
        "--view",
        "Sections to show, separated by commas: brokers, topics, partitions, groups, lag (of groups by "
        "topic), quorum, log-dirs, alerts, events, all. Default: brokers, topics, groups, alerts, events, and "
        "unhealthy partitions. On a terminal with keys the first one is shown first; default: an overview.",
        value="SECTION,...",
        choices=(*SECTIONS, "all"),
    ),
    Option(
        "--fail-if",
        "Exit with status 3 when a condition holds, such as offline>0, under-replicated>0, under-min-isr>0, brokers<3, "
        "lag>1000 (of a group), or unwell (any problem).",
        value="CONDITION",
        repeatable=True,
    ),
    Option(
        "--alert",
        "Report when a condition holds, has ended or becomes unknown, such as 'lag_seconds>300 for 5m', "
        "'lag>10000 for 2m on group=payments', 'under_replicated>0' or 'disk_used>90%'.",
        value="CONDITION [for DURATION]",
        repeatable=True,
    ),
    Option(
        "--alert-repeat",
        "Report an alert again after this long while it holds: 1h. Default: once.",
        value="DURATION",
        type=_repeat,
    ),
    Option(
        "--webhook",
        "POST alerts as JSON to this URL, also to those of chats such as Slack: https://..., file:PATH or env:NAME.",
        value="URL",
        repeatable=True,
    ),
    Option("--web", "Serve a web page at this address.", value="[HOST:]PORT"),
    Option(
        "--prometheus",
        "Serve /metrics for Prometheus at this address, to requests with the token in an Authorization header.",
        value="[HOST:]PORT",
    ),
    Option(
        "--metrics",
        "Metric names of /metrics, separated by commas: those of jmx-exporter, kafka-exporter, kt (ours), lag-exporter "
        "(kafka-lag-exporter), kminion, or all. Default: jmx-exporter,kafka-exporter,kt.",
        value="FAMILY,...",
        choices=(*FAMILIES, "all"),
    ),
    Option(
        "--otlp",
        "Export the figures of each snapshot by OTLP to this OpenTelemetry collector: http://localhost:4318, file:PATH "
        "or env:NAME.",
        value="URL",
    ),
    Option("--open-metrics", "Serve /metrics without a token."),
    Option(
        "--role",
        "view: print an address that shows figures (default). read: also print one that shows the records of topics.",
        value="ROLE",
        choices=("view", "read"),
    ),
    Option(
        "--view-token",
        "Token of the figures and metrics, of at least 16 characters: file:PATH or env:NAME. Default: a random token, "
        "which is printed.",
        value="TOKEN",
    ),
    Option(
        "--read-token", "Token for the records of topics: file:PATH or env:NAME. Implies --role read.", value="TOKEN"
    ),
    SCHEMA_REGISTRY._replace(
        about="With --role read: decode Avro, Protobuf and JSON Schema keys and values to JSON by the schemas of this "
        "registry. What cannot be decoded is shown undecoded and marked.",
    ),
    Option(
        "--decode",
        "With --role read: what to decode by the schema registry: key, value or both (default). Without "
        "--schema-registry the setting schema.registry.url names the registry.",
        value="PART",
        choices=("key", "value", "both"),
    ),
    Option(
        "--mask",
        "With --role read: hide contents before they leave kt monitor. FIELD: key, value, headers.NAME, or a JSON "
        "field such as value.user.email. HOW: hash (default, HMAC-SHA-256), null, or last4. A search does not find "
        "hidden contents.",
        value="FIELD[=HOW]",
        repeatable=True,
    ),
    Option(
        "--mask-key",
        "Secret key for the hashes of --mask: file:PATH or env:NAME. Default: a random key.",
        value="KEY",
    ),
    Option("--insecure", "Allow addresses that other machines can reach, although nothing is encrypted."),
)

COMMAND = Command(
    "monitor",
    "Watch brokers, partitions, groups and rates of a cluster, live.",
    tuple(option._replace(ours=True) for option in OPTIONS),
    run,
    rules=(
        rules.Refusal("once", ("web", "prometheus", "alert-repeat")),
        rules.Refusal("json", ("view",)),
        rules.Requirement(("web",), when=("role",), message="--role needs --web"),
        rules.Requirement(("web",), when=("read-token",), message="--read-token needs --web"),
        rules.Requirement(
            ("web", "prometheus"), when=("view-token",), message="--view-token needs --web or --prometheus"
        ),
        rules.Requirement(("mask",), when=("mask-key",), message="--mask-key needs --mask"),
        rules.Requirement(("alert",), when=("alert-repeat",), message="--alert-repeat needs --alert"),
        rules.Requirement(("alert",), when=("webhook",), message="--webhook needs --alert"),
        rules.Requirement(("prometheus",), when=("metrics",), message="--metrics needs --prometheus"),
        rules.Requirement(("prometheus",), when=("open-metrics",), message="--open-metrics needs --prometheus"),
    ),
    needs_arguments=False,
    examples=(
        "kt monitor",
        "kt monitor --bootstrap-server broker1:9092 --topic orders --view partitions,lag",
        "kt monitor --once --fail-if unwell --fail-if 'lag>10000'",
        "kt monitor --alert 'lag_seconds>300 for 5m' --webhook env:ALERT_URL",
        "kt monitor --web 8080 --prometheus 9308 --interval 5",
        "kt monitor --otlp http://localhost:4318 --interval 30",
        "kt monitor --web 8080 --role read --schema-registry http://localhost:8081 --mask value.email",
        "kt monitor --json | jq '.totals'",
    ),
)
