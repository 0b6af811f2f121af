"""Ids in Kafka's text form."""

from __future__ import annotations

import uuid

import pytest

from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID, random_uuid, uuid_from_text, uuid_text

# As Apache Kafka 4.3 writes them: the zero id, the id of the metadata topic.
KNOWN = [(None, "AAAAAAAAAAAAAAAAAAAAAA"), (METADATA_TOPIC_ID, "AAAAAAAAAAAAAAAAAAAAAQ")]


@pytest.mark.parametrize(("value", "text"), KNOWN)
def test_ids_have_kafkas_text(value: uuid.UUID | None, text: str) -> None:
    assert uuid_text(value) == text
    assert uuid_from_text(text) == (value or uuid.UUID(int=0))


def test_random_ids_are_of_version_4_and_are_no_option() -> None:
    made = [random_uuid() for _ in range(300)]
    assert {value.version for value in made} == {4}
    assert not [value for value in made if uuid_text(value).startswith("-")]
    assert [uuid_from_text(uuid_text(value)) for value in made] == made


def test_text_that_is_no_id_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        uuid_from_text("AAAA")
