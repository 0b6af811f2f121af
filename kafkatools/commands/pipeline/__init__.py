"""kt pipeline: records of Kafka as Spark tables, through SQL into any sink, and ready-made Spark jobs.

Each subcommand is a module; its COMMAND is in SUBCOMMANDS. PySpark is imported only when a subcommand runs. Each
subcommand checks that Spark can start before it starts a sandbox, contacts a cluster or writes a file.
"""

from __future__ import annotations

from kafkatools.commands.pipeline.check import COMMAND as CHECK
from kafkatools.commands.pipeline.count import COMMAND as COUNT
from kafkatools.commands.pipeline.diff import COMMAND as DIFF
from kafkatools.commands.pipeline.export import COMMAND as EXPORT
from kafkatools.commands.pipeline.forecasts import COMPACTION, RETENTION
from kafkatools.commands.pipeline.profile import COMMAND as PROFILE
from kafkatools.commands.pipeline.replay import COMMAND as REPLAY
from kafkatools.commands.pipeline.run import COMMAND as RUN
from kafkatools.commands.pipeline.spark import ensures_spark
from kafkatools.commands.pipeline.top_keys import COMMAND as TOP_KEYS
from kafkatools.commands.pipeline.verify import COMMAND as VERIFY
from kafkatools.options import Command

_JOBS = (EXPORT, COUNT, TOP_KEYS, DIFF, CHECK, REPLAY, RETENTION, COMPACTION, PROFILE)
SUBCOMMANDS: tuple[Command, ...] = tuple(ensures_spark(command) for command in (RUN, VERIFY, *_JOBS))

COMMAND = Command(
    "pipeline",
    "Run records from topics or log files through Spark SQL into any sink.",
    subcommands=SUBCOMMANDS,
    examples=(
        'kt pipeline run --from topic:orders --value json --to console: --sql "SELECT value.* FROM input"',
        "kt pipeline run --from log:/var/lib/kafka/data --to parquet:out --manifest out.json",
        "kt pipeline run daily.toml",
        "kt pipeline verify out.json",
        "kt pipeline check /var/lib/kafka/data",
    ),
)
