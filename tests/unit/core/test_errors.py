"""The error table against the one recorded from Apache Kafka."""

from pathlib import Path

import pytest

from kafkatools.core import errors

RECORDED = [
    line.split("\t")
    for line in (Path(__file__).parents[2] / "golden/errors/errors.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def test_table_has_every_code_of_kafka_and_no_other() -> None:
    assert sorted(errors.known_codes()) == sorted(int(row[0]) for row in RECORDED)


@pytest.mark.parametrize(("code", "name", "retriable", "stale"), RECORDED, ids=[row[1] for row in RECORDED])
def test_code_has_kafkas_name_and_retriability(code: str, name: str, retriable: str, stale: str) -> None:
    error = errors.error_for_code(int(code))
    assert error.code == int(code)
    assert error.name == name
    assert error.retriable == (retriable == "true")
    assert error.stale_metadata == (stale == "true")


def test_class_is_named_after_the_wire_name() -> None:
    exceptions = {"CORRUPT_MESSAGE": "CorruptRecord", "INVALID_TOPIC_EXCEPTION": "InvalidTopic"}
    for error in errors.known_codes().values():
        expected = exceptions.get(error.name, "".join(word.capitalize() for word in error.name.split("_")))
        assert error.__name__ == expected


def test_default_message_breaks_no_word_at_a_line_end() -> None:
    messages = [error.default_message() for error in errors.known_codes().values()]
    assert [message for message in messages if "- " in message] == []


def test_code_zero_is_no_error() -> None:
    errors.raise_for_code(0)
    assert errors.error_from_code(0) is None
    with pytest.raises(ValueError, match="code 0"):
        errors.error_for_code(0)


def test_unknown_code_is_an_unknown_server_error_that_names_the_code() -> None:
    with pytest.raises(errors.UnknownServerError, match="999"):
        errors.raise_for_code(999)


def test_message_of_the_server_wins_over_the_default() -> None:
    with pytest.raises(errors.TopicAlreadyExists, match="Topic 'a' already exists."):
        errors.raise_for_code(36, "Topic 'a' already exists.")
    assert str(errors.TopicAlreadyExists()) == "Topic with this name already exists."


def test_an_empty_message_of_the_server_is_none() -> None:
    assert str(errors.error_from_code(30, "")) == "Group authorization failed."
    assert str(errors.error_from_code(12345, "")) == "The server answered with the unknown error code 12345."


def test_default_message_of_several_lines_is_one_line() -> None:
    assert "\n" not in str(errors.CorruptRecord())
    assert str(errors.CorruptRecord()).endswith("or is otherwise corrupt.")


def test_local_errors_are_not_on_the_wire() -> None:
    for error in (errors.NotKafka, errors.BufferExhausted, errors.RecordTooLarge, errors.ConfigError):
        assert error.code == -1
        assert error not in errors.known_codes().values()


@pytest.mark.parametrize("base", [errors.KafkaError, errors.RetriableError, errors.InvalidMetadata])
def test_base_class_without_a_message_does_not_print_its_docstring(base: type[errors.KafkaError]) -> None:
    assert str(base()) == "An unexpected error occurred."
