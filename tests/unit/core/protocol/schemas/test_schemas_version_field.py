"""A field of the name `version` is a value of its own in one record of consumer groups."""

from kafkatools.core.protocol.schemas.offsets import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    decode_record,
    encode_record,
)


def test_version_of_an_image_is_not_the_version_of_the_schema() -> None:
    key = ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="a.*")
    value = ConsumerGroupRegularExpressionValue(topics=["a1"], version=109, timestamp=7)
    raw_key, raw_value = encode_record(key, value)
    assert raw_value is not None
    assert raw_value == b"\0\0" + b"\2\3a1" + (109).to_bytes(8, "big") + (7).to_bytes(8, "big") + b"\0"
    _, read = decode_record(raw_key, raw_value)
    assert (read.version, list(read.topics)) == (109, ["a1"])
