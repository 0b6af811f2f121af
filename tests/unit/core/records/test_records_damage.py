"""Damage: found, named as Kafka names it, never a crash, never without end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records_truth import java_batch, java_batch_names, segments
from support import recorded_segments
from support.file_batches import read_file_batches

from kafkatools.core.errors import CorruptRecord, InvalidRecord, KafkaError, UnsupportedCompressionType
from kafkatools.core.records.batch import RecordBatch, read_batches, stamp_crc
from kafkatools.core.records.header import InvalidBatchContents, increment_sequence, read_header

CAP = 1 << 20


def damaged(name: str) -> bytes:
    (path,) = recorded_segments.log_directory(name).glob("*.log")
    return path.read_bytes()


def first_failure(data: bytes) -> str:
    for batch in read_file_batches(data):
        try:
            batch.columns()
        except KafkaError as error:
            return str(error)
    raise AssertionError("nothing is wrong")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("damaged-record-count-less-valid-crc", "Incorrect declared batch size, records still remaining in file"),
        ("damaged-record-count-more-valid-crc", "Incorrect declared batch size, premature EOF reached"),
        ("damaged-record-count-negative-valid-crc", "Found invalid record count -1 in magic v2 batch"),
        (
            "damaged-bitflip-record-length-valid-crc",
            "Invalid record size: expected to read -64 bytes in record payload, but instead read 23",
        ),
    ],
)
def test_damaged_records_are_named_as_kafka_names_them(name: str, message: str) -> None:
    assert all(batch.is_valid() for batch in read_file_batches(damaged(name)))
    assert first_failure(damaged(name)) == message


@pytest.mark.parametrize("left", [18, 30, 60])
@pytest.mark.parametrize("before", [0, 61, 64, 128])
def test_a_header_that_the_end_cuts_off_is_damage_wherever_it_begins(before: int, left: int) -> None:
    batch = next(batch for batch in map(java_batch, java_batch_names()) if batch[16] == 2)
    assert read_header(bytes(before) + batch[:61], before).length == len(batch) - 12
    with pytest.raises(CorruptRecord, match=f"the size {len(batch)} is smaller than the minimum allowed overhead 61"):
        read_header(bytes(before) + batch[:left], before)


def test_contents_that_contradict_the_header_have_the_code_of_an_invalid_record() -> None:
    damage, invalid = InvalidBatchContents, InvalidRecord
    assert (damage.code, damage.name, damage.retriable) == (invalid.code, invalid.name, invalid.retriable)


def java_int(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize("increment", [0, 1, 5, 2**31 - 1, -1, -5, -(2**31)])
@pytest.mark.parametrize("sequence", [0, 4, 5, 2**31 - 2, 2**31 - 1, -1, -2, -(2**31)])
def test_sequences_of_damaged_headers_overflow_like_ints_of_java(sequence: int, increment: int) -> None:
    largest = 2**31 - 1  # DefaultRecordBatch.incrementSequence, line by line
    if sequence > java_int(largest - increment):
        expected = java_int(java_int(increment - java_int(largest - sequence)) - 1)
    else:
        expected = java_int(sequence + increment)
    assert increment_sequence(sequence, increment) == expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_damaged_compressed_data_is_an_error_of_its_batch_only(codec: str) -> None:
    data = damaged(f"damaged-frame-header-{codec}-valid-crc")
    outcomes = []
    for batch in read_file_batches(data):
        try:
            batch.columns()
            outcomes.append("read")
        except CorruptRecord:
            outcomes.append("damaged")
    assert outcomes.count("damaged") == 1
    assert outcomes.count("read") > 3


@pytest.mark.parametrize(
    "name", ["damaged-bitflip-payload", "damaged-bitflip-crc", "damaged-bitflip-gzip", "damaged-bitflip-lz4"]
)
def test_flipped_bit_fails_the_checksum(name: str) -> None:
    invalid = [batch for batch in read_file_batches(damaged(name)) if not batch.is_valid()]
    assert len(invalid) == 1
    with pytest.raises(CorruptRecord, match="Record is corrupt .stored crc = "):
        invalid[0].ensure_valid()


@pytest.mark.parametrize("name", ["damaged-v0-crc", "damaged-v0-gzip-crc", "damaged-v1-crc", "damaged-v1-gzip-crc"])
def test_flipped_bit_fails_the_checksum_of_a_message(name: str) -> None:
    assert [batch.is_valid() for batch in read_file_batches(damaged(name))].count(False) == 1


def test_records_before_the_damaged_one_are_given() -> None:
    data = damaged("damaged-record-count-more-valid-crc")
    sound = [batch.record_count for batch in read_file_batches(segments("plain-java")[0])]
    for batch, count in zip(read_file_batches(data), sound, strict=True):
        assert isinstance(batch, RecordBatch)
        columns, error = batch.try_columns()
        assert columns.count == count
        assert (error is None) == (batch.record_count == count)


def test_unknown_codec_is_an_error_of_its_own() -> None:
    with pytest.raises(UnsupportedCompressionType, match="Unknown compression type id: 7"):
        for batch in read_file_batches(damaged("damaged-attributes-codec-unknown")):
            batch.columns()


@pytest.mark.parametrize("cut", [0, 1, 8, 11, 12, 16, 17, 60, 61, 100, 137])
def test_truncated_tail_is_the_end(cut: int) -> None:
    segment = segments("plain-java")[0]
    second = next(b for b in read_batches(segment) if b.position)
    assert second.size_bytes == 138
    part = segment[: second.position + cut]
    assert [b.position for b in read_batches(part)] == [0]
    assert [b.position for b in read_file_batches(part)] == [0]


@pytest.mark.parametrize(("length", "is_damage"), [(0, True), (-1, True), (13, True), (14, False), (2**31 - 1, False)])
def test_size_of_the_length_field(length: int, is_damage: bool) -> None:
    data = bytearray(segments("plain-java")[0][:104])
    data[8:12] = length.to_bytes(4, "big", signed=True)
    if is_damage:
        with pytest.raises(
            CorruptRecord, match=rf"Record size {length} is less than the minimum record overhead \(14\)"
        ):
            list(read_batches(data))
        with pytest.raises(CorruptRecord, match=rf"Found record size {length} smaller than .* in file some.log."):
            list(read_file_batches(data, file_name="some.log"))
    elif length > 1000:
        assert list(read_batches(data)) == []
    else:
        with pytest.raises(CorruptRecord, match="smaller than the minimum allowed overhead 61"):
            next(iter(read_batches(data))).ensure_valid()


@pytest.mark.parametrize(("magic", "shown"), [(3, 3), (127, 127), (255, -1)])
def test_unknown_magic_from_the_network_is_damage(magic: int, shown: int) -> None:
    data = bytearray(segments("plain-java")[0][:104])
    data[16] = magic
    with pytest.raises(CorruptRecord, match=f"Invalid magic found in record: {shown}"):
        list(read_batches(data))


def test_claimed_count_allocates_nothing() -> None:
    data = bytearray(java_batch("v2-none"))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(InvalidBatchContents, match="premature EOF reached"):
        RecordBatch(data).columns()


def test_every_flipped_byte_is_seen_by_the_checksum() -> None:
    data = bytearray(java_batch("v2-gzip"))
    for position in range(17, len(data)):
        data[position] ^= 0x10
        assert not RecordBatch(data).is_valid()
        data[position] ^= 0x10
    assert RecordBatch(data).is_valid()


def read_all(data: bytes | bytearray) -> None:
    """Reads whatever can be read; only Kafka's errors may come out."""
    try:
        for batch in read_batches(data):
            batch.is_valid()
            try:
                columns = batch.columns(max_output_bytes=CAP)
                assert sum(1 for _ in columns.records()) == columns.count
            except KafkaError:
                pass
    except KafkaError:
        pass


