"""Principals from certificates: subjects compared with openssl's RFC 2253 form and with what Java 21 prints, rules with
Kafka's documentation and String.replaceAll."""

from __future__ import annotations

import pathlib
import ssl
import subprocess
from typing import NamedTuple

import pytest
from support.certificates import CURVE, Authority, run

from kafkatools.core import config as tables
from kafkatools.core.broker.security.listener_security import security_of
from kafkatools.core.broker.security.principals import PrincipalRules, subject_of
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError, SslAuthenticationFailed


def certificate(directory: pathlib.Path, subject: str) -> pathlib.Path:
    made = directory / "made.pem"
    options = ("-x509", "-utf8", *CURVE, "-nodes", "-keyout", directory / "k")
    run("openssl", "req", *options, "-out", made, "-subj", subject)
    return made


@pytest.mark.parametrize(
    "subject",
    [
        "/C=DE/O=Example, Inc./OU=a+b/CN=client",
        "/DC=org/DC=example/UID=7/CN= x\\\\y ",
        "/CN=Zo\u00eb/ST=x/L=y",
    ],
)
def test_a_subject_reads_as_openssl_writes_it(tmp_path: pathlib.Path, subject: str) -> None:
    made = certificate(tmp_path, subject)
    options = "RFC2253,-esc_msb,utf8"
    command = ["openssl", "x509", "-in", str(made), "-noout", "-subject", "-nameopt", options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    der = ssl.PEM_cert_to_DER_cert(made.read_text())
    assert subject_of(der) == text.removeprefix("subject=").removesuffix("\n")


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("/CN=a=b#c/O=x", "O=x,CN=a\\=b\\#c"),
        ("/CN=  two  blanks  ", "CN=\\ \\ two  blanks\\ \\ "),
        ('/CN=#a "b" <c>;', 'CN=\\#a \\"b\\" \\<c\\>\\;'),
        ("/UID=7/CN= #x\\\\y ", "CN=\\ \\#x\\\\y\\ ,UID=7"),
        ("/emailAddress=a@b.c/CN=x", "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
    ],
)
def test_a_subject_reads_as_java_writes_it(tmp_path: pathlib.Path, subject: str, text: str) -> None:
    """X500Principal.getName, which escapes `=`, `#` and each outer blank; openssl does not."""
    assert subject_of(ssl.PEM_cert_to_DER_cert(certificate(tmp_path, subject).read_text())) == text


def test_a_malformed_certificate_has_no_subject() -> None:
    with pytest.raises(SslAuthenticationFailed):
        subject_of(b"\x30\x03\x30\x01\x05")


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=a,OU=b", "CN=a,OU=b"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=serviceuser,OU=ServiceUsers,O=Unknown,C=DE", "serviceuser"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=DE",
            "adminuser@admin",
        ),
        ("RULE:^cn=(.*?)$/$1/L, RULE:^CN=([^,]*).*$/$1/U,DEFAULT", "CN=x,O=y", "X"),
        ("RULE:^CN=(.*)$/$1$2/", "CN=x", "x$2"),
        ("RULE:^NO$/y/,DEFAULT", "CN=x", "CN=x"),
        (r"RULE:CN=(.*?),.*/a\/b-$1/", "CN=x,O=y", "a/b-x"),
        ("RULE:CN=(a|ab)/$1-x/", "CN=ab", "a-xb"),
        ("RULE:.*/guest/", "CN=x", "guestguest"),
    ],
)
def test_the_first_matching_rule_names_the_principal(rules: str, subject: str, name: str) -> None:
    assert PrincipalRules.parse(rules).name_of(subject) == name


def test_rules_that_cannot_be_used() -> None:
    with pytest.raises(SslAuthenticationFailed, match="no rule of ssl.principal.mapping.rules applies to CN=x"):
        PrincipalRules.parse("RULE:^OU=.*$/x/").name_of("CN=x")
    with pytest.raises(ConfigError, match="Invalid rule: `DEFAUL`"):
        PrincipalRules.parse("DEFAUL")
    with pytest.raises(ConfigError, match=r"ssl.principal.mapping.rules: RULE:\(/x/"):
        PrincipalRules.parse("RULE:(/x/")


class Listener(NamedTuple):
    name: str
    protocol: str


def test_rules_are_not_for_certificates_of_listeners_with_sasl(tmp_path: pathlib.Path) -> None:
    """There the principal is that of SASL, and Kafka does not look at the subject."""
    key, made = Authority(tmp_path).issue("client")
    settings = {
        "node.id": "1",
        "log.dirs": "/none",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key.read_text(),
        "ssl.keystore.certificate.chain": made.read_text(),
        "ssl.principal.mapping.rules": "RULE:^OU=(.*)$/$1/",
    }
    listeners = [Listener("OPEN", "SSL"), Listener("SAFE", "SASL_SSL")]
    security = security_of(Config(tables.BROKER, settings), listeners)
    open_tls, safe_tls = security["OPEN"].tls, security["SAFE"].tls
    assert open_tls is not None and safe_tls is not None
    der = ssl.PEM_cert_to_DER_cert(made.read_text())
    assert safe_tls.principal_of(der) == "User:CN=client"
    with pytest.raises(SslAuthenticationFailed):
        open_tls.principal_of(der)
