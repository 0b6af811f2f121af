"""kafkatools: Apache Kafka's bin/ without the JVM."""

__version__ = "0.1.0"
"""The one place of the version: pyproject.toml, `kt --version` and what clients tell brokers take it from here."""