@pytest.mark.parametrize(
    "name", ["v2-none", "v2-gzip", "v2-snappy", "v2-lz4", "v2-zstd", "v1-none", "v1-lz4", "v0-gzip"]
)
def test_truncation_at_every_byte_is_survived(name: str) -> None:
    data = java_batch(name)
    for cut in range(0, len(data), 1 if len(data) < 3000 else 17):
        part = bytearray(data[:cut])
        if cut > 61:
            part[8:12] = (cut - 12).to_bytes(4, "big")
            if part[16] == 2:
                stamp_crc(part, 0, cut)
        read_all(part)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_flipped_bits_are_survived(data: st.DataObject) -> None:
    batch = bytearray(java_batch(data.draw(st.sampled_from(java_batch_names()))))
    low = data.draw(st.sampled_from([0, 17, 61, 61]))
    for _ in range(data.draw(st.integers(1, 6))):
        position = data.draw(st.integers(low, len(batch) - 1))
        batch[position] ^= 1 << data.draw(st.integers(0, 7))
    read_all(batch)


@settings(deadline=None)
@given(st.binary(max_size=300), st.sampled_from([0, 1, 2]))
def test_any_bytes_are_survived(data: bytes, magic: int) -> None:
    batch = bytearray(12) + bytearray(data)
    batch[8:12] = len(data).to_bytes(4, "big")
    if len(batch) > 16:
        batch[16] = magic
    read_all(batch)
