"""ClientLog: the log of one client, whose lines begin with its kind and ids as those of Apache Kafka's clients
(LogContext): `[Consumer clientId=app, groupId=g] ...`. Ids that are not set are left out."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import TracebackType

from kafkatools.core.config import Config

_KINDS = {"producer": "Producer", "consumer": "Consumer", "admin": "AdminClient"}
_IDS = {
    "group.instance.id": "instanceId",
    "client.id": "clientId",
    "transactional.id": "transactionalId",
    "group.id": "groupId",
}


def log_prefix(config: Config) -> str:
    """Return the text that the lines of a client with this configuration begin with."""
    ids = {label: config[name] for name, label in _IDS.items() if name in config.table}
    known = ", ".join(f"{label}={value}" for label, value in ids.items() if value)
    kind = _KINDS.get(config.table.label, config.table.label)
    return f"[{kind} {known}] " if known else f"[{kind}] "


_ExceptionInfo = (
    bool
    | BaseException
    | tuple[type[BaseException], BaseException, TracebackType | None]
    | tuple[None, None, None]
    | None
)


class ClientLog(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines begin with a prefix."""

    def __init__(self, logger: logging.Logger, prefix: str) -> None:
        super().__init__(logger)
        self._prefix = prefix

    @classmethod
    def of(cls, logger: logging.Logger, config: Config) -> ClientLog:
        """The log of a client with this configuration."""
        return cls(logger, log_prefix(config))

    def log(
        self,
        level: int,
        msg: object,
        *args: object,
        exc_info: _ExceptionInfo = None,
        stack_info: bool = False,
        stacklevel: int = 1,
        extra: Mapping[str, object] | None = None,
        **_: object,
    ) -> None:
        """Log a line of this level, naming the caller's file and line; arguments as of Logger.log."""
        if self.isEnabledFor(level):
            self.logger.log(
                level,
                f"%s{msg}",
                self._prefix,
                *args,
                exc_info=exc_info,
                stack_info=stack_info,
                stacklevel=stacklevel + 1,
                extra=extra,
            )
