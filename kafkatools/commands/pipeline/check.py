"""kt pipeline check: verify batches, indexes, snapshots and checkpoints of log directories, on all cores."""

from __future__ import annotations

from kafkatools.commands.pipeline.job_source import print_table
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import failures, session
from kafkatools.commands.pipeline.spark_progress import spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline check: print a table of problems. Returns FINDINGS for damage; warnings alone return OK.

    Raises UsageError without a path.
    """
    if not args.operands:
        raise UsageError("kt pipeline check needs a log directory, a partition directory or a log file")
    from kafkatools.pipeline.jobs.check import files_to_check
    from kafkatools.pipeline.jobs.spark_check import check

    paths = [path.removeprefix("log:") for path in args.operands]
    with failures():
        files = files_to_check(paths)
    with session(console, args) as spark, spark_progress(console, spark, "Checking"):
        findings = check(spark, paths, deep=args.deep).orderBy("file", "position").persist()
        print_table(console, "finding", findings)
        damages = findings.where("severity = 'damage'").count()
        warnings = findings.count() - damages
    size = sum(file.size_bytes for file in files)
    summary = f"{count_text(len(files), 'file')}, {count_text(size, 'byte')} checked"
    console.note(f"{summary}: {count_text(damages, 'damaged place')}, {count_text(warnings, 'warning')}")
    return ExitStatus.FINDINGS if damages else ExitStatus.OK
