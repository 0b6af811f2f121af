"""Records of internal topics by Kafka's names: entities of any version, and their bytes.

The definitions are in kafka_records.txt. Attribute names are Kafka's in snake_case. An entity is made from the fields
that differ from Kafka's defaults. A field exists in the entity of a version only if the definition says so.
"""

from __future__ import annotations

from kafkatools.core.protocol.codec import NO_LIMIT, MalformedMessage, Reader, Writer
from kafkatools.core.protocol.definitions import Definition, api_key_of, definition_of
from kafkatools.core.protocol.entities import Entity, entity_type
from kafkatools.core.protocol.schemas.errors import RecordFormatError


class Schema:
    """A record, key or value by Kafka's name. The definition is read when it is first used."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def definition(self) -> Definition:
        """The fields of all versions."""
        return definition_of(self.name)

    @property
    def api_key(self) -> int:
        """The record's type id, -1 where Kafka defines none."""
        return api_key_of(self.name)

    @property
    def valid_versions(self) -> range:
        """The versions of the record in Kafka 4.3."""
        return self.definition.versions

    @property
    def highest_version(self) -> int:
        """The newest version of the record."""
        return self.valid_versions[-1]

    def entity(self, version: int | None = None) -> type[Entity]:
        """Return the entity class of a version, default the highest. Raises RecordFormatError for an unknown one."""
        requested_version = self.highest_version if version is None else version
        if requested_version not in self.valid_versions:
            raise RecordFormatError(f"{self.name} has no version {requested_version}")
        return entity_type(self.name, requested_version)

    def __call__(self, *, version: int | None = None, **values: object) -> Entity:
        """Make an entity of a version. Fields that are not named get Kafka's defaults, and mappings become entities.
        The version field of a control record is set to the same number. Where a field named `version` is something else
        (the version of an image, an int64), `version` is its value, and the schema's version is the highest. Raises
        TypeError for a field that the version lacks, RecordFormatError for an unknown version."""
        version_field = next((field for field in self.definition.fields if field.name == "version"), None)
        if version_field is not None and version_field.type == "int64":
            return self.entity()(**values, version=version or 0)
        entity_class = self.entity(version)
        if version_field is not None:
            values["version"] = entity_class.__version__
        return entity_class(**values)

    def read(self, version: int, buffer: bytes | memoryview, offset: int = 0) -> tuple[Entity, int]:
        """Decode the entity at `offset`. Return it and its size in bytes. Raises RecordFormatError."""
        reader = Reader(buffer, offset, None, NO_LIMIT)
        try:
            entity = reader.entity(self.entity(version).__layout__)
        except MalformedMessage as problem:
            raise RecordFormatError(problem.java_message) from problem
        return entity, reader.position - offset


def write_entity(entity: Entity) -> bytes:
    """Encode the body of an entity, without any framing. Raises ValueError for a value that its field cannot hold."""
    writer = Writer(None)
    writer.structure(entity.__layout__, entity)
    return writer.result()
