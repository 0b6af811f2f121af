"""What the pipeline takes of PySpark's data source API, under PySpark 4.0 as under the newest: import it from here.

What a version lacks is stood in for by something that nothing there ever calls or makes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.pandas import types

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "HAS_FILTERS",
    "HAS_READ_LIMITS",
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "DataSourceStreamWriter",
    "DataSourceWriter",
    "Filter",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "WriterCommitMessage",
    "arrow_schema",
]

HAS_FILTERS = hasattr(DataSourceReader, "pushFilters")
"""Filters can be pushed into a reader (4.1 and later)."""

HAS_READ_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""`latestOffset` is told where the stream is and how much is wanted (4.2 and later)."""


if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, Filter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class _Nothing:
        """What a version does not have."""

    def _stream_arrow_writer():
        """PySpark 4.0 gives Arrow batches to whatever is a DataSourceArrowWriter, in a stream too."""
        made = type("DataSourceStreamArrowWriter", (DataSourceStreamWriter, DataSourceArrowWriter), {})
        return getattr(datasource, "DataSourceStreamArrowWriter", made)

    Filter = getattr(datasource, "Filter", _Nothing)
    DataSourceArrowWriter = getattr(datasource, "DataSourceArrowWriter", DataSourceWriter)
    DataSourceStreamArrowWriter = _stream_arrow_writer()
    _name = "pyspark.sql.streaming.datasource"
    _limits = import_module(_name) if find_spec(_name) else None
    SupportsTriggerAvailableNow = getattr(_limits, "SupportsTriggerAvailableNow", _Nothing)
    ReadAllAvailable = getattr(_limits, "ReadAllAvailable", _Nothing)
    ReadLimit = getattr(_limits, "ReadLimit", _Nothing)
    ReadMaxRows = getattr(_limits, "ReadMaxRows", _Nothing)
    ReadMinRows = getattr(_limits, "ReadMinRows", _Nothing)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The pyarrow.Schema that batches of a reader must have."""
    convert: Callable[..., pa.Schema] = types.to_arrow_schema
    try:
        return convert(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0, which always writes UTC
        return convert(schema)
