"""SCRAM against the vectors of RFC 7677 and servers that do wrong; PLAIN and OAUTHBEARER byte by byte."""

import pytest

from kafkatools.core.errors import ConfigError, SaslAuthenticationFailed
from kafkatools.core.net.security.mechanisms import OAuthBearer, Plain
from kafkatools.core.net.security.scram import Scram, random_nonce

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(**options: object) -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", nonce=lambda: NONCE, **options)  # type: ignore[arg-type]


def test_exchange_of_the_rfc() -> None:
    scram = exchange()
    assert scram.initial() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.respond(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not scram.is_complete
    assert scram.respond(SERVER_FINAL) is None
    assert scram.is_complete


def test_delegation_token_says_so_in_the_first_message() -> None:
    assert exchange(is_delegation_token=True).initial() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO,tokenauth=true"


def test_separators_in_a_user_name_are_escaped() -> None:
    scram = Scram("SCRAM-SHA-512", "a=b,c", "p", nonce=lambda: "x")
    assert scram.initial() == b"n,,n=a=3Db=2Cc,r=x"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"r=other%hvYD,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "first SCRAM message is not valid"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "first SCRAM message is not valid"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=,i=4096", "first SCRAM message is not valid"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=many", "first SCRAM message is not valid"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=4095", "4095 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22Z,i=1000001", "1000001 iterations"),
        (b"", "first SCRAM message is not valid"),
        (b"\xff\xfe", "first SCRAM message is not valid"),
    ],
)
def test_first_message_of_a_server_that_is_wrong(message: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        exchange().respond(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "its signature is wrong"),
        (b"v=", "its signature is wrong"),
        (b"", "its signature is wrong"),
        (b"e=invalid-proof", "invalid-proof"),
    ],
)
def test_server_that_does_not_know_the_password_is_refused(message: bytes, reason: str) -> None:
    scram = exchange()
    scram.respond(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        scram.respond(message)
    assert not scram.is_complete


def test_nonces_are_printable_and_differ() -> None:
    nonces = {random_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(nonce.isascii() and nonce.isprintable() and "," not in nonce and len(nonce) >= 20 for nonce in nonces)


def test_plain_is_user_and_password_between_nuls() -> None:
    plain = Plain("jürgen", "s3cret")
    assert plain.initial() == b"\0j\xc3\xbcrgen\0s3cret"
    assert plain.respond(b"") is None and plain.is_complete


def test_plain_with_nul_is_refused() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        Plain("a\0b", "c")


def test_token_and_extensions() -> None:
    bearer = OAuthBearer("abc.def.", {"traceId": "1"})
    assert bearer.initial() == b"n,,\x01auth=Bearer abc.def.\x01traceId=1\x01\x01"
    assert bearer.respond(b"") is None and bearer.is_complete


def test_refused_token_is_acknowledged_and_not_complete() -> None:
    bearer = OAuthBearer("abc", {})
    assert bearer.respond(b'{"status":"invalid_token"}') == b"\x01"
    assert not bearer.is_complete
