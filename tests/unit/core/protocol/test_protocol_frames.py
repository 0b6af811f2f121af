"""Frames whole, byte by byte and with trailing data; headers; what is not Kafka."""

from pathlib import Path

import pytest
from support.frames import feed

from kafkatools.core.errors import DecodeError, NotKafka, UnsupportedVersion
from kafkatools.core.net.api_version_check import read_api_versions
from kafkatools.core.protocol.api_versions import (
    ApiKey,
    VersionRange,
    choose_version,
    is_flexible,
    response_header_version,
    versions_of,
)
from kafkatools.core.protocol.frames import (
    GROWTH_BYTES,
    FrameReader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    frame_request,
    frame_response,
)
from kafkatools.core.protocol.messages import build, encode, response_type

GOLDEN = Path(__file__).parents[3] / "golden/protocol"
APIS = [line.split("\t") for line in (GOLDEN / "api_versions.tsv").read_text().splitlines() if not line.startswith("#")]


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("chunk", [1, 3, 4, 5, 1000])
def test_frames_are_the_same_however_the_bytes_arrive(chunk: int) -> None:
    stream = frame(b"one") + frame(b"") + frame(b"three" * 20) + b"\x00\x00"
    reader = FrameReader()
    frames = []
    for start in range(0, len(stream), chunk):
        feed(reader, stream[start : start + chunk])
        frames += [bytes(item) for item in reader.receive()]
    assert frames == [b"one", b"", b"three" * 20]
    assert reader.is_inside_a_frame
    assert reader.receive() == []


def test_large_frame_grows_in_steps_and_is_whole() -> None:
    body = bytes(range(256)) * (GROWTH_BYTES // 64)
    reader = FrameReader()
    feed(reader, len(body).to_bytes(4, "big"))
    assert len(reader.buffer()) == GROWTH_BYTES
    feed(reader, body)
    assert bytes(reader.receive()[0]) == body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS"),
        (b"HTTP/1.1 400 Bad Request\r\n", "it is an HTTP server, not a Kafka broker"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "it is not a Kafka broker: the first bytes of its answer are 'SSH-'"),
        (b"\xff\xff\xff\xff", "it is not a Kafka broker: the first bytes of its answer are 'ff ff ff ff'"),
    ],
)
def test_other_protocols_are_named(data: bytes, message: str) -> None:
    with pytest.raises(NotKafka, match=message):
        feed(FrameReader(max_bytes=1000), data)


def test_frame_over_the_limit_is_refused_on_its_size_alone() -> None:
    reader = FrameReader(max_bytes=10)
    feed(reader, b"\x00\x00\x00\x0a")
    with pytest.raises(NotKafka):
        feed(FrameReader(max_bytes=10), b"\x00\x00\x00\x0b")


def test_table_of_versions_is_kafkas() -> None:
    recorded = {int(row[0]): (row[1], int(row[2]), int(row[3])) for row in APIS}
    ours = {int(api): (api.label, api.first_version, api.last_stable_version) for api in ApiKey}
    assert ours == recorded


@pytest.mark.parametrize("row", APIS, ids=lambda row: row[1])
def test_header_versions_are_kafkas(row: list[str]) -> None:
    key = int(row[0])
    ours = [f"{v}:{2 if is_flexible(key, v) else 1}:{response_header_version(key, v)}" for v in versions_of(key)]
    ours = ours[: len(ours) - (ApiKey(key).last_version - ApiKey(key).last_stable_version)]
    assert ours == row[4].split()


@pytest.mark.parametrize("client_id", [None, "", "kt", "ключ"])
@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 8), (ApiKey.METADATA, 9), (ApiKey.API_VERSIONS, 4)])
def test_request_header_round_trip(key: ApiKey, version: int, client_id: str | None) -> None:
    data = encode_request_header(key, version, 77, client_id)
    header = decode_request_header(data + b"body")
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        key,
        version,
        77,
        client_id,
    )
    assert header.body_offset == len(data)


