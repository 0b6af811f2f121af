"""The broker's loggers for DescribeConfigs and IncrementalAlterConfigs (Kafka's LoggingController).

There is one logger, `root`, with the level of everything that kafkatools logs. TRACE and FATAL are Kafka's names for
levels that Python's logging does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kafkatools.core.broker.metadata.controller.configs import DELETE, SET, ConfigChange
from kafkatools.core.errors import InvalidConfig, InvalidRequest

ROOT = "root"
LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}


def levels() -> dict[str, str]:
    """The level of each logger by name, in Kafka's words."""
    current = logging.getLogger("kafkatools").getEffectiveLevel()
    word = next((word for word, level in sorted(LEVELS.items(), key=lambda item: item[1]) if level >= current), "FATAL")
    return {ROOT: word}


def alter(changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
    """Change levels of loggers, all or none; with `validate_only` only check them. Raises InvalidConfig for an unknown
    logger or level, InvalidRequest for an operation other than SET."""
    new_levels = []
    for change in changes:
        if change.operation not in (SET, DELETE):
            word = {2: "APPEND", 3: "SUBTRACT"}.get(change.operation, "UNKNOWN")
            raise InvalidRequest(f"{word} operation is not allowed for the BROKER_LOGGER resource")
        if change.name != ROOT:
            raise InvalidConfig(f"Logger {change.name} does not exist!")
        if change.operation == DELETE:
            raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")
        if change.value not in LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(LEVELS)}"
            )
        new_levels.append(LEVELS[change.value])
    if new_levels and not validate_only:
        logging.getLogger("kafkatools").setLevel(new_levels[-1])
