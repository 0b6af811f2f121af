"""The options of kt monitor about records: connection, schema registry and masks."""

from __future__ import annotations

from kafkatools.commands.monitor.access import Access, Role
from kafkatools.console import Console
from kafkatools.core.config import CONSUMER, Config
from kafkatools.exit_status import UsageError
from kafkatools.options import Args, settings_for
from kafkatools.options.masking import hash_key, parsed_masks
from kafkatools.options.schema_registry import registry_settings
from kafkatools.tools.monitor.messages.request import Registry, Source

_DECODED = ("key", "value", "both")
_RECORD_OPTIONS = ("schema-registry", "decode", "mask", "mask-key")


def message_source(console: Console, args: Args, access: Access) -> Source | None:
    """Return the source of the records, without the bootstrap servers; None if no token allows reading records. Raises
    UsageError, and CommandError for an unreadable file."""
    if Role.READ not in access.tokens:
        for name in _RECORD_OPTIONS:
            if args.has_option(name):
                raise UsageError(f"--{name} needs --role read: without it kt monitor shows no records")
        return None
    settings = settings_for(CONSUMER, args, "command_config", lambda line: None)  # the admin clients warn
    Config(CONSUMER, settings)  # raises ConfigError
    masks = tuple(mask.text + "=" + mask.mode for mask in parsed_masks(args.mask))
    return Source(settings, _registry(console, args), masks, hash_key(console.environ, args.mask_key) if masks else b"")


def with_brokers(source: Source, bootstrap: str) -> Source:
    """Return the source with the addresses of the cluster."""
    return source._replace(settings={**source.settings, "bootstrap.servers": bootstrap})


def _registry(console: Console, args: Args) -> Registry | None:
    if args.schema_registry is None and args.decode is None:
        return None
    if args.decode not in (None, *_DECODED):
        raise UsageError(f"--decode may be {', '.join(_DECODED)}, not {args.decode}")
    from kafkatools.tools.schemas.access import registry_access

    settings = registry_settings(args)
    registry_access(settings, args.schema_registry)  # raises UsageError
    keys, values = args.decode != "value", args.decode != "key"
    return Registry(settings, args.schema_registry, console.home, keys, values)
