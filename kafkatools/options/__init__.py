"""Command-line options: option tables, the two parsers of Kafka's tools, help texts, Java properties files.

Commands import this module before they can print --help, so it must import little.
"""

from kafkatools.options.args import Args
from kafkatools.options.common import (
    BOOTSTRAP_SERVER,
    DURABILITY,
    client_settings,
    client_values,
    command_config,
    note_deprecated,
    profile_settings,
    properties_file,
    property_pairs,
    setting_option,
    settings_for,
)
from kafkatools.options.parser import parse
from kafkatools.options.patterns import INTERNAL_TOPICS, TopicFilter
from kafkatools.options.properties import parse_properties, read_properties
from kafkatools.options.table import ALWAYS, ARGPARSE4J, Command, Option, java_int, java_long, positive_seconds, under

__all__ = [
    "ALWAYS",
    "ARGPARSE4J",
    "BOOTSTRAP_SERVER",
    "DURABILITY",
    "client_values",
    "note_deprecated",
    "INTERNAL_TOPICS",
    "Args",
    "Command",
    "Option",
    "TopicFilter",
    "client_settings",
    "command_config",
    "java_int",
    "java_long",
    "parse",
    "parse_properties",
    "positive_seconds",
    "profile_settings",
    "properties_file",
    "property_pairs",
    "read_properties",
    "setting_option",
    "settings_for",
    "under",
]
