"""The jobs of kt pipeline in this process. DuckDB aggregates the Arrow record batches of a scan.

Their rows equal those of the Spark jobs of the same names (`kafkatools/pipeline/jobs/`).
"""
