"""The version of kafkatools and of the Apache Kafka release that it follows.

A build writes the module `_version` with the version of the last tag and the number of commits since. Without it, in a
checkout that was never installed, the version is unknown: 0.1.dev0. `__version__` has only letters, digits, dots and
hyphens, as Apache Kafka requires of the software version of a client.
"""

try:
    from kafkatools._version import __version__ as __version__
except ImportError:
    __version__ = "0.1.dev0"

IS_RELEASE = "dev" not in __version__
"""Whether this version is one that is published, not a state between two releases."""

KAFKA_VERSION = "4.3.1"
"""The version of Apache Kafka whose tools these are."""
