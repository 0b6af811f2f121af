"""The errors of schemas and schema registries; their messages are one line."""

from __future__ import annotations

from kafkatools.exit_status import CommandError


class SchemaError(CommandError):
    """A schema is invalid, unknown or refused by the registry."""


class RegistryFailed(SchemaError):
    """The schema registry does not answer, denies access, or is not a schema registry: other requests would fail
    too."""
