"""Options that many commands share, and the client settings they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kafkatools.exit_status import UsageError
from kafkatools.options.properties import read_properties
from kafkatools.options.table import Option, attribute_name

if TYPE_CHECKING:
    from kafkatools.core.config import Table
    from kafkatools.options.args import Args

BOOTSTRAP_SERVER = Option(
    "--bootstrap-server",
    "Brokers for the first connection, separated by commas. Default: those of the profile; without a profile the"
    " sandbox of this machine, which is started if needed.",
    value="HOST:PORT,...",
)

DURABILITY = Option(
    "--durability",
    "none, as in Kafka: acknowledged records survive a crash of the broker process, but perhaps not a power "
    "failure. fsync: they survive a power failure, too; they are on disk before they are acknowledged or read.",
    value="LEVEL",
    choices=("none", "fsync"),
)


def command_config(about: str = "Properties file with settings of the client.") -> Option:
    """Return the option --command-config with this help text."""
    return Option("--command-config", about, value="FILE")


def setting_option(name: str, about: str, *, replacement: str = "", several: bool = False) -> Option:
    """Return a repeatable option that takes one setting, such as `--command-property linger.ms=5`."""
    return Option(name, about, value="NAME=VALUE", repeatable=True, replacement=replacement, several=several)


def format_of_file(path: str | None) -> str | None:
    """Return the format of records that the extension of a file stands for, csv, parquet or avro, else None. Nothing
    else in such a file makes sense; .json may be JSON values as lines of text."""
    extension = (path or "").rpartition("/")[2].rpartition(".")[2].lower()
    return extension if extension in ("csv", "parquet", "avro") else None


def property_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return an option's `key=value` texts as a mapping; the last value of a key wins. Raises UsageError for a text
    without `=` or key."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            name = text.replace(":", " ").split(maxsplit=1)[:1]  # the rest may be a password
            raise UsageError(f"--{option} takes key=value, not '{''.join(name)}'")
        pairs[key.strip()] = value
    return pairs


def client_settings(args: Args, file_option: str = "command_config") -> dict[str, str]:
    """Return the profile's client settings, overridden by those of the file that `file_option` names. Logs a warning
    for each setting in the file that no client has. Raises CommandError for an unreadable file."""
    from_file = properties_file(args, file_option)
    for name in from_file:
        _warn_of_unknown(name, getattr(args, file_option))
    return profile_settings(args) | from_file


def _warn_of_unknown(name: str, path: str) -> None:
    from kafkatools.core.config import ADMIN, CONSUMER, PRODUCER

    tables = (ADMIN, CONSUMER, PRODUCER)
    if name in _CODECS or is_registry_setting(name):
        return
    if any(name in table or table.is_prefixed(name) for table in tables):
        return
    import difflib
    import logging

    matches = difflib.get_close_matches(
        name, {setting for table in tables for setting in table.settings}, n=1, cutoff=0.8
    )
    hint = f". Did you mean {matches[0]}?" if matches else ""
    logging.getLogger("kafkatools.settings").warning("%s: %s is not a setting of a client%s", path, name, hint)


def profile_settings(args: Args) -> dict[str, str]:
    """Return the client settings of the profile with the values of their references, empty without one. Raises
    CommandError for a reference that has no value and a setting of librdkafka that Kafka lacks."""
    return args.indirect.of_profile(args.profile) if args.profile is not None else {}


def properties_file(args: Args, file_option: str) -> dict[str, str]:
    """Return the settings in the file that an option names with the values of their references, empty without the
    option. Raises CommandError for an unreadable file and for a reference that has no value."""
    path = getattr(args, file_option)
    return args.indirect.resolved(read_properties(path), path) if path is not None else {}


_REGISTRY_PREFIXES = ("basic.auth.", "bearer.auth.", "schema.registry.")
_REGISTRY_SETTINGS = ("auto.register.schemas", "key.subject.name.strategy", "value.subject.name.strategy")


def is_registry_setting(name: str) -> bool:
    """Return whether a setting of Confluent's clients is for a schema registry and serializers, not for Kafka."""
    return name.startswith(_REGISTRY_PREFIXES) or name in _REGISTRY_SETTINGS


_CODECS = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


def settings_for(table: Table, args: Args, file_option: str, warn: Callable[[str], None]) -> dict[str, str]:
    """Return the settings of a producer or consumer: the profile's, overridden by those of the file that an option
    names. Settings this client does not have are dropped; `warn` gets a line for each of those in the file.
    (De)serializers, which name Java classes, are dropped silently. Raises CommandError for an unreadable file."""
    settings = {name: value for name, value in profile_settings(args).items() if name not in _CODECS}
    settings = {name: value for name, value in settings.items() if name in table or table.is_prefixed(name)}
    for name, value in properties_file(args, file_option).items():
        if name in _CODECS or is_registry_setting(name):
            continue
        if name in table or table.is_prefixed(name):
            settings[name] = value
        else:
            warn(f"Warning: {getattr(args, file_option)}: {name} is not a setting of the {table.label}")
    return settings


def client_values(
    table: Table, args: Args, older_file: str, pair_options: Iterable[str], note: Callable[[str], None]
) -> dict[str, str]:
    """Return the settings of the profile and of --command-config, or of the deprecated option `older_file` if given.
    The `key=value` options named in `pair_options` override them. Raises UsageError for an unknown setting in such an
    option, CommandError for an unreadable file and for a reference that has no value."""
    file_option = attribute_name(older_file) if args.has_option(older_file) else "command_config"
    values = settings_for(table, args, file_option, note)
    for option in pair_options:
        pairs = property_pairs(getattr(args, attribute_name(option)), option)
        pairs = {name: value for name, value in pairs.items() if not is_registry_setting(name)}
        for name in pairs:
            if name not in table and not table.is_prefixed(name):
                raise UsageError(str(table.unknown(name)))
        values |= with_plain_numbers(args.indirect.resolved(pairs, f"--{option}"))
    return values


def with_plain_numbers(settings: dict[str, str]) -> dict[str, str]:
    """Return settings of the command line with units as plain numbers: `linger.ms=5s`, `batch.size=1MiB`. Raises
    CommandError for an unknown unit."""
    if not any(value[-1:].isalpha() for value in settings.values()):
        return settings
    from kafkatools.options.quantities import plain_settings

    return plain_settings(settings)


def note_deprecated(args: Args, note: Callable[[str], None], old: str, new: str = "command-config") -> None:
    """Pass Kafka's deprecation warning to `note` when the old option is given."""
    if args.has_option(old):
        note(f"Option --{old} has been deprecated and will be removed in a future version. Use --{new} instead.")
