"""The catalog of a cluster for Spark SQL: each topic is a table, and views are kept in a file.

    from kafkatools.pipeline.catalog import open_catalog

    catalog = open_catalog(spark, "localhost:9092", schema_registry="http://localhost:8081")
    catalog.sql("SELECT value.customer, count(*) FROM orders GROUP BY 1").show()

Importing the package imports neither PySpark nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from kafkatools.pipeline.catalog.catalog import Catalog


def open_catalog(
    spark: SparkSession,
    bootstrap_servers: str,
    settings: Mapping[str, str] | None = None,
    *,
    schema_registry: str | None = None,
    key: str = "binary",
    value: str = "binary",
    options: Mapping[str, str] | None = None,
    views: str | os.PathLike[str] | None = None,
) -> Catalog:
    """Open the catalog of a cluster on a Spark session, on which the data sources are registered.

    `settings` are settings of the clients. `schema_registry` is the URL of a schema registry, with USER:PASSWORD@ in
    front of the host if needed: keys and values of topics with a subject TOPIC-key or TOPIC-value are decoded by it.
    `key` and `value` ("binary" or "string") are the formats of the others. `options` are options of the data source
    `kt`. `views` is the file in which `CREATE VIEW` keeps views; without it they last as long as the catalog.

    No broker is contacted before the first query. Raises PipelineError for an invalid format, URL or option.
    """
    import os

    from kafkatools.pipeline.catalog.catalog import Catalog
    from kafkatools.pipeline.catalog.options import TableOptions
    from kafkatools.pipeline.catalog.tables import RecordTables
    from kafkatools.pipeline.catalog.views import ViewFile
    from kafkatools.pipeline.run.session import register
    from kafkatools.pipeline.uris import Cluster

    table_options = TableOptions.of(schema_registry, key, value, options or {})
    register(spark)
    cluster = Cluster(bootstrap_servers, dict(settings or {}))
    view_file = ViewFile(None if views is None else os.fspath(views))
    return Catalog(spark, RecordTables(spark, cluster, table_options), view_file)
