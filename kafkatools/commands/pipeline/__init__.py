"""kt pipeline: records of Kafka as Spark tables, through SQL into any sink, and ready-made Spark jobs.

This module has the options of the subcommands; the code of each is a module of its own, imported like PySpark only when
the subcommand runs. Each subcommand checks that Spark can start before it starts a sandbox, contacts a cluster or
writes a file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import (
    ALWAYS,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    java_long,
    under,
)
from kafkatools.options.quantities import byte_count, milliseconds

_MASTER = Option(
    "--master",
    "Where Spark runs: local[N] (N cores of this machine), spark://HOST:PORT, yarn, k8s://..., or sc://HOST (Connect). "
    "Default: local[*].",
    value="URL",
)
_CONF = Option("--conf", "Spark setting, as for spark-submit.", value="KEY=VALUE", repeatable=True)
SPARK_OPTIONS = (_MASTER, _CONF)
_FROM_OPTION = Option("--from-option", "Spark option of the source.", value="KEY=VALUE", repeatable=True)
_CONNECTION = (BOOTSTRAP_SERVER, command_config())
_SOURCE_OPTIONS = (_FROM_OPTION, *SPARK_OPTIONS, *_CONNECTION)
_LEVELS = ("read_committed", "read_uncommitted")
_ISOLATION = Option(
    "--isolation-level",
    "read_committed leaves out records of aborted and open transactions, in topics and in log files; "
    "read_uncommitted reads all. Default: read_committed.",
    value="LEVEL",
    choices=_LEVELS,
)
_DEFAULT = "Default: the topic's setting in the cluster of --bootstrap-server, if given, else Kafka's default."
_FORMATS = ("binary", "string", "json", "avro", "protobuf")


def _other_cluster(side: str, about: str) -> tuple[Option, Option]:
    """Return the options for the cluster of a second topic: --SIDE-bootstrap-server, described by `about`, and
    --SIDE-command-config."""
    config = "Properties file with settings of the client for that cluster."
    return (
        Option(f"--{side}-bootstrap-server", about, value="HOST:PORT,..."),
        Option(f"--{side}-command-config", config, value="FILE"),
    )


def _job(module: str, function: str = "run") -> Callable[[Console, Args], ExitStatus]:
    """Return the `run` of a subcommand: check that Spark can start, then import the module and call its function."""

    def run(console: Console, args: Args) -> ExitStatus:
        from kafkatools.commands.pipeline.spark import ensure_spark

        ensure_spark(args)
        job = import_module(f"kafkatools.commands.pipeline.{module}")
        status: ExitStatus = getattr(job, function)(console, args)
        return status

    return run


_RUN_OPTIONS = (
    *under(
        "source and query",
        Option(
            "--from",
            "The source: topic:NAME[,NAME], log:PATH (a segment, a partition's directory, a log directory), "
            "parquet:PATH, json:PATH, csv:PATH, delta:PATH, iceberg:TABLE. In SQL it is the table `input`.",
            value="URI",
        ),
        _FROM_OPTION,
        Option("--sql", "The query over the table `input` whose rows are written to the sink.", value="TEXT"),
        Option("--sql-file", "The file with that query.", value="FILE"),
        Option(
            "--transform",
            "Python function from DataFrame to DataFrame, instead of SQL. Modules in the working directory can be "
            "imported.",
            value="MODULE:FUNCTION",
        ),
    ),
    *under(
        "sink",
        Option(
            "--to",
            "The sink: topic:NAME, parquet:PATH, json:PATH, csv:PATH, delta:PATH, iceberg:TABLE, or console: "
            "(standard output).",
            value="URI",
        ),
        Option("--to-option", "Spark option of the sink.", value="KEY=VALUE", repeatable=True),
        Option(
            "--mode",
            "What to do when the sink already has data.",
            value="MODE",
            choices=("append", "overwrite", "error", "ignore"),
        ),
        Option(
            "--partition-by",
            "A column whose values become directories of a file sink, or partitions of a table.",
            value="COLUMN",
            repeatable=True,
        ),
        Option(
            "--merge-by",
            "Upsert into a Delta or Iceberg table by this key column: the latest record of a key becomes its row, a "
            "tombstone deletes it. Repeat for a key of several columns.",
            value="COLUMN",
            repeatable=True,
        ),
    ),
    *under(
        "formats of keys and values",
        Option("--value", "The format of the values of records.", value="FORMAT", choices=_FORMATS),
        Option("--key", "The format of the keys of records.", value="FORMAT", choices=_FORMATS),
        Option(
            "--value-schema",
            "With --value json, avro, protobuf: a schema file (for JSON Spark's, as DDL or JSON; for Avro .avsc; for "
            "Protobuf .proto or a descriptor set).",
            value="FILE",
        ),
        Option("--key-schema", "With --key json, avro, protobuf: a schema file.", value="FILE"),
        Option(
            "--value-message",
            "With --value protobuf: the message type. Default: the first of the schema file.",
            value="NAME",
        ),
        Option(
            "--key-message",
            "With --key protobuf: the message type. Default: the first of the schema file.",
            value="NAME",
        ),
        Option(
            "--schema-registry",
            "Address of a schema registry (Confluent's API) for Avro and Protobuf. Credentials: USER:PASSWORD@ in "
            "front of the host, or basic.auth.user.info in the file of --command-config.",
            value="URL",
        ),
        Option("--strict", "Fail on the first damaged batch and on the first value that cannot be decoded."),
    ),
    *under(
        "streams and repeated runs",
        Option("--stream", "Keep reading new records. Needs --checkpoint."),
        Option("--checkpoint", "With --stream: directory or URL in which Spark saves its progress.", value="DIR"),
        Option(
            "--trigger",
            "With --stream: available-now (process the records that exist now, then exit), or seconds between two "
            "batches. Default: start the next batch when one ends.",
            value="available-now|SECONDS",
        ),
        Option(
            "--manifest", "At the end, list what was read and written in this file, which can be a URL.", value="FILE"
        ),
        Option("--resume", "With --manifest: skip what it lists as done, and finish an interrupted run."),
    ),
    *under(
        "Spark",
        *SPARK_OPTIONS,
        Option(
            "--report-path",
            "Existing directory or URL through which executors on other machines return counts and damage reports, "
            "which are deleted at the end. Default: a temporary directory of this machine.",
            value="DIR",
        ),
    ),
    *under(
        "clusters of topics",
        *_CONNECTION,
        *_other_cluster("to", "Brokers of a topic: sink in another cluster than the source."),
    ),
)

_RUN = Command(
    "run",
    "Read a source, transform it by SQL or a function, and write the rows to a sink.",
    options=_RUN_OPTIONS,
    run=_job("run"),
    operand="FILE.toml",
    examples=(
        "kt pipeline run --from topic:orders --to parquet:orders --manifest orders.json",
        'kt pipeline run --from log:/copy/of/kafka --to console: --sql "SELECT count(*) FROM input"',
        "kt pipeline run --from topic:a --to topic:b --stream --checkpoint state",
    ),
)

_SQL = Command(
    "sql",
    "Run Spark SQL over a cluster: each topic is a table of its name. Without a statement, open a prompt.",
    options=(
        *under(
            "statements",
            Option("--execute", "The statements to run.", value="SQL", aliases=("-e",)),
            Option("--file", "The file with the statements to run.", value="FILE", aliases=("-f",)),
            Option(
                "--views",
                "File in which CREATE VIEW keeps views. Default: views/CLUSTER_ID.sql in KT_HOME.",
                value="FILE",
            ),
            Option(
                "--output-format",
                "Format of the rows. Default: table. With --json: json.",
                value="FORMAT",
                choices=("table", "json", "csv"),
            ),
        ),
        *under(
            "tables",
            Option(
                "--schema-registry",
                "Address of a schema registry (Confluent's API): keys and values of topics with a subject TOPIC-key or "
                "TOPIC-value are decoded. Credentials as for kt pipeline run. Default: schema.registry.url of the "
                "profile or of --command-config.",
                value="URL",
            ),
            Option(
                "--value",
                "The format of values without a schema.",
                value="FORMAT",
                choices=("binary", "string"),
                default="binary",
            ),
            Option(
                "--key",
                "The format of keys without a schema.",
                value="FORMAT",
                choices=("binary", "string"),
                default="binary",
            ),
            _ISOLATION._replace(
                about="read_committed leaves out records of aborted and open transactions, in topics and in log files.",
                default="read_uncommitted",
            ),
            _FROM_OPTION._replace(about="Spark option of the topics and log files."),
        ),
        *under("Spark", *SPARK_OPTIONS),
        *under("cluster", *_CONNECTION),
    ),
    run=_job("sql"),
    operand="SQL",
    examples=(
        'kt pipeline sql "SELECT partition, count(*) FROM orders GROUP BY partition"',
        "kt pipeline sql --schema-registry http://localhost:8081 -e 'SELECT value.user FROM orders LIMIT 10' --json",
        "kt pipeline sql --file daily.sql --output-format csv",
        "kt pipeline sql",
    ),
)

_VERIFY = Command(
    "verify",
    "Check that the sources and the sink of a run still match its manifest.",
    options=(*SPARK_OPTIONS, *_CONNECTION),
    run=_job("verify"),
    operand="MANIFEST",
    examples=("kt pipeline verify orders.json",),
)

EXPORT = Command(
    "export",
    "Write records to Parquet, JSON or CSV files, on Spark also to a table. The next run adds new records or resumes "
    "an interrupted run.",
    options=(
        Option(
            "--to",
            "Target directory: parquet:DIR, json:DIR or csv:DIR; on Spark also of an object store, as "
            "parquet:s3a://BUCKET/PATH, or a table: delta:PATH or iceberg:TABLE.",
            value="URI",
            required=True,
        ),
        Option(
            "--partition-by",
            "Create directories, or partitions of a table, by date (UTC date of the timestamp), topic, both (separated "
            "by a comma), or none.",
            value="LIST",
            default="date",
        ),
        Option("--where", "Export only records for which this SQL condition is true.", value="SQL"),
        Option(
            "--text",
            "Write keys and values as text, those that are not UTF-8 as base64 in columns of their own. Always "
            "so with CSV.",
        ),
        Option("--no-headers", "Leave out the headers of records."),
        Option("--round", "Save progress every N offsets.", value="N", type=java_long),
        Option("--to-option", "Spark option of the file format or table.", value="KEY=VALUE", repeatable=True),
        *_SOURCE_OPTIONS,
    ),
    run=_job("export"),
    operand="SOURCE",
    examples=(
        "kt pipeline export topic:orders --to parquet:/archive/orders",
        "kt pipeline export log:/backup/kafka --to json:/tmp/json --partition-by topic,date --text",
    ),
)

COUNT = Command(
    "count",
    "Count the records of log files by their batch headers, or of a topic by its offsets or, with --exact, exactly.",
    options=(
        Option(
            "--exact",
            "Read the records to count them exactly, with aborted and open transactions, tombstones, and "
            "distinct and live keys. The field `basis` says what was counted.",
        ),
        Option(
            "--no-keys",
            "With --exact: skip the counts of keys. Files are then counted from batch headers, except compressed "
            "messages of old formats.",
        ),
        *_SOURCE_OPTIONS,
    ),
    run=_job("count"),
    operand="SOURCE",
    examples=("kt pipeline count log:/var/lib/kafka/data", "kt pipeline count topic:orders --exact --json"),
)

TOP_KEYS = Command(
    "top-keys",
    "Show the keys with the most records, and how unevenly records are spread over keys and partitions.",
    options=(
        Option("--top", "Number of keys to show.", value="N", type=java_int, default=20),
        Option("--by", "Sort order of keys.", value="records|bytes", choices=("records", "bytes"), default="records"),
        _ISOLATION,
        *_SOURCE_OPTIONS,
    ),
    run=_job("top_keys"),
    operand="SOURCE",
    examples=("kt pipeline top-keys topic:clicks --top 5", "kt pipeline top-keys log:/backup/kafka --by bytes"),
)

DIFF = Command(
    "diff",
    "Compare the records of two topics, also in two clusters, or log directories. Exit status 3 when they differ.",
    options=(
        Option(
            "--by",
            "key: compare the latest value of each key, a tombstone as no value. offset: compare record by "
            "record. multiset: compare how often each record occurs anywhere.",
            value="key|offset|multiset",
            choices=("key", "offset", "multiset"),
            default="key",
        ),
        Option(
            "--compare",
            "Fields to compare: some of key, value, timestamp, headers.",
            value="COLUMN,...",
            default="key,value",
        ),
        Option("--limit", "Number of differences to print. All are counted.", value="N", type=java_int, default=1000),
        _ISOLATION._replace(
            about=_ISOLATION.about.removesuffix(".") + ", and read_uncommitted with --by offset, which compares logs."
        ),
        *_other_cluster("right", "Brokers of the second topic if it is in another cluster."),
        _FROM_OPTION._replace(about="Spark option of both sources."),
        *SPARK_OPTIONS,
        *_CONNECTION,
    ),
    run=_job("diff"),
    operand="LEFT RIGHT",
    examples=(
        "kt pipeline diff topic:orders log:/backup/orders-0 --by offset",
        "kt pipeline diff topic:orders topic:orders --right-bootstrap-server other:9092",
    ),
)

CHECK = Command(
    "check",
    "Check log directories: batches, indexes, snapshots, leader epochs and transactions. Prints a table of problems.",
    options=(Option("--deep", "Also read every record, not only the checksums of batches."), *SPARK_OPTIONS),
    run=_job("check"),
    operand="DIRECTORY...",
    examples=("kt pipeline check /var/lib/kafka/data", "kt pipeline check /backup/orders-0 /backup/orders-1 --json"),
)

REPLAY = Command(
    "replay",
    "Send records again: from a dead-letter topic to their original topics, or from any source to one topic.",
    options=(
        Option("--to", "Target topic. Default: the original topic in a header of each record.", value="topic:NAME"),
        Option(
            "--topic-header",
            "Header with the original topic; of several the first that a record has. Default: "
            "kafka_dlt-original-topic, __connect.errors.topic.",
            value="NAME",
            repeatable=True,
        ),
        Option("--where", "Replay only records for which this SQL condition is true.", value="SQL"),
        Option("--rate", "Maximum records per second.", value="N"),
        Option(
            "--max-replays",
            "Skip records that were replayed this often, by the count in their header kt-replays.",
            value="N",
            type=java_int,
            default=3,
        ),
        Option("--allow-loop", "Allow a target topic that is also a source."),
        Option("--keep-timestamps", "Keep the timestamps of records instead of setting new ones."),
        Option("--dry-run", "Print how many records would be sent to which topic, and send nothing."),
        *_other_cluster("to", "Brokers of the target topic if it is in another cluster."),
        *_SOURCE_OPTIONS,
    ),
    run=_job("replay"),
    operand="SOURCE",
    destructive=ALWAYS,
    examples=(
        "kt pipeline replay topic:orders.DLT --dry-run",
        "kt pipeline replay topic:orders.DLT --where \"CAST(value AS STRING) LIKE '%timeout%'\" --rate 100",
        "kt pipeline replay log:/backup/orders-0 --to topic:orders --keep-timestamps",
    ),
)

RETENTION = Command(
    "retention-forecast",
    "Predict which retention rule deletes each segment, and when.",
    options=(
        Option("--retention-ms", f"Value of retention.ms; -1: no limit. {_DEFAULT}", value="MS", type=milliseconds),
        Option(
            "--retention-bytes", f"Value of retention.bytes; -1: no limit. {_DEFAULT}", value="BYTES", type=byte_count
        ),
        *_SOURCE_OPTIONS,
    ),
    run=_job("forecasts", "run_retention"),
    operand="LOG",
    examples=("kt pipeline retention-forecast /var/lib/kafka/data --retention-ms 86400000",),
)

COMPACTION = Command(
    "compact-forecast",
    "Predict how much of each segment of compacted topics the cleaner would remove now.",
    options=(
        Option("--min-cleanable-dirty-ratio", f"Value of min.cleanable.dirty.ratio. {_DEFAULT}", value="RATIO"),
        Option("--min-compaction-lag-ms", f"Value of min.compaction.lag.ms. {_DEFAULT}", value="MS", type=milliseconds),
        Option("--max-compaction-lag-ms", f"Value of max.compaction.lag.ms. {_DEFAULT}", value="MS", type=milliseconds),
        *_SOURCE_OPTIONS,
    ),
    run=_job("forecasts", "run_compaction"),
    operand="LOG",
    examples=("kt pipeline compact-forecast /var/lib/kafka/data/profiles-0",),
)

PROFILE = Command(
    "profile",
    "Write an HTML page with charts of sizes, rates, keys, group lag, compression, batches and timestamp order.",
    options=(
        Option("--out", "The HTML file to write.", value="FILE", required=True),
        Option("--top", "Number of keys to show.", value="N", type=java_int, default=20),
        Option("--no-keys", "Skip keys: log files are then profiled from batch headers alone."),
        *_SOURCE_OPTIONS,
    ),
    run=_job("profile"),
    operand="SOURCE",
    examples=(
        "kt pipeline profile log:/var/lib/kafka/data --out kafka.html",
        "kt pipeline profile topic:orders --out o.html",
    ),
)


def _write_package(console: Console, args: Args) -> ExitStatus:
    from kafkatools.commands.pipeline import package

    return package.run(console, args)


_PACKAGE = Command(
    "package",
    "Write kafkatools and its dependencies to a zip, for the nodes of a cluster. Needs no Spark.",
    options=(
        Option("--out", "The zip to write.", value="FILE", required=True),
        Option("--python-only", "Leave out compiled modules: for --py-files, and for another Python or platform."),
    ),
    run=_write_package,
    examples=(
        "kt pipeline package --out kafkatools-env.zip",
        "kt pipeline package --out kafkatools.zip --python-only",
    ),
)


def _prepare(console: Console, args: Args) -> ExitStatus:
    from kafkatools.commands.pipeline import prepare

    return prepare.run(console, args)


_PREPARE = Command(
    "prepare",
    "Archive the classes of Spark, so that it starts faster on this machine.",
    options=(Option("--remove", "Remove the archives of this user."),),
    run=_prepare,
    examples=("kt pipeline prepare", "kt pipeline prepare --remove"),
)

SUBCOMMANDS = (
    _RUN,
    _SQL,
    _VERIFY,
    _PACKAGE,
    _PREPARE,
    EXPORT,
    COUNT,
    TOP_KEYS,
    DIFF,
    CHECK,
    REPLAY,
    RETENTION,
    COMPACTION,
    PROFILE,
)

COMMAND = Command(
    "pipeline",
    "Run records from topics or log files through Spark SQL into any sink.",
    subcommands=SUBCOMMANDS,
    destructive=("replay",),
    examples=(
        'kt pipeline run --from topic:orders --value json --to console: --sql "SELECT value.* FROM input"',
        "kt pipeline run --from log:/var/lib/kafka/data --to parquet:out --manifest out.json",
        "kt pipeline run daily.toml",
        "kt pipeline verify out.json",
        "kt pipeline check /var/lib/kafka/data",
    ),
)
