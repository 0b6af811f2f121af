"""The option and the settings that name a schema registry."""

from __future__ import annotations

from kafkatools.options.args import Args
from kafkatools.options.common import is_registry_setting, profile_settings, properties_file
from kafkatools.options.table import Option

SCHEMA_REGISTRY = Option(
    "--schema-registry",
    "Address of a schema registry with Confluent's API. Default: schema.registry.url of the profile or the properties "
    "file, which also hold basic.auth.user.info, bearer.auth.token and schema.registry.ssl.*.",
    value="URL",
    ours=True,
)


def profile_registry_settings(args: Args) -> dict[str, str]:
    """Return the settings of a schema registry in the profile."""
    return {name: value for name, value in profile_settings(args).items() if is_registry_setting(name)}


def registry_settings(args: Args, *file_options: str) -> dict[str, str]:
    """Return the settings of a schema registry: the profile's, overridden by those of the files that the options name.
    Raises CommandError for an unreadable file."""
    settings = profile_settings(args)
    for option in file_options or ("command_config",):
        settings |= properties_file(args, option)
    return {name: value for name, value in settings.items() if is_registry_setting(name)}
