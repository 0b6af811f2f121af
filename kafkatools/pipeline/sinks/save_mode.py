"""The save mode of `df.write.format("kt").save()`: append, as with Spark's Kafka sink.

Spark gives a Python data source no say in this: without `mode` its own mode is errorIfExists, which it refuses for each
data source of this kind before it asks the source. Spark's Kafka sink takes errorIfExists as append. So `save` of
PySpark's writers is replaced once in a process; other formats and modes pass through unchanged.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession

_SINK = "kt"
_APPENDS = ("error", "errorifexists", "default")
"""The save modes, in lower case, that append to a topic."""


def append_by_default(spark: SparkSession) -> None:
    """Let `save` append to the `kt` sink unless another mode is set, for all writers of the class that this session
    uses: those of a session in this process, or of Spark Connect."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        writer_type = cast("type[DataFrameWriter]", ConnectWriter)
    else:
        from pyspark.sql import DataFrameWriter

        writer_type = DataFrameWriter
    original = writer_type.save
    if hasattr(original, "of_spark"):
        return

    @functools.wraps(original)
    def save(
        self: DataFrameWriter,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: str | list[str] | None = None,  # noqa: N803 - PySpark's name
        **options: bool | float | str | None,
    ) -> None:
        if (format or _format_of(self)).lower() == _SINK and (mode or _mode_of(self)).lower() in _APPENDS:
            mode = "append"
        original(self, path, format, mode, partitionBy, **options)

    setattr(save, "of_spark", original)  # noqa: B010 - a function has no such attribute for mypy
    setattr(writer_type, "save", save)  # noqa: B010 - mypy refuses a new method


def _format_of(writer: DataFrameWriter) -> str:
    """Return the format of a writer; empty if it cannot be read."""
    if hasattr(writer, "_write"):
        return writer._write.source or ""
    return _java_field(writer, "source")


def _mode_of(writer: DataFrameWriter) -> str:
    """Return the save mode of a writer, "error" unless it was set; empty if it cannot be read."""
    if hasattr(writer, "_write"):
        return writer._write.mode or "error"
    return _java_field(writer, "curmode")


def _java_field(writer: DataFrameWriter, name: str) -> str:
    from py4j.protocol import Py4JError

    try:
        return str(getattr(writer._jwrite, name)())
    except Py4JError:  # another Spark version
        return ""
