"""SQL over topics, log files, Parquet and CSV files by DuckDB, without Spark and without a JVM."""
