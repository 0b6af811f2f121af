"""Options of kt console-consumer that decode records by a schema registry."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.console_consumer.outputs import output_format
from kafkatools.console import Console
from kafkatools.exit_status import UsageError
from kafkatools.options import Args, property_pairs
from kafkatools.options.common import is_registry_setting
from kafkatools.options.schema_registry import registry_settings
from kafkatools.tools.schemas.decoding_step import DecodingStep
from kafkatools.tools.schemas.steps import decoding_step

_PARTS = ("key", "value", "both")
_TEXT_DESERIALIZERS = ("", "StringDeserializer", "ByteArrayDeserializer")


def step_of(console: Console, args: Args, properties: Mapping[str, str]) -> DecodingStep:
    """Return the step that decodes by a schema registry. Its settings may also be among the `properties` of the
    formatter, as with Confluent's consumers. Raises UsageError."""
    if args.decode not in (None, *_PARTS):
        raise UsageError(f"--decode may be {', '.join(_PARTS)}, not {args.decode}")
    if args.key is not None and args.decode in ("key", "both"):
        raise UsageError(f"--key compares bytes: it cannot be used with --decode {args.decode}")
    deserializer = args.value_deserializer or properties.get("value.deserializer", "")
    if args.decode != "key" and deserializer.rpartition(".")[2] not in _TEXT_DESERIALIZERS:
        advice = "leave it out, or add --decode key"
        raise UsageError(f"{deserializer} cannot read values that are decoded to JSON text: {advice}")
    file_option = "consumer_config" if args.command_config is None else "command_config"
    pairs = property_pairs((*args.consumer_property, *args.command_property), "command-property") | dict(properties)
    settings = registry_settings(args, file_option) | {n: pairs[n] for n in pairs if is_registry_setting(n)}
    prints_keys = properties.get("print.key", "").strip().lower() == "true" or args.format is not None
    has_keys = prints_keys or output_format(args) != "text" or args.grep is not None or args.where is not None
    return decoding_step(
        settings,
        args.schema_registry,
        console.home,
        console.clock,
        console.error,
        keys=has_keys and args.decode != "value" and args.key is None,
        values=args.decode != "key",
    )
