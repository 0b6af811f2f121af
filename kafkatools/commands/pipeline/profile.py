"""kt pipeline profile: write figures of topics or log files as an HTML page that needs no network."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import failures, session
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.core import atomic_file
from kafkatools.core.admin.client import AdminClient
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.pipeline.charts.page import profile_page
from kafkatools.pipeline.charts.profile_data import GroupLag, Profile
from kafkatools.pipeline.jobs.offsets import offsets_of_topics
from kafkatools.pipeline.jobs.profile_figures import group_lags, rows_of_profile, stored_bytes, with_stored_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkatools.commands.pipeline.job_source import JobSource


_BATCHES = (
    "topic", "partition", "size", "baseOffset", "lastOffset", "count", "maxTimestamp", "codec", "isControl",
)  # fmt: skip
_RECORDS = ("key", "value", "topic", "partition", "offset", "timestamp", "batchPosition")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline profile: write the page to --out, and with --json print its figures. Returns FINDINGS if damaged
    ranges were skipped. Raises CommandError if the page cannot be written."""
    ensure_options(args)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        with session(console, args) as spark, job_progress(console, spark, "Reading", reports):
            profile = _profile(console, args, spark, source)
        damages = job_source.damages_in(reports)
    return write_page(console, args, replace(profile, damages=len(damages)), job_source.print_damages(console, damages))


def ensure_options(args: Args) -> None:
    """Raise UsageError for a negative number of keys, CommandError if the page cannot be written to --out."""
    job_source.ensure_at_least("top", args.top, 0)
    path = args.out
    directory = os.path.dirname(os.path.abspath(path))
    if not path:
        raise CommandError("--out is empty: it names the file of the page")
    if os.path.isdir(path):
        raise CommandError(f"Cannot write '{path}': --out names the file of the page, not a directory")
    if not os.path.isdir(directory):
        raise CommandError(f"Cannot write '{path}': the directory {directory} does not exist")
    if not os.access(directory, os.W_OK):
        is_read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
        problem = "is on a read-only file system" if is_read_only else "does not permit you to create files"
        raise CommandError(f"Cannot write '{path}': the directory {directory} {problem}")


def write_page(console: Console, args: Args, profile: Profile, status: ExitStatus) -> ExitStatus:
    """Write the page, and with --json print its figures. Returns `status`."""
    atomic_file.replace(args.out, profile_page(profile).encode())
    if console.is_json:
        for kind, values in rows_of_profile(profile):
            job_source.print_rows(console, kind, list(values), [tuple(values.values())])
    console.note(f"{args.out}: open it in a browser")
    return status


def _profile(console: Console, args: Args, spark: SparkSession, source: JobSource) -> Profile:

    from kafkatools.pipeline.jobs.profile import batches_of_records, key_figures, profile_of

    if source.is_log:
        batches = source.batches(spark, _BATCHES).persist()
    else:
        batches = batches_of_records(source.table(spark, _RECORDS)).persist()
    keys = None if args.no_keys else key_figures(source.table(spark, ("key", "value", "topic")), args.top)
    lags = lags_of(console, source)
    profile = profile_of(str(source.uri), console.clock.wall_ms(), batches, keys=keys, lags=lags)
    return complete(console, source, profile)


def lags_of(console: Console, source: JobSource) -> list[GroupLag] | None:
    """Return the lags of groups in a live topic, None for log files."""
    if source.cluster is None:
        return None
    with failures():
        ends = offsets_of_topics(source.uri, source.options, source.cluster)
    with AdminClient(source.cluster.bootstrap, dict(source.cluster.settings), console.clock) as admin:
        return group_lags(admin, ends)


def complete(console: Console, source: JobSource, profile: Profile) -> Profile:
    """Return the profile of a live topic with the stored bytes of its partitions, that of log files as it is."""
    if source.cluster is None:
        return profile
    with AdminClient(source.cluster.bootstrap, dict(source.cluster.settings), console.clock) as admin:
        return with_stored_bytes(profile, stored_bytes(admin, {part.topic for part in profile.partitions}))
