"""Every message of every version: our codec against kio's, which knows nothing of it, byte for byte both ways."""

import pathlib
import random
import runpy
from collections.abc import Callable
from typing import Any

import pytest
from support import kio_messages

from kafkatools.core.package_files import package_text
from kafkatools.core.protocol import definitions
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.codec import NO_LIMIT, Reader, Writer
from kafkatools.core.protocol.definitions import FILES, definition_of
from kafkatools.core.protocol.entities import entity_type

ROOT = pathlib.Path(__file__).resolve().parents[4]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "generate_messages.py"))
KIO_MODULES = kio_messages.kio_modules()
ROUNDS = 5
# kio renames fields that are names of Python; our records keep Kafka's
RENAMED = {"type_": "type"}


@pytest.fixture(scope="module")
def type_of() -> Callable[[str], Any]:
    """kio's class of a module: one process runs all tests with it, since importing the classes takes seconds."""
    return kio_messages.kio_type


def as_ours(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        is_message = name.endswith(("Request", "Response"))
        return {each if is_message else RENAMED.get(each, each): as_ours(name, item) for each, item in value.items()}
    return tuple(as_ours(name, item) for item in value) if isinstance(value, tuple) else value


def as_mapping(value: Any) -> Any:
    if hasattr(value, "__layout__"):
        return {name: as_mapping(item) for name, item in zip(value.__layout__.names, value, strict=True)}
    return tuple(map(as_mapping, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize(
    ("version", "module"), [pytest.param(*each, id=each[1].removeprefix("kio.schema.")) for each in KIO_MODULES]
)
def test_message_is_written_and_read_as_kio_does(type_of: Callable[[str], Any], version: int, module: str) -> None:
    kio_type = type_of(module)
    name = kio_type.__name__
    ours = entity_type(name, version)
    chance = random.Random(f"{name} {version}")
    samples = [{}, *(as_ours(name, kio_messages.random_fields(kio_type, chance)) for _ in range(ROUNDS))]
    for fields in samples:
        entity = ours(**fields)
        writer = Writer(None)
        writer.structure(ours.__layout__, entity)
        data = writer.result()
        of_fields = Writer(None)
        of_fields.structure(ours.__layout__, {**fields, "not_in_this_version": 1})
        assert of_fields.result() == data
        theirs = kio_messages.read(kio_type, data)
        assert kio_messages.written(theirs) == data
        assert as_ours(name, kio_messages.plain(theirs)) == as_mapping(entity)
        reader = Reader(b"xx" + data + b"yy", 2, None, NO_LIMIT)
        assert (reader.entity(ours.__layout__), reader.position) == (entity, len(data) + 2)
        counter = Reader(b"xx" + data + b"yy", 2, None, NO_LIMIT)
        counter.skip(ours.__layout__)
        assert counter.position == len(data) + 2


def names_in(file: str) -> list[str]:
    """The messages that a file defines."""
    lines = package_text(definitions.__name__, file).splitlines()
    return [line.split(" ", 1)[0] for line in lines if line and line[0] not in " #"]


@pytest.mark.slow
def test_every_message_of_kio_and_every_api_is_defined(type_of: Callable[[str], Any]) -> None:
    defined = {(name, version) for file in FILES for name in names_in(file) for version in definition_of(name).versions}
    of_kio = {(type_of(module).__name__, version) for version, module in KIO_MODULES}
    assert len(of_kio) == len(KIO_MODULES)
    assert of_kio <= defined
    for api in ApiKey:
        for kind in ("Request", "Response"):
            definition = definition_of(api.label + kind)
            assert definition.api_key == api
            assert set(versions_of(api)) <= set(definition.versions)  # kio has unstable versions too
            first_flexible = api.first_flexible_version
            for version in definition.versions:
                assert (version in definition.flexible) == (version >= first_flexible), (api, version)


@pytest.mark.slow
@pytest.mark.usefixtures("type_of")  # the generator imports them too
def test_definitions_are_those_that_the_generator_writes() -> None:
    assert GENERATOR["FILE"].read_text(encoding="utf-8") == GENERATOR["text"](), "make docs"


def test_product_does_not_import_kio() -> None:
    sources = (ROOT / "kafkatools").rglob("*.py")
    assert [path for path in sources if "import kio" in (text := path.read_text()) or "from kio" in text] == []
