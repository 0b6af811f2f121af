"""Secrets in text: by form, and by the value that this process knows."""

import base64
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.secrets import HIDDEN, holds_secret, redacted, redacted_line, remember, without_userinfo

CANARY = 'canary "p\\w" + ü/1'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no token from https://user:pw@id.example/token: 401", "no token from https://[hidden]@id.example/token: 401"),
        ("https://us@er:p@w@host/x?a=b@c", "https://[hidden]@host/x?a=b@c"),
        ("proxy http://pw@host, mail me@example.org", "proxy http://[hidden]@host, mail me@example.org"),
        ('required username="u" password="a \\"b";', 'required username="u" password=[hidden];'),
        ("ftp://u:a/b@host/t is no URL, http://h:80/a@b is", "ftp://[hidden]@host/t is no URL, http://h:80/a@b is"),
        ("SCRAM-SHA-256=[iterations=8192,password=hunter2]", "SCRAM-SHA-256=[iterations=8192,password=[hidden]]"),
        ("ssl.key.password=hunter2, ssl.key.location=/k", "ssl.key.password=[hidden], ssl.key.location=/k"),
        ('{"client_secret": "hunter2", "error": "no"}', '{"client_secret": [hidden], "error": "no"}'),
        ("grant_type=x&client_secret=hunter2&scope=s", "grant_type=x&client_secret=[hidden]&scope=s"),
        ("Authorization: Basic dXNlcjpodW50ZXIyMg==", "Authorization: Basic [hidden]"),
        ("ssl.keystore.password: Invalid value", "ssl.keystore.password: Invalid value"),
        ("A credential: [iterations=8192,password=...].", "A credential: [iterations=8192,password=...]."),
        ("the password (ssl.truststore.password) is wrong", "the password (ssl.truststore.password) is wrong"),
    ],
)  # fmt: skip
def test_what_is_a_secret_by_its_form(text: str, shown: str) -> None:
    assert redacted_line(text) == shown


@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda text: text.replace("\\", "\\\\").replace('"', '\\"'),
        urllib.parse.quote_plus,
        lambda text: urllib.parse.quote(text, safe=""),
        lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
        lambda text: base64.b64encode(f"\0user\0{text}".encode()).decode(),
        lambda text: base64.urlsafe_b64encode(f"a{text}b".encode()).decode(),
    ],
)
def test_an_echo_is_hidden_in_the_form_in_which_it_travels(form) -> None:  # type: ignore[no-untyped-def]
    remember(CANARY)
    shown = redacted_line(f"the server says <{form(CANARY)}> at length")
    assert shown.startswith("the server says <") and shown.endswith("> at length") and HIDDEN in shown
    assert form(CANARY) not in shown and "p\\w" not in shown and "canary" not in shown


def test_a_short_secret_is_hidden_in_text_of_others_only_and_as_a_word() -> None:
    remember("zq")
    # words that no other test has for a password
    assert redacted("zebras read 'zq' in zqueue") == f"zebras read '{HIDDEN}' in zqueue"
    assert redacted_line("Topic zq does not exist") == "Topic zq does not exist"


@pytest.mark.slow
@settings(deadline=None)  # a busy machine is no mistake
@given(st.text("aB", min_size=12), st.binary(max_size=5), st.binary(max_size=5))
def test_base64_at_every_alignment(secret: str, before: bytes, after: bytes) -> None:
    remember(secret)
    coded = base64.b64encode(before + secret.encode() + after).decode()
    shown = redacted_line(coded)
    assert HIDDEN in shown and len(shown.replace(HIDDEN, "")) <= 4 * ((len(before) + len(after)) // 3 + 3)


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("ssl.keystore.password", "x", True),
        ("sasl.jaas.config", "x", True),
        ("listener.name.external.scram-sha-256.sasl.jaas.config", "x", True),
        ("sasl.oauthbearer.client.credentials.client.secret", "x", True),
        ("ssl.keystore.key", "x", True),
        ("basic.auth.user.info", "u:p", True),
        ("sasl.oauthbearer.token.endpoint.url", "https://u:p@host/", True),
        ("sasl.oauthbearer.token.endpoint.url", "https://host/", False),
        ("ssl.keystore.location", "/x", False),
        ("ssl.keystore.password", "", False),
    ],
)
def test_settings_that_are_secrets(name: str, value: str, is_secret: bool) -> None:
    assert holds_secret(name, value) is is_secret


def test_a_text_without_a_url_stays() -> None:
    assert without_userinfo("User:alice@REALM and //x@y") == "User:alice@REALM and //x@y"


@pytest.mark.parametrize("part", ["a", "a-", "a.", "a://", "a://b:", "http://", "x+", "password ", "= '"])
def test_a_long_text_is_searched_in_linear_time(part: str) -> None:
    """A server chooses the length of an error text. Half a million characters would take hours in quadratic time."""
    text = f"@ = {part * (500_000 // len(part))} http://u:p@host password=x"
    assert redacted(text).endswith(" http://[hidden]@host password=[hidden]")


@pytest.mark.parametrize("before", ["", "x-", "9", "9-", "+", "url=", "'", "_"])
def test_a_url_is_found_behind_any_character(before: str) -> None:
    assert without_userinfo(f"{before}http://u:p@host") == f"{before}http://[hidden]@host"
