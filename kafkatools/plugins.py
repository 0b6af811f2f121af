"""The names that plugins import: distributions that add commands, formatters, decoders, deserializers, serializers,
logins and storages of backups to `kt` by entry points.

docs/plugins.md is the guide, and says what stays. Each name is imported on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.console import Console as Console
    from kafkatools.core.consumer.consumer_records import ConsumerRecord as ConsumerRecord
    from kafkatools.core.consumer.deserializers import DeserializerPlugin as DeserializerPlugin
    from kafkatools.core.log.dump.decoders import DecoderPlugin as DecoderPlugin
    from kafkatools.core.net.security.mechanisms import Mechanism as Mechanism
    from kafkatools.core.net.security.plugin_login import MechanismPlugin as MechanismPlugin
    from kafkatools.core.net.security.plugin_login import TokenPlugin as TokenPlugin
    from kafkatools.core.net.security.tokens import Token as Token
    from kafkatools.core.producer.serializers import SerializerPlugin as SerializerPlugin
    from kafkatools.exit_status import CommandError as CommandError
    from kafkatools.exit_status import ExitStatus as ExitStatus
    from kafkatools.exit_status import UsageError as UsageError
    from kafkatools.options.args import Args as Args
    from kafkatools.options.common import BOOTSTRAP_SERVER as BOOTSTRAP_SERVER
    from kafkatools.options.common import client_settings as client_settings
    from kafkatools.options.common import command_config as command_config
    from kafkatools.options.connection import open_admin as open_admin
    from kafkatools.options.table import ALWAYS as ALWAYS
    from kafkatools.options.table import Command as Command
    from kafkatools.options.table import Option as Option
    from kafkatools.tools.backup.plugin_store import Storage as Storage
    from kafkatools.tools.backup.plugin_store import StoragePlugin as StoragePlugin
    from kafkatools.tools.lines.plugin_formatter import FormatterPlugin as FormatterPlugin

_EXPORTS = {
    "ALWAYS": "options.table",
    "Args": "options.args",
    "BOOTSTRAP_SERVER": "options.common",
    "Command": "options.table",
    "CommandError": "exit_status",
    "Console": "console",
    "ConsumerRecord": "core.consumer.consumer_records",
    "DecoderPlugin": "core.log.dump.decoders",
    "DeserializerPlugin": "core.consumer.deserializers",
    "ExitStatus": "exit_status",
    "FormatterPlugin": "tools.lines.plugin_formatter",
    "Mechanism": "core.net.security.mechanisms",
    "MechanismPlugin": "core.net.security.plugin_login",
    "Option": "options.table",
    "SerializerPlugin": "core.producer.serializers",
    "Storage": "tools.backup.plugin_store",
    "StoragePlugin": "tools.backup.plugin_store",
    "Token": "core.net.security.tokens",
    "TokenPlugin": "core.net.security.plugin_login",
    "UsageError": "exit_status",
    "client_settings": "options.common",
    "command_config": "options.common",
    "open_admin": "options.connection",
}

__all__ = list(_EXPORTS)  # noqa: PLE0605


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import an exported name on first use, so that a command loads only what it uses."""
        from importlib import import_module

        module = _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        exported = getattr(import_module(f"kafkatools.{module}"), name)
        globals()[name] = exported
        return exported
