"""Stores of keytool and openssl, and the settings that name them."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from kafkatools.core import config as tables
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, KafkaError, KeyStoreUnreadable
from kafkatools.core.net.security import pem
from kafkatools.core.net.security.cipher_suites import openssl_name
from kafkatools.core.net.security.java_key_store import read_java_key_store
from kafkatools.core.net.security.key_stores import identity, trusted_certificates
from kafkatools.core.net.security.tls_context import client_tls

GOLDEN = Path(__file__).parents[4] / "golden/security"
CA = pem.certificates((GOLDEN / "ca.pem").read_text(), "ca.pem")[0]
CLIENT = pem.certificates((GOLDEN / "client.pem").read_text(), "client.pem")[0]
KEY = pem.private_key((GOLDEN / "client.key").read_text(), "client.key").data
PASSWORD = {"ssl.truststore.password": "storepass1"}
ONE_LINE = {name: " ".join((GOLDEN / name).read_text().split("\n")) for name in ("ca.pem", "client.pem", "client.key")}


def settings(values: dict[str, Any]) -> Config:
    return Config(tables.ADMIN, values)


def truststore(name: str, **more: str) -> dict[str, str]:
    return {"ssl.truststore.location": str(GOLDEN / name), **{f"ssl.truststore.{key}": more[key] for key in more}}


def keystore(name: str, **more: str) -> dict[str, str]:
    return {"ssl.keystore.location": str(GOLDEN / name), **{f"ssl.keystore.{key}": more[key] for key in more}}


@pytest.mark.parametrize(
    "values",
    [
        truststore("trust.jks", password="storepass1"),
        truststore("trust.jks"),
        truststore("trust.jks", password="storepass1", type="PKCS12"),
        truststore("trust.p12", password="storepass1", type="PKCS12"),
        truststore("trust.p12", password="storepass1"),
        truststore("ca.pem", type="PEM"),
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ONE_LINE["ca.pem"]},
    ],
)
def test_trusted_certificates(values: dict[str, str]) -> None:
    assert trusted_certificates(settings(values)) == [CA]


@pytest.mark.parametrize(
    ("name", "expected"), [("client.jks", [CA, CLIENT]), ("client.p12", [CLIENT]), ("client-legacy.p12", [CLIENT])]
)
def test_a_key_store_as_truststore_trusts_what_java_trusts(name: str, expected: list[bytes]) -> None:
    """The certificate of its key, not the authority in the chain; client.jks has the authority as an entry, too."""
    assert trusted_certificates(settings(truststore(name, password="storepass1"))) == expected


def test_without_a_truststore_the_system_is_trusted() -> None:
    assert trusted_certificates(settings({})) is None
    assert identity(settings({})) is None


@pytest.mark.parametrize(
    "values",
    [
        {**keystore("client.jks", password="storepass1"), "ssl.key.password": "keypass1"},
        keystore("client.p12", password="storepass1", type="PKCS12"),
        keystore("client-legacy.p12", password="storepass1"),
    ],
)
def test_key_and_chain(values: dict[str, str]) -> None:
    own = identity(settings(values))
    assert own is not None
    key = pem.private_key(own.key, "key").data
    # PKCS #12 keeps the same key with its public half; both hold the 32 bytes of the curve's number.
    assert KEY[-32:] in key
    assert pem.certificates(own.chain, "chain") == [CLIENT, CA]
    assert client_tls(settings(values)).context.verify_mode is ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "values",
    [
        {"ssl.keystore.key": ONE_LINE["client.key"], "ssl.keystore.certificate.chain": ONE_LINE["client.pem"]},
        {
            "ssl.keystore.key": (GOLDEN / "client-encrypted.key").read_text(),
            "ssl.keystore.certificate.chain": ONE_LINE["client.pem"] + ONE_LINE["ca.pem"],
            "ssl.key.password": "keypass1",
        },
    ],
)
def test_key_and_chain_in_the_settings(values: dict[str, str]) -> None:
    client_tls(settings({**values, "ssl.keystore.type": "PEM"}))


def test_key_and_chain_in_one_pem_file(tmp_path: Path) -> None:
    both = tmp_path / "client.pem"
    both.write_text("a comment\n" + (GOLDEN / "client-encrypted.key").read_text() + (GOLDEN / "client.pem").read_text())
    values = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    client_tls(settings({**values, "ssl.key.password": "keypass1"}))
    for password, problem in (("wrong1", "is wrong"), (None, "is missing")):
        with pytest.raises(KeyStoreUnreadable, match=f"ssl.key.password.*{problem}"):
            client_tls(settings({**values, "ssl.key.password": password}))


def test_the_wrong_password_of_a_key_in_a_java_key_store() -> None:
    values = {**keystore("client.jks", password="storepass1"), "ssl.key.password": "wrong1"}
    with pytest.raises(KeyStoreUnreadable, match="ssl.key.password is wrong for the key own"):
        client_tls(settings(values))


def test_key_of_another_certificate() -> None:
    values = {"ssl.keystore.key": ONE_LINE["client.key"], "ssl.keystore.certificate.chain": ONE_LINE["ca.pem"]}
    with pytest.raises(KeyStoreUnreadable, match="not that of the private key"):
        client_tls(settings({**values, "ssl.keystore.type": "PEM"}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            truststore("trust.jks", password="wrong-one"),
            r"the password \(ssl.truststore.password\) is wrong, or the fi",
        ),
        (
            truststore("trust.p12", password="wrong-one"),
            r"the password \(ssl.truststore.password\) is wrong, or the fi",
        ),
        (truststore("missing.jks"), "missing.jks: No such file or directory"),
        (truststore("ca.pem"), "this is a PEM file; set ssl.truststore.type=PEM"),
        (truststore("README.md", type="PEM"), "no certificate in PEM"),
        (keystore("client.jks", password="storepass1"), "the key own has another password than the keystore; set ssl"),
        (keystore("client.p12", password="wrong-one"), "ssl.keystore.password"),
        (keystore("trust.jks", password="storepass1"), "no private key"),
        (keystore("trust.p12", password="storepass1"), "no private key"),
        (keystore("client.pem", type="PEM"), "no private key"),
    ],
)
def test_unreadable_stores(values: dict[str, str], message: str) -> None:
    with pytest.raises(KeyStoreUnreadable, match=message) as caught:
        client_tls(settings(values))
    assert "wrong-one" not in str(caught.value) and "storepass1" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"ssl.truststore.certificates": "x"},
            "SSL trust store certs can be specified only for PEM, but trust store type is JKS.",
        ),
        (
            {**truststore("ca.pem", type="PEM"), "ssl.truststore.certificates": "x"},
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            truststore("ca.pem", type="PEM", password="x"),
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (PASSWORD, "SSL trust store is not specified, but trust store password is specified."),
        ({"ssl.keystore.key": "x"}, "SSL private key is specified, but certificate chain is not specified."),
        (
            {"ssl.keystore.certificate.chain": "x"},
            "SSL certificate chain is specified, but private key is not specified",
        ),
        (keystore("client.jks"), "SSL key store is specified, but key store password is not specified."),
        ({"ssl.keystore.password": "x"}, "SSL key store is not specified, but key store password is specified."),
        (
            keystore("client.pem", type="PEM", password="x"),
            "SSL key store password cannot be specified with PEM format, only key password may be specified",
        ),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "no longer safe"),
        ({"ssl.enabled.protocols": "TLSv9"}, "TLSv9 is not a version of TLS"),
        ({"ssl.cipher.suites": "TLS_MADE_UP_WITH_NOTHING_SHA256"}, "is not known"),
        ({"ssl.cipher.suites": "no-such-suite"}, "none of no-such-suite is known"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "may be https or empty"),
        (truststore("trust.jks", type="BCFKS"), "BCFKS is not supported"),
    ],
)
def test_contradictions_are_told_in_kafkas_words(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        client_tls(settings(values))


def test_versions_and_host_names() -> None:
    tls = client_tls(settings({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"})).context
    assert (tls.minimum_version, tls.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    usual = client_tls(settings({})).context
    assert (usual.minimum_version, usual.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert usual.check_hostname and usual.verify_mode is ssl.CERT_REQUIRED


def test_unchecked_host_names_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    tls = client_tls(settings({"ssl.endpoint.identification.algorithm": ""})).context
    assert not tls.check_hostname and tls.verify_mode is ssl.CERT_REQUIRED
    assert "ssl.endpoint.identification.algorithm is empty" in caplog.text


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_names_of_cipher_suites(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(f"{openssl}:@SECLEVEL=0")
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def test_java_store_that_is_cut_anywhere_is_an_error() -> None:
    data = (GOLDEN / "client.jks").read_bytes()
    for size in range(4, len(data)):
        with pytest.raises(KafkaError):
            read_java_key_store(data[:size], None, "cut")


def test_keys_are_not_in_the_repr() -> None:
    own = identity(settings(keystore("client.p12", password="storepass1")))
    assert "PRIVATE" not in repr(own)
