"""The jobs of kt pipeline that also run in this process, without Spark: `kt check` and others.

They have the options and the output of the job of the same name. `--engine spark` runs that job.
"""

from __future__ import annotations

from kafkatools.exit_status import UsageError
from kafkatools.options import Args, Option

ENGINE = Option(
    "--engine",
    "local: in this process, without Spark. spark: as kt pipeline does, on the cluster of --master.",
    value="ENGINE",
    choices=("local", "spark"),
    default="local",
)


def ensure_local(args: Args) -> None:
    """Raise UsageError for an unknown engine, and for options of Spark without it."""
    if args.engine != "local":
        raise UsageError(f"--engine takes local or spark, not {args.engine}")
    for name in ("master", "conf"):
        if getattr(args, name):
            raise UsageError(f"--{name} is for --engine spark")
