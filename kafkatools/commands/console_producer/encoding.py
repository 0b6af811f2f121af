"""Options of kt console-producer that encode records by the schemas of a registry."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import UsageError
from kafkatools.options import Args, properties_file, property_pairs
from kafkatools.options.common import is_registry_setting
from kafkatools.options.schema_registry import registry_settings
from kafkatools.tools.schemas.encoders import STRATEGIES, Encoder, SubjectNaming, make_encoder
from kafkatools.tools.schemas.steps import cached_registry

_STRATEGY_CLASSES = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic-record",
}


def encoders(console: Console, args: Args) -> tuple[Encoder | None, Encoder | None]:
    """Return the encoders of keys and values, None for those without a schema. Raises UsageError, SchemaError."""
    settings = _settings(args)
    registry = cached_registry(settings, args.schema_registry, console.home, console.clock)
    registers = args.register_schemas or settings.get("auto.register.schemas", "").strip().lower() == "true"
    made = {}
    for part, spec in (("key", args.key_schema), ("value", args.value_schema)):
        if spec is not None:
            naming = SubjectNaming(args.topic, _strategy(args, settings, part), registers)
            made[part] = make_encoder(registry, part, spec, naming)
    return made.get("key"), made.get("value")


def _settings(args: Args) -> dict[str, str]:
    """Return the settings of the registry; those of the reader and of single properties count too, as with Confluent's
    producers."""
    file_option = "producer_config" if args.has_option("producer.config") else "command_config"
    pairs = properties_file(args, "reader_config")
    for option in ("property", "reader-property", "producer-property", "command-property"):
        pairs |= property_pairs(getattr(args, option.replace("-", "_")), option)
    return registry_settings(args, file_option) | {n: pairs[n] for n in pairs if is_registry_setting(n)}


def _strategy(args: Args, settings: dict[str, str], part: str) -> str:
    if args.subject_strategy is not None:
        if args.subject_strategy not in STRATEGIES:
            raise UsageError(f"--subject-strategy may be {', '.join(STRATEGIES)}, not {args.subject_strategy}")
        return str(args.subject_strategy)
    setting = f"{part}.subject.name.strategy"
    name = settings.get(setting)
    if name is None:
        return "topic"
    strategy = _STRATEGY_CLASSES.get(name.rpartition(".")[2])
    if strategy is None:
        raise UsageError(f"{setting} may be {', '.join(_STRATEGY_CLASSES)}, not {name}")
    return strategy