def test_request_header_bytes() -> None:
    assert encode_request_header(3, 9, 7, "ab") == b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02ab\x00"
    assert encode_request_header(3, 8, 7, None) == b"\x00\x03\x00\x08\x00\x00\x00\x07\xff\xff"


def test_request_header_with_unknown_tags_is_read() -> None:
    header = decode_request_header(b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00\x01\x05\x02xybody")
    assert header.body_offset == 15


def test_header_of_an_unknown_api_is_still_read() -> None:
    assert decode_request_header(b"\x03\xe7\x00\x09\x00\x00\x00\x07\xff\xff").api_key == 999


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00\x03\x00", b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x09ab",
     b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x00\x01\x05\x7f",
     b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x01\xff\x00"],
)  # fmt: skip
def test_damaged_request_header_is_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_request_header(data)


def test_api_versions_response_has_a_plain_header_in_every_version() -> None:
    assert encode_response_header(ApiKey.API_VERSIONS, 4, 5) == b"\x00\x00\x00\x05"
    assert encode_response_header(ApiKey.METADATA, 9, 5) == b"\x00\x00\x00\x05\x00"
    assert decode_response_header(ApiKey.METADATA, 9, b"\x00\x00\x00\x05\x00x") == (5, 5)
    assert decode_response_header(ApiKey.API_VERSIONS, 4, b"\x00\x00\x00\x05x") == (5, 4)


def test_framing_copies_no_body() -> None:
    records = memoryview(bytearray(1000))
    parts = frame_request(ApiKey.PRODUCE, 9, 1, "kt", [b"head", records, b"\x00"])
    assert parts[2] is records
    assert int.from_bytes(bytes(parts[0])[:4], "big") == sum(len(part) for part in parts) - 4
    answer = frame_response(ApiKey.PRODUCE, 9, 1, [records])
    assert answer[1] is records
    assert int.from_bytes(bytes(answer[0])[:4], "big") == 1005


@pytest.mark.parametrize("version", range(5))
def test_versions_and_features_of_each_version_are_read(version: int) -> None:
    fields = {"api_keys": [{"api_key": 3, "min_version": 1, "max_version": 13}], "error_code": 0}
    if version >= 1:
        fields["throttle_time"] = 7
    if version >= 3:
        fields["supported_features"] = [{"name": "kraft.version", "min_version": 0, "max_version": 1}]
        fields["finalized_features_epoch"] = 40
        fields["finalized_features"] = [{"name": "group.version", "min_version_level": 1, "max_version_level": 2}]
    body = encode(build(response_type(ApiKey.API_VERSIONS, version), fields))
    found = read_api_versions(memoryview(body), version)
    assert found.ranges == {3: VersionRange(1, 13)}
    assert found.throttle_time_ms == (7 if version >= 1 else 0)
    if version >= 3:
        assert found.supported_features == {"kraft.version": VersionRange(0, 1)}
        assert found.finalized_features == {"group.version": VersionRange(1, 2)}
        assert found.finalized_features_epoch == 40
    with pytest.raises(DecodeError):
        read_api_versions(memoryview(body)[:9], version)


def test_newest_common_version_is_chosen() -> None:
    assert choose_version(ApiKey.METADATA, {3: VersionRange(4, 9)}) == 9
    assert choose_version(ApiKey.METADATA, {3: VersionRange(4, 99)}) == 13
    assert choose_version(ApiKey.METADATA, {3: VersionRange(4, 99)}, newest=11) == 11
    with pytest.raises(UnsupportedVersion, match="does not support METADATA with version in range"):
        choose_version(ApiKey.METADATA, {3: VersionRange(14, 15)})
    with pytest.raises(UnsupportedVersion, match="does not support DESCRIBE_QUORUM"):
        choose_version(ApiKey.DESCRIBE_QUORUM, {3: VersionRange(4, 9)})
