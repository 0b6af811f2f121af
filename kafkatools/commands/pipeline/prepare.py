"""kt pipeline prepare: make the archive of classes with which Spark starts faster on this machine."""

from __future__ import annotations

import os

from kafkatools.commands.pipeline.spark import failures, usage
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.pipeline.run import class_archive
from kafkatools.pipeline.run.session import ensure_can_start, find_java


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline prepare: make the archive, or remove all with --remove. Raises UsageError without PySpark or
    Java or if the class path cannot be archived, CommandError if the archive cannot be made or removed."""
    try:
        return _remove(console) if args.remove else _make(console)
    except OSError as error:
        raise CommandError(f"Cannot write {error.filename or console.home}: {error.strerror}") from error


def _make(console: Console) -> ExitStatus:
    with usage():
        ensure_can_start(None)
        class_archive.ensure_can_archive(console.environ)
    if not console.is_json:
        console.note("Starting Spark, to archive the classes of a session: this takes about half a minute ...")
    with failures(), console.progress("Running Spark"):
        path = class_archive.make(console.environ, find_java(console.environ))
    size_bytes = os.path.getsize(path)
    text = f"{path}: {size_bytes / (1 << 20):.0f} MiB; sessions of this Spark and Java use it from now on"
    console.print(text, {"file": path, "bytes": size_bytes})
    return ExitStatus.OK


def _remove(console: Console) -> ExitStatus:
    with failures():
        removed = class_archive.remove(console.environ)
    text = "\n".join(f"{path}: removed" for path in removed) or "There is no archive"
    console.print(text, {"removed": removed})
    return ExitStatus.OK
