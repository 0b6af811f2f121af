"""Command-line options: option tables, the two parsers of Kafka's tools, help texts, Java properties files.

Commands import this module before they can print --help, so it must import little.
"""

from kafkatools.java_numbers import java_double as java_double
from kafkatools.java_numbers import java_int as java_int
from kafkatools.java_numbers import java_long as java_long
from kafkatools.java_numbers import java_short as java_short
from kafkatools.options.args import Args as Args
from kafkatools.options.common import BOOTSTRAP_SERVER as BOOTSTRAP_SERVER
from kafkatools.options.common import DURABILITY as DURABILITY
from kafkatools.options.common import client_settings as client_settings
from kafkatools.options.common import client_values as client_values
from kafkatools.options.common import command_config as command_config
from kafkatools.options.common import note_deprecated as note_deprecated
from kafkatools.options.common import profile_settings as profile_settings
from kafkatools.options.common import properties_file as properties_file
from kafkatools.options.common import property_pairs as property_pairs
from kafkatools.options.common import setting_option as setting_option
from kafkatools.options.common import settings_for as settings_for
from kafkatools.options.common import with_plain_numbers as with_plain_numbers
from kafkatools.options.parser import parse as parse
from kafkatools.options.patterns import INTERNAL_TOPICS as INTERNAL_TOPICS
from kafkatools.options.patterns import TopicFilter as TopicFilter
from kafkatools.options.properties import parse_properties as parse_properties
from kafkatools.options.properties import read_properties as read_properties
from kafkatools.options.table import ALWAYS as ALWAYS
from kafkatools.options.table import ARGPARSE4J as ARGPARSE4J
from kafkatools.options.table import Command as Command
from kafkatools.options.table import Option as Option
from kafkatools.options.table import under as under
