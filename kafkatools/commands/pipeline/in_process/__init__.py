"""The jobs of kt pipeline that also run in this process, without Spark: `kt check` and others.

They have the options and the output of the job of the same name. `--engine spark` runs that job.
"""

from __future__ import annotations

from kafkatools.options import Option

ENGINE = Option(
    "--engine",
    "local: in this process, without Spark. spark: as kt pipeline does, on the cluster of --master.",
    value="ENGINE",
    choices=("local", "spark"),
    default="local",
)
