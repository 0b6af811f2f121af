"""Secrets of command lines in the journal, in each spelling that the parsers take."""

from __future__ import annotations

import shlex

import pytest

from kafkatools.tools.journal.masking import masked


@pytest.mark.parametrize("option", ["--hmac", "-hmac", "--registry-password", "--api-key"])
@pytest.mark.parametrize("is_attached", [True, False])
def test_the_value_of_a_secret_option_is_hidden(option: str, is_attached: bool) -> None:
    given, shown = ([f"{option}=c2VzYW1l="], [f"{option}=[hidden]"])
    if not is_attached:
        given, shown = [option, "c2VzYW1l="], [option, "[hidden]"]
    command = ["kt", "delegation-tokens", "--expire"]
    assert masked([*command, *given, "--json"]) == [*command, *shown, "--json"]


@pytest.mark.parametrize("option", ["--add-config", "-add-config", "--command-property", "--set"])
@pytest.mark.parametrize("is_attached", [True, False])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ssl.keystore.key=sesame", "ssl.keystore.key=[hidden]"),
        ("listener.name.x.ssl.keystore.key=-----BEGIN\nsesame,==", "listener.name.x.ssl.keystore.key=[hidden]"),
        ("retention.ms=1,listener.name.x.ssl.keystore.key=sesame", None),
        ("a=1,b.ssl.truststore.password=[open,sesame]", "a=1,b.ssl.truststore.password=[hidden]"),
        ("SCRAM-SHA-256=[iterations=8192,password=open,sesame]", "SCRAM-SHA-256=[iterations=8192,password=[hidden]"),
        ("SCRAM-SHA-512=[password = open sesame]", "SCRAM-SHA-512=[password = [hidden]"),
        ('x.sasl.jaas.config=m required username="u" password="sesame";', "x.sasl.jaas.config=[hidden]"),
        ("a=1,basic.auth.user.info=u:sesame", "a=1,basic.auth.user.info=[hidden]"),
        ("bearer.auth.token=sesame", "bearer.auth.token=[hidden]"),
        ("schema.registry.url=http://u:sesame@host:8081", "schema.registry.url=http://[hidden]@host:8081"),
        ("Authorization: Bearer sesame-sesame-sesame", "Authorization: Bearer [hidden]"),
    ],
)
def test_secret_settings_are_hidden_in_each_place(
    option: str, is_attached: bool, value: str, shown: str | None
) -> None:
    shown = shown or "retention.ms=1,listener.name.x.ssl.keystore.key=[hidden]"
    words = [f"{option}={value}"] if is_attached else [option, value]
    assert masked(["kt", *words, "--json"]) == (
        ["kt", f"{option}={shown}", "--json"] if is_attached else ["kt", option, shown, "--json"]
    )


def test_a_long_word_is_searched_in_linear_time() -> None:
    """A million characters would take hours in quadratic time."""
    word = "a" * 1_000_000
    assert masked(["kt", word, f"x=password={word}"]) == ["kt", word, "x=password=[hidden]"]


@pytest.mark.parametrize("url", ["s3://key:sesame@bucket/backup", "http://user:sesame@registry:8081"])
@pytest.mark.parametrize("start", ["--through=", "--through ", "-through=", "-through "])
def test_the_password_of_a_url_is_hidden(start: str, url: str) -> None:
    assert "sesame" not in shlex.join(masked(["kt", "migrate", *f"{start}{url}".split()]))


@pytest.mark.parametrize(
    "line",
    [
        "kt --profile=prod acls --add --delegation-token ID --operation=Read",
        "kt acls --remove --delegation-token=ID --user-principal User:alice",
        "kt delegation-tokens --renew --hmac-file=token.txt --renew-time-period -1",
        "kt delegation-tokens --renew -hmac-file token.txt",
        "kt configs --alter --topic t --add-config=retention.ms=1,cleanup.policy=[compact,delete]",
        "kt configs --alter --broker 1 --delete-config ssl.keystore.password,ssl.keystore.key",
    ],
)
def test_other_words_are_shown(line: str) -> None:
    assert masked(line.split()) == line.split()
