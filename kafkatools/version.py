"""The version of kafkatools and of the Apache Kafka that it follows.

The one place of the version: pyproject.toml, `kt --version` and what clients tell brokers (ApiVersions) take it from
here.
"""

__version__ = "0.1.0"

KAFKA_VERSION = "4.3.1"
"""The version of Apache Kafka whose tools these are."""
