"""The version of kafkatools and of the Apache Kafka release that it follows.

pyproject.toml, `kt --version` and the ApiVersions requests of clients take the version from here.
"""

__version__ = "0.1.0"

KAFKA_VERSION = "4.3.1"
"""The version of Apache Kafka whose tools these are."""
