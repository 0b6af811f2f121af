"""Formatting log directories, against files that Apache Kafka 4.3.1's storage tool wrote (tests/golden/storage)."""

from __future__ import annotations

import pathlib
import struct

import pytest

from kafkatools.core.broker.metadata import formatter
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION, default_levels, metadata_level, release_of
from kafkatools.core.broker.metadata.formatter import FormatRequest, Voter
from kafkatools.core.broker.metadata.scram_credentials import ScramSyntaxError, parse_credential
from kafkatools.core.log.files import RealFileSystem

GOLDEN = pathlib.Path(__file__).parents[4] / "golden" / "storage"
LEVELS = {METADATA_VERSION: 30, **default_levels(30)}
NOW_MS = 1_700_000_000_000


def _without_times(data: bytes) -> bytes:
    """The batches of a snapshot with the CRC and both timestamps of each zeroed."""
    out, position = bytearray(data), 0
    while position < len(out):
        (length,) = struct.unpack_from(">i", out, position + 8)
        out[position + 17 : position + 21] = bytes(4)
        out[position + 27 : position + 43] = bytes(16)
        position += 12 + length
    return bytes(out)


def _format(directory: pathlib.Path, voters: tuple[Voter, ...] = ()) -> None:
    request = FormatRequest("4L6g3nShT-eMCtK--X86sw", 1, [str(directory)], str(directory), LEVELS, voters=voters)
    for planned in formatter.plan(RealFileSystem(), request):
        formatter.write_directory(RealFileSystem(), request, planned, NOW_MS)


def test_bootstrap_checkpoint_is_that_of_apache_kafka(tmp_path: pathlib.Path) -> None:
    _format(tmp_path / "data")
    written = (tmp_path / "data" / "bootstrap.checkpoint").read_bytes()
    assert _without_times(written) == _without_times((GOLDEN / "bootstrap.checkpoint").read_bytes())


def test_standalone_snapshot_is_that_of_apache_kafka(tmp_path: pathlib.Path) -> None:
    recorded = (GOLDEN / "standalone.checkpoint").read_bytes()
    properties = dict(
        line.split("=") for line in (GOLDEN / "standalone-meta.properties").read_text().splitlines() if "=" in line
    )
    _format(tmp_path / "data", (Voter(1, "localhost", 19993, properties["directory.id"]),))
    name = "00000000000000000000-0000000000.checkpoint"
    written = bytearray((tmp_path / "data" / "__cluster_metadata-0" / name).read_bytes())
    time_of_header = 61 + 12
    written[time_of_header : time_of_header + 8] = recorded[time_of_header : time_of_header + 8]
    assert _without_times(bytes(written)) == _without_times(recorded)
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    recorded_lines = (GOLDEN / "standalone-meta.properties").read_text().splitlines()
    assert lines[0] == "#" and lines[2:] == recorded_lines[2:]


def test_batches_of_snapshots_have_valid_checksums(tmp_path: pathlib.Path) -> None:
    import crc32c

    _format(tmp_path / "data")
    data, position = (tmp_path / "data" / "bootstrap.checkpoint").read_bytes(), 0
    seen = 0
    while position < len(data):
        length, crc = struct.unpack_from(">i", data, position + 8)[0], struct.unpack_from(">I", data, position + 17)[0]
        assert crc32c.crc32c(data[position + 21 : position + 12 + length]) == crc
        position += 12 + length
        seen += 1
    assert seen == 3


@pytest.mark.parametrize(
    ("release", "level", "full"),
    [
        ("3.3", 7, "3.3-IV3"),
        ("3.9", 21, "3.9-IV0"),
        ("4.0", 25, "4.0-IV3"),
        ("4.2", 29, "4.2-IV1"),
        ("4.3", 30, "4.3-IV0"),
    ],
)
def test_release_stands_for_its_last_metadata_version(release: str, level: int, full: str) -> None:
    """Levels as `kafka-storage.sh version-mapping` gives them."""
    assert metadata_level(release) == level
    assert release_of(level) == full
    assert metadata_level("9.9") is None


def test_default_levels_are_those_of_version_mapping() -> None:
    """Recorded: 4.0-IV0 has group.version 1 and transaction.version 0; 4.0-IV2 has transaction.version 2."""
    assert default_levels(22) == {
        "kraft.version": 1,
        "transaction.version": 0,
        "group.version": 1,
        "eligible.leader.replicas.version": 0,
        "share.version": 0,
        "streams.version": 0,
    }
    assert default_levels(24)["transaction.version"] == 2
    assert default_levels(28)["share.version"] == 1 and default_levels(28)["streams.version"] == 0


def test_scram_keys_are_those_of_apache_kafka() -> None:
    """Recorded from `kafka-storage.sh format --add-scram` with the argument below."""
    credential = parse_credential(
        'SCRAM-SHA-256=[name=a,password=b,iterations=5000,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5MTc="]'
    )
    recorded = [-118, 95, 36, -112, 14, -10, -56, -62, -96, -95, 58, -102, 100, 108]
    assert list(credential.stored_key[: len(recorded)]) == [byte & 0xFF for byte in recorded]
    assert credential.salt == b"1lv4pdnw4fwq7notcxm0y17"
    assert (credential.mechanism, credential.iterations) == (1, 5000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument 'SCRAM-SHA-256'"),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[password=a]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,password=b,iterations=100]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=b,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ('SCRAM-SHA-256=[name=a,saltedpassword="Mjc4"]', "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=ä]", "Failed to decode given salt: ä"),
        ("SCRAM-SHA-256=[name=a,password=b,foo=1]", "Unknown SCRAM configurations: foo"),
    ],
)
def test_bad_scram_arguments_get_the_words_of_apache_kafka(text: str, message: str) -> None:
    with pytest.raises(ScramSyntaxError) as raised:
        parse_credential(text)
    assert str(raised.value) == message
