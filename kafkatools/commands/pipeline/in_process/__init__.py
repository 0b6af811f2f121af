"""The jobs of kt pipeline that also run in this process, without Spark: `kt check` and others.

They have the options and the output of the job of the same name. `--engine spark` runs that job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.exit_status import UsageError
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from kafkatools.commands.pipeline.job_source import JobSource
    from kafkatools.console import Console
    from kafkatools.exit_status import ExitStatus
    from kafkatools.pipeline.jobs.in_process.tables import LocalSource

_OPTIONS_OF_SPARK = ("--master", "--conf", "--from-option", "--to-option")
ENGINE = Option(
    "--engine",
    "local: run in this process, without Spark. spark: run on Spark, where --master says, as kt pipeline does.",
    value="ENGINE",
    choices=("local", "spark"),
    default="local",
)


def ensure_local(args: Args) -> None:
    """Raise UsageError for an unknown engine, and for options of Spark without it."""
    if args.engine != "local":
        raise UsageError(f"--engine takes local or spark, not {args.engine}")
    for name in _OPTIONS_OF_SPARK:
        if args.has_option(name):
            raise UsageError(f"{name} needs --engine spark")


def job_here(job: Command, run_here: Callable[[Console, Args], ExitStatus], *examples: str) -> Command:
    """Return the command of a job of kt pipeline that `run_here` runs in this process, and --engine spark on Spark."""

    def run(console: Console, args: Args) -> ExitStatus:
        if args.engine == "spark" and job.run is not None:
            return job.run(console, args)
        ensure_local(args)
        return run_here(console, args)

    options = tuple(
        option._replace(about=f"{option.about} Needs --engine spark.") if option.name in _OPTIONS_OF_SPARK else option
        for option in job.options
    )
    return job._replace(run=run, options=(*options, ENGINE), examples=examples)


def local_source(source: JobSource, *, has_whole_segments: bool = False) -> LocalSource:
    """Return the source of a job for this process. `has_whole_segments`: with what is below the log start offset."""
    from kafkatools.pipeline.jobs.in_process.tables import LocalSource

    return LocalSource(source.uri, source.cluster, source.isolation, has_whole_segments=has_whole_segments)


@contextmanager
def condition_errors() -> Iterator[None]:
    """Raise the SqlError of a condition in this context as UsageError."""
    from kafkatools.tools.search.sql import SqlError

    try:
        yield
    except SqlError as error:
        raise UsageError(f"--where: {error}") from error


@contextmanager
def missing_packages() -> Iterator[None]:
    """Raise the PipelineError of a missing package in this context as UsageError, others as CommandError."""
    from kafkatools.commands.pipeline.spark import failures
    from kafkatools.pipeline.extras import ensure_installed

    with failures():
        ensure_installed("duckdb", "numpy", "pyarrow")
        yield
