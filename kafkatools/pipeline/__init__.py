"""Kafka's records as Spark tables, from a live cluster or from the files of a log, and back.

It stands on PySpark's data source API and the columns of `kafkatools.core.records`; importing it imports neither
PySpark nor pyarrow.
"""
