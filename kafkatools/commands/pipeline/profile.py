"""kt pipeline profile: write figures of topics or log files as an HTML page that needs no network."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import session, spark_progress
from kafkatools.console import Console
from kafkatools.core import atomic_file
from kafkatools.core.admin.client import AdminClient
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.pipeline.charts.page import profile_page
from kafkatools.pipeline.charts.profile_data import GroupLag, Profile
from kafkatools.pipeline.jobs.offsets import offsets_of_topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_BATCHES = (
    "topic", "partition", "size", "baseOffset", "lastOffset", "count", "maxTimestamp", "codec", "isControl",
)  # fmt: skip
_RECORDS = ("key", "value", "topic", "partition", "offset", "timestamp", "batchPosition")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline profile: write the page to --out, and with --json print its figures. Returns FINDINGS if damaged
    ranges were skipped. Raises CommandError if the page cannot be written."""
    _ensure_writable(args.out)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        with session(console, args) as spark, spark_progress(console, spark, "Reading"):
            profile = _profile(console, args, spark, source)
        status = job_source.report_damages(console, reports)
    atomic_file.replace(args.out, profile_page(profile).encode())
    if console.is_json:
        _print_figures(console, profile)
    console.note(f"{args.out}: open it in a browser")
    return status


def _ensure_writable(path: str) -> None:
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory) or os.path.isdir(path) or not os.access(directory, os.W_OK):
        raise CommandError(f"Cannot write {path}: it is a directory, or its directory is missing or read-only")


def _profile(console: Console, args: Args, spark: SparkSession, source: job_source.JobSource) -> Profile:

    from kafkatools.pipeline.jobs.profile import batches_of_records, key_figures, profile_of

    if source.is_log:
        batches = source.batches(spark, _BATCHES).persist()
    else:
        batches = batches_of_records(source.table(spark, _RECORDS)).persist()
    keys = None if args.no_keys else key_figures(source.table(spark, ("key", "value", "topic")), args.top)
    lags = None if source.is_log else _lags(console, source)
    profile = profile_of(str(source.uri), console.clock.wall_ms(), batches, keys=keys, lags=lags)
    return replace(profile, damages=len(job_source.damages_in(source.reports)))


def _lags(console: Console, source: job_source.JobSource) -> list[GroupLag]:
    from kafkatools.pipeline.jobs.profile import group_lags

    assert source.cluster is not None
    ends = offsets_of_topics(source.uri, source.options, source.cluster)
    with AdminClient(source.cluster.bootstrap, dict(source.cluster.settings), console.clock) as admin:
        return group_lags(admin, ends)


def _print_figures(console: Console, profile: Profile) -> None:
    kinds = {
        "partition": profile.partitions,
        "rate": profile.rates,
        "codec": profile.codecs,
        "batch_size": profile.batch_sizes,
        "batch_count": profile.batch_counts,
        "lag": profile.lags or (),
    }
    for kind, rows in kinds.items():
        for row in rows:
            values = asdict(row)  # type: ignore[call-overload]
            job_source.print_rows(console, kind, list(values), [tuple(values.values())])
    if profile.keys is not None:
        for key in profile.keys.top:
            job_source.print_rows(
                console,
                "key",
                ("topic", "key", "records", "bytes"),
                [(key.topic or None, key.key, key.records, key.size_bytes)],
            )
