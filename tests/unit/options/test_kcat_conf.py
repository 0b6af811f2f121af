"""kcat.conf: the parser, with kcat itself as the oracle."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
from support.requirements import require

from kafkatools.exit_status import CommandError
from kafkatools.options.profile_import.kcat_conf import parse_kcat_conf

_JAAS = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
VALUES = [
    (r"sasl.password=a\b", r"a\b"),
    (r"sasl.password=a\tb", r"a\tb"),
    ("sasl.password=a\\", "a\\"),
    (r"sasl.password=a\\:b\=c\\", "a:b=c\\\\"),
    ("sasl.password=a=b#c!d:e", "a=b#c!d:e"),
    ("  sasl.password= \ta b \t\v\f\r", "a b"),
    ("!sasl.password=a" + "\n#sasl.password=b\n\nsasl.password=c", None),
    ("# x\n\n  # y\nsasl.password=a\nsasl.password=b", "b"),
    ("sasl.password=é€", "é€"),
    ("sasl.password=" + 497 * "x", 497 * "x"),
    ("sasl.password=" + 498 * "x", None),
    ("sasl.password = a", None),
    ("sasl.password:a", None),
    ("=a", None),
    (_JAAS + r' username="u" password="a\b\"";', "a\\b\\"),
]  # fmt: skip


@pytest.mark.parametrize("text, password", VALUES)
def test_values_are_those_of_kcat(text: str, password: str | None) -> None:
    if password is None:
        with pytest.raises(CommandError, match=r"kcat.conf, line \d+: "):
            parse_kcat_conf(f"{text}\n".encode(), "kcat.conf")
    else:
        assert parse_kcat_conf(f"{text}\n".encode(), "kcat.conf").settings["sasl.password"] == password


@pytest.mark.parametrize("text, password", VALUES)
def test_kcat_reads_the_same_values(text: str, password: str | None, tmp_path: pathlib.Path) -> None:
    kcat = shutil.which("kcat")
    if not kcat:
        require("kcat is not installed")
    (tmp_path / "kcat.conf").write_text(f"{text}\n", encoding="utf-8", newline="")
    ran = subprocess.run([kcat, "-F", tmp_path / "kcat.conf", "-X", "dump"], capture_output=True, check=False)
    values = [line.partition(b" = ")[2] for line in ran.stdout.split(b"\n") if line.startswith(b"sasl.password = ")]
    assert values == ([] if password is None else [password.encode()])


def test_a_line_that_kcat_would_cut_or_send_in_another_encoding_is_an_error() -> None:
    for line in (b"sasl.password=a\0b", b"sasl.password=\xe9"):
        with pytest.raises(CommandError, match="kcat.conf, line 2: ") as refused:
            parse_kcat_conf(b"client.id=x\n" + line, "kcat.conf")
        assert "--format properties" in refused.value.hint


def test_lines_and_a_byte_order_mark() -> None:
    conf = parse_kcat_conf(b"\xef\xbb\xbfclient.id=x\r\n\r\nacks=1\r\n", "kcat.conf")
    assert conf == ({"client.id": "x", "acks": "1"}, {"client.id": 1, "acks": 3})
