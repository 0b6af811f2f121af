"""The jobs count, top-keys, diff and profile in this process: Arrow record batches of a scan, aggregated by DuckDB.

Their rows equal those of the Spark jobs of the same names (`kafkatools/pipeline/jobs/`).
"""
