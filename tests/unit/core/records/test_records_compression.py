"""The codecs: what they write, what they read from others, and how much they may give back."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import time
import tracemalloc
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.errors import CorruptRecord, KafkaError, RecordTooLarge, UnsupportedCompressionType
from kafkatools.core.records.compression import CompressionType, check_level, compress, decompress

PACKED = [codec for codec in CompressionType if codec]
NOISE = random.Random(7).randbytes(200_000)
SAMPLES = [b"", b"a", b"hello kafka " * 20_000, NOISE]


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("sample", SAMPLES, ids=["empty", "one", "text", "noise"])
def test_round_trip(codec: CompressionType, magic: int, sample: bytes) -> None:
    assert decompress(codec, memoryview(compress(codec, sample, magic=magic)), magic=magic) == sample


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from(PACKED), st.lists(st.tuples(st.binary(max_size=20), st.integers(1, 9000)), max_size=6))
def test_round_trip_of_any_bytes(codec: CompressionType, parts: list[tuple[bytes, int]]) -> None:
    data = b"".join(text * count for text, count in parts)
    assert decompress(codec, compress(codec, data)) == data


def test_gzip_has_javas_header() -> None:
    assert compress(1, b"x")[:10].hex() == "1f8b08000000000000ff"


def test_snappy_has_xerials_chunks_of_32_kib() -> None:
    packed = compress(2, bytes(70_000))
    assert packed[:16].hex() == "82534e41505059000000000100000001"
    sizes = []
    position = 16
    while position < len(packed):
        length = int.from_bytes(packed[position : position + 4], "big")
        sizes.append(len(decompress(2, packed[position + 4 : position + 4 + length])))
        position += 4 + length
    assert sizes == [32768, 32768, 70_000 - 65536]


def test_lz4_has_independent_blocks_of_64_kib_and_no_checksums() -> None:
    packed = compress(3, NOISE)
    assert packed[:7].hex() == "04224d18604082"
    assert packed[7:11] == (0x80000000 | 65536).to_bytes(4, "little")
    assert packed[-4:] == bytes(4)


def test_lz4_of_magic_0_has_its_wrong_header_checksum() -> None:
    packed = compress(3, b"text", magic=0)
    assert packed[:7].hex() == "04224d1860401a"
    assert decompress(3, packed, magic=0) == b"text"
    with pytest.raises(CorruptRecord):
        decompress(3, packed, magic=1)
    right = compress(3, b"text", magic=1)
    assert decompress(3, right, magic=0) == b"text"


def test_lz4_of_magic_0_with_content_size() -> None:
    import lz4.frame

    frame = bytearray(lz4.frame.compress(b"content size " * 10, store_size=True))
    assert frame[4] & 8
    frame[14] ^= 0xFF
    assert decompress(3, frame, magic=0) == b"content size " * 10
    with pytest.raises(CorruptRecord):
        decompress(3, frame)


def test_several_gzip_members_are_read_and_what_follows_is_ignored() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(1, data) == b"one two"
    assert decompress(1, data + b"rest") == b"one two"


def test_raw_snappy_and_joined_streams_are_read() -> None:
    import snappy

    assert decompress(2, snappy.compress(b"raw " * 100)) == b"raw " * 100
    assert decompress(2, compress(2, b"one ") + compress(2, b"two")) == b"one two"


def test_a_rest_shorter_than_the_size_of_a_snappy_chunk_is_ignored() -> None:
    packed = compress(2, b"one")
    assert decompress(2, packed + b"abc") == b"one"
    with pytest.raises(CorruptRecord, match="a chunk of 1633837924 bytes is cut off"):
        decompress(2, packed + b"abcd")


def test_several_zstd_frames_and_skippable_ones_are_read() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"xyz"
    assert decompress(4, compress(4, b"one ") + skippable + compress(4, b"two")) == b"one two"


def test_zstd_frames_with_content_size_and_checksum_are_read() -> None:
    import zstandard

    packer = zstandard.ZstdCompressor(level=1, write_content_size=True, write_checksum=True)
    for sample in SAMPLES[1:]:
        assert decompress(4, packer.compress(sample)) == sample


@pytest.mark.parametrize("codec", PACKED)
def test_more_than_the_cap_is_refused(codec: CompressionType) -> None:
    packed = compress(codec, bytes(1_000_000))
    with pytest.raises(RecordTooLarge):
        decompress(codec, packed, max_output_bytes=999_999)
    assert len(decompress(codec, packed, max_output_bytes=1_000_000)) == 1_000_000


@pytest.mark.slow
def test_a_bomb_is_stopped_early() -> None:
    inner = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(inner.compress(bytes(1 << 20)) for _ in range(64)) + inner.flush()
    assert len(bomb) < 100_000
    with pytest.raises(RecordTooLarge):
        decompress(1, bomb, max_output_bytes=1 << 20)


def test_a_claimed_snappy_size_is_not_believed() -> None:
    with pytest.raises(CorruptRecord, match="cannot hold"):
        decompress(2, b"\xff\xff\xff\x3f\x00")
    with pytest.raises(RecordTooLarge):
        decompress(2, b"\xff\xff\xff\xff\x0f" + bytes(10))


@pytest.mark.parametrize("codec", PACKED)
def test_truncation_is_damage(codec: CompressionType) -> None:
    packed = compress(codec, NOISE[:500] * 3)
    for cut in range(len(packed)):
        if codec is CompressionType.SNAPPY and cut == 16:
            continue  # a header and no chunk is an empty stream
        with pytest.raises(CorruptRecord):
            decompress(codec, packed[:cut])


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(st.sampled_from(PACKED), st.data())
def test_flipped_bits_are_survived(codec: CompressionType, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some text, some text again " * 50 + NOISE[:300]))
    for _ in range(data.draw(st.integers(1, 5))):
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(KafkaError):
        assert len(decompress(codec, packed, max_output_bytes=1 << 20)) <= 1 << 20


@settings(deadline=None)
@given(st.sampled_from(PACKED), st.binary(max_size=64), st.sampled_from([0, 2]))
def test_any_bytes_are_survived(codec: CompressionType, data: bytes, magic: int) -> None:
    head = {1: b"\x1f\x8b\x08", 2: b"", 3: b"\x04\x22\x4d\x18", 4: b"\x28\xb5\x2f\xfd"}[codec]
    for packed in (data, head + data):
        with contextlib.suppress(KafkaError):
            assert len(decompress(codec, packed, magic=magic, max_output_bytes=1 << 16)) <= 1 << 16


@pytest.mark.parametrize("number", [-1, 5, 6, 7])
def test_unknown_codecs_are_errors_of_their_own(number: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(UnsupportedCompressionType, match=f"Unknown compression type id: {number}"):
            call(number, b"")


def test_names_are_kafkas() -> None:
    assert [codec.label for codec in CompressionType] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert CompressionType.for_label("zstd") is CompressionType.ZSTD
    with pytest.raises(UnsupportedCompressionType, match="Unknown compression name: brotli"):
        CompressionType.for_label("brotli")


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [
        (CompressionType.GZIP, (-1, 1, 9), (0, 10, -2)),
        (CompressionType.LZ4, (1, 9, 17), (0, 18)),
        (CompressionType.ZSTD, (-131072, 3, 22), (-131073, 23)),
    ],
)
def test_levels_are_kafkas(codec: CompressionType, good: tuple[int, ...], bad: tuple[int, ...]) -> None:
    assert [check_level(codec, level) for level in good] == list(good)
    for level in bad:
        with pytest.raises(ValueError, match="is not between"):
            check_level(codec, level)
    with pytest.raises(ValueError, match="has no compression levels"):
        check_level(CompressionType.SNAPPY, 1)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_a_higher_level_packs_tighter(codec: CompressionType) -> None:
    words = random.Random(1)
    text = b" ".join(words.choice((b"lorem", b"ipsum", b"dolor", b"sit", b"amet")) for _ in range(20_000))
    highest = 22 if codec is CompressionType.ZSTD else 9 if codec is CompressionType.GZIP else 17
    assert len(compress(codec, text, highest)) < len(compress(codec, text, 1))


def test_many_gzip_members_take_linear_time() -> None:
    member = gzip.compress(b"x")

    def seconds(count: int) -> float:
        data = member * count
        begun = time.thread_time()
        assert decompress(1, data) == b"x" * count
        return time.thread_time() - begun

    seconds(100)
    assert seconds(60_000) < 60 * seconds(3_000)  # 20 times the members; quadratic: 400 times the time


def test_a_gzip_member_larger_than_the_first_piece_is_read_between_small_ones() -> None:
    noise = random.Random(1).randbytes(100_000)
    parts = [b"a", noise, b"", b"b" * 70_000, noise[:700]]
    assert decompress(1, b"".join(gzip.compress(part) for part in parts) + b"tail") == b"".join(parts)


def _zstd_frames(size: int, count: int, *, declared: bool) -> bytes:
    packer = zstandard.ZstdCompressor(write_content_size=declared)
    return packer.compress(bytes(size // count)) * count


BOMB_BYTES = 256 << 20


def _gzip_of_zeros() -> bytes:
    """A member as of `gzip.compress(bytes(BOMB_BYTES), 9)`, of which one part is compressed and 256 are the same."""
    packer = zlib.compressobj(9, wbits=-15)
    part = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = zlib.crc32(bytes(BOMB_BYTES))
    header, trailer = b"\x1f\x8b\x08" + bytes(6) + b"\xff", struct.pack("<II", checksum, BOMB_BYTES)
    return header + part * (BOMB_BYTES >> 20) + packer.flush() + trailer


BOMBS = {
    "gzip": lambda: (1, _gzip_of_zeros()),
    "gzip members": lambda: (1, gzip.compress(bytes(1 << 20), 9) * 256),
    "snappy chunks": lambda: (2, compress(2, bytes(64 << 20))),
    "raw snappy": lambda: (2, snappy.compress(bytes(64 << 20))),
    "lz4": lambda: (3, compress(3, bytes(BOMB_BYTES))),
    "lz4 declared": lambda: (3, lz4.frame.compress(bytes(BOMB_BYTES), store_size=True)),
    "zstd": lambda: (4, compress(4, bytes(BOMB_BYTES))),
    "zstd declared": lambda: (4, _zstd_frames(BOMB_BYTES, 1, declared=True)),
    "zstd frames": lambda: (4, _zstd_frames(BOMB_BYTES, 64, declared=False)),
    "zstd frames declared": lambda: (4, _zstd_frames(BOMB_BYTES, 64, declared=True)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_no_more_memory_than_the_bound(name: str) -> None:
    codec, packed = BOMBS[name]()
    limit = 8 << 20
    tracemalloc.start()
    try:
        with pytest.raises(RecordTooLarge):
            decompress(codec, packed, max_output_bytes=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * limit + len(packed) + (1 << 20)
