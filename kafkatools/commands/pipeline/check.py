"""kt pipeline check: verify batches, indexes, snapshots and checkpoints of log directories, on all cores."""

from __future__ import annotations

from kafkatools.commands.pipeline.job_source import print_table
from kafkatools.commands.pipeline.show import counted
from kafkatools.commands.pipeline.spark import failures, session, spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline check: print a table of problems. Returns FINDINGS for damage; warnings alone return OK.

    Raises UsageError without a path.
    """
    if not args.operands:
        raise UsageError("kt pipeline check needs a log directory, a partition directory or a log file")
    from kafkatools.pipeline.jobs.check import check, files_to_check

    paths = [path.removeprefix("log:") for path in args.operands]
    with failures():
        files = files_to_check(paths)
    with session(console, args) as spark, spark_progress(console, spark, "Checking"):
        found = check(spark, paths, deep=args.deep).orderBy("file", "position").persist()
        print_table(console, "finding", found)
        damages = found.where("severity = 'damage'").count()
        warnings = found.count() - damages
    size = sum(each.size_bytes for each in files)
    what = f"{counted(len(files), 'file')}, {counted(size, 'byte')} checked"
    console.note(f"{what}: {counted(damages, 'damaged place')}, {counted(warnings, 'warning')}")
    return ExitStatus.FINDINGS if damages else ExitStatus.OK
