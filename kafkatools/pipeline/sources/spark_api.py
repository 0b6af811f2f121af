"""PySpark's data source API for PySpark 4.0 and later; other pipeline modules import these names from here.

Classes that a PySpark version lacks are replaced by placeholders, which that version never calls or creates.
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
    "HAS_FILTERS", "HAS_READ_LIMITS", "DataSource", "DataSourceArrowWriter", "DataSourceReader",
    "DataSourceStreamArrowWriter", "DataSourceStreamReader", "DataSourceStreamWriter", "DataSourceWriter", "Filter",
    "InputPartition", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "ReadMinRows", "SupportsTriggerAvailableNow",
    "WriterCommitMessage", "arrow_schema",
]  # fmt: skip

HAS_FILTERS = hasattr(DataSourceReader, "pushFilters")
"""Whether filters can be pushed into a reader (PySpark 4.1 and later)."""

HAS_READ_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Whether Spark passes the stream's position and a read limit to `latestOffset` (PySpark 4.2 and later)."""

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
        """Placeholder for a class that this PySpark version lacks."""

    def _stream_arrow_writer():
        """Return a base class for Arrow stream writers. PySpark 4.0 lacks one, but passes Arrow batches to each
        DataSourceArrowWriter, in streams too."""
        writer = type("DataSourceStreamArrowWriter", (DataSourceStreamWriter, DataSourceArrowWriter), {})
        return getattr(datasource, "DataSourceStreamArrowWriter", writer)

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
    """Convert a Spark schema to the pyarrow.Schema that a reader's batches must have, with timestamps in UTC."""
    convert: Callable[..., pa.Schema] = types.to_arrow_schema
    try:
        return convert(schema, timezone="UTC")
    except TypeError:  # PySpark 4.0, which always writes UTC
        return convert(schema)
