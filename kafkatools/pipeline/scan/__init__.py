"""Records of topics and log files as Arrow record batches, without Spark and without a JVM."""
