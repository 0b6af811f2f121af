"""kt console-consumer --format beside kcat -f on one broker: the same bytes."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.raw_client import RawClient
from support.requirements import require

START = 1_700_000_000_000
ROWS = [
    (START, b"k1", b"plain", ()),
    (START + 1, None, None, ()),
    (START + 2, b"", b"", ((b"empty", b""), (b"null", None))),
    (-1, b"\xff\xfe", bytes(range(256)), ((b"twice", b"1"), (b"twice", b"2"))),
    (START + 4, "ключ".encode(), b"%s %d\\n", (("имя".encode(), b"\xff"), (b"", b"no name"))),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic `odd.topic-1`: ROWS in partition 1, nothing in partition 0."""
    directory: pathlib.Path = tmp_path_factory.mktemp("formats")
    with embedded_broker(directory) as bootstrap:
        with RawClient(bootstrap) as client:
            client.create_topic("odd.topic-1", 2)
            client.produce_rows("odd.topic-1", 1, [row[:3] + (named(row[3]),) for row in ROWS])
        yield bootstrap


def named(headers: tuple[tuple[bytes, bytes | None], ...]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name.decode(), value) for name, value in headers)


def by_kcat(bootstrap: str, form: str) -> subprocess.CompletedProcess[bytes]:
    if not shutil.which("kcat"):
        require("no kcat")
    command = ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-t", "odd.topic-1", "-o", "beginning", "-f", form]
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


def by_kt(bootstrap: str, form: str, *options: str) -> bytes:
    arguments = ["--topic", "odd.topic-1", *(options or ("--from-beginning", "--exit-at-end")), "-f", form]
    ran = run_kt("console-consumer", "--bootstrap-server", bootstrap, *arguments)
    assert ran.status == 0, ran.err
    return ran.stdout


@pytest.mark.parametrize(
    "form",
    [
        "%t|%p|%o|%k|%K|%s|%S|%R|%T|%h|%%\n",
        r"%k\t%k%k\r\\%K\%%o\q\"\;é%%",
        r"%o \x41\x0Afoo\x4 \xA0\xg\x0x42z\065\65\0x43g\0101\300\x \1 %p\\",
        "",
        "\\",
    ],
)
def test_bytes_of_kcat(broker: str, form: str) -> None:
    theirs = by_kcat(broker, form)
    assert theirs.returncode == 0, theirs.stderr
    assert by_kt(broker, form) == theirs.stdout


@pytest.mark.parametrize("form", ["%s%", "%v", "%s%q"])
def test_wrong_token_is_refused_by_both_before_reading(form: str) -> None:
    assert by_kcat("127.0.0.1:1", form).returncode == 1
    ran = run_kt("console-consumer", "--bootstrap-server", "127.0.0.1:1", "--topic", "odd", "--format", form)
    assert (ran.status, ran.out) == (2, "")
    assert f"character {form.rindex('%') + 1}" in ran.err.splitlines()[0]


def test_nul_bytes_are_written(broker: str) -> None:
    """kcat takes text as a C string: it would end with a write error here."""
    assert by_kt(broker, r"%o\0") == b"0\x001\x002\x003\x004\x00"


def test_limit_and_deserializer(broker: str) -> None:
    string = "org.apache.kafka.common.serialization.StringDeserializer"
    options = ("--from-beginning", "--max-messages", "2", "--key-deserializer", string)
    assert by_kt(broker, "%k/%s;", *options) == b"k1/plain;/;"
