"""Read Kafka records into Spark tables, from a cluster or from log files, and write tables back to topics.

The package builds on PySpark's data source API and the record columns of `kafkatools.core.records`. Importing the
package imports neither PySpark nor pyarrow.
"""
