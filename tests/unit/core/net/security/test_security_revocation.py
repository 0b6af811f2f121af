"""Certificate revocation lists: clients refuse brokers, and the embedded broker refuses clients."""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import socket
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.certificates import Authority
from support.kt import Ran, run_kt
from support.ports import free_port

from kafkatools import Admin
from kafkatools.core import config as tables
from kafkatools.core.broker.security.server_tls import ServerTls, server_tls
from kafkatools.core.broker.security.tls_stream import TlsStream
from kafkatools.core.config import Config
from kafkatools.core.errors import KeyStoreUnreadable, SslAuthenticationFailed
from kafkatools.core.net.security.tls_context import client_tls
from kafkatools.sandbox.embedded_broker import EmbeddedBroker


class Site(NamedTuple):
    authority: Authority
    ports: dict[str, int]
    certificates: dict[str, pathlib.Path]
    of_broker: pathlib.Path
    """The revocation lists of the listener MTLS."""

    def client(self, crl: pathlib.Path | None = None, identity: str = "") -> dict[str, str]:
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
        }
        if crl is not None:
            settings["ssl.crl.location"] = str(crl)
        if identity:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.both(identity))}
        return settings

    def both(self, name: str) -> pathlib.Path:
        return self.authority.directory / f"{name}-both.pem"

    def list_topics(self, listener: str, settings: dict[str, str]) -> Ran:
        path = self.authority.directory / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        where = ("--bootstrap-server", f"localhost:{self.ports[listener]}", "--command-config", str(path))
        return run_kt("topics", "--list", *where)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    ports = {name: free_port() for name in ("SSL", "MTLS")}
    certificates = {}
    made = Site(authority, ports, certificates, authority.directory / "of-broker.pem")
    for name, names in (("server", "DNS:localhost"), ("good", ""), ("bad", ""), ("later", "")):
        key, certificates[name] = authority.issue(name, names)
        made.both(name).write_text(key.read_text() + certificates[name].read_text())
        made.both(name).chmod(0o600)
    authority.revocation_list(made.of_broker, [certificates["bad"]])
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "SSL:SSL,MTLS:SSL",
        "inter.broker.listener.name": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.both("server")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.crl.location": str(made.of_broker),
    }
    with EmbeddedBroker(settings):
        yield made


def test_broker_that_is_not_in_the_list_is_accepted(site: Site, tmp_path: pathlib.Path) -> None:
    crl = site.authority.revocation_list(tmp_path / "crl.pem", [site.certificates["bad"]])
    ran = site.list_topics("SSL", site.client(crl))
    assert (ran.status, ran.err) == (0, "")


def test_broker_whose_certificate_was_revoked_is_refused(site: Site, tmp_path: pathlib.Path) -> None:
    crl = site.authority.revocation_list(tmp_path / "crl.pem", [site.certificates["server"]])
    ran = site.list_topics("SSL", site.client(crl))
    assert (ran.status, ran.out) == (1, "") and len(ran.err.splitlines()) == 1
    assert "failed: the server's certificate has been revoked (ssl.crl.location)" in ran.err


def test_list_that_has_expired_or_is_of_another_authority_is_no_proof(site: Site, tmp_path: pathlib.Path) -> None:
    past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    expired = site.authority.revocation_list(tmp_path / "expired.pem", until=past)
    foreign = Authority(tmp_path / "foreign", "other").revocation_list(tmp_path / "foreign.pem")
    assert "the revocation list of an issuer of the server's certificate has expired: fetch a new one" in (
        site.list_topics("SSL", site.client(expired)).err
    )
    assert "there is no revocation list of an issuer of the server's certificate" in (
        site.list_topics("SSL", site.client(foreign)).err
    )


def test_certificates_in_the_file_are_not_trusted(site: Site, tmp_path: pathlib.Path) -> None:
    crl = site.authority.revocation_list(tmp_path / "crl.pem")
    crl.write_bytes(crl.read_bytes() + site.authority.certificate.read_bytes())
    other = Authority(tmp_path / "other", "other")
    settings = {**site.client(crl), "ssl.truststore.location": str(other.certificate)}
    assert "no certificate in the truststore" in site.list_topics("SSL", settings).err


def test_client_whose_certificate_was_revoked_is_refused(site: Site) -> None:
    good, bad = (site.list_topics("MTLS", site.client(identity=name)) for name in ("good", "bad"))
    assert (good.status, good.err) == (0, "")
    assert (bad.status, bad.out) == (1, "") and len(bad.err.splitlines()) == 1
    assert "the client's certificate has been revoked (ssl.keystore.*)" in bad.err


def test_broker_reads_the_list_again_when_it_changes(site: Site) -> None:
    settings = {"bootstrap.servers": f"localhost:{site.ports['MTLS']}", **site.client(identity="later")}
    with Admin(settings) as admin:
        assert admin.list_topics() == []
    site.authority.revocation_list(site.of_broker, [site.certificates["bad"], site.certificates["later"]])
    with Admin(settings) as admin, pytest.raises(SslAuthenticationFailed, match="has been revoked"):
        admin.list_topics()
    site.of_broker.unlink()  # the lists that were read stay in force
    with Admin(settings) as admin, pytest.raises(SslAuthenticationFailed, match="has been revoked"):
        admin.list_topics()
    site.authority.revocation_list(site.of_broker, [site.certificates["bad"]])


def connect(listener: ServerTls, client: ssl.SSLContext, session: ssl.SSLSession | None = None) -> ssl.SSLSession:
    """Make a connection, which both sides end with close_notify; return its session. Raises the error of the broker's
    side."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    ours = client.wrap_socket(near, server_hostname="localhost", do_handshake_on_connect=False, session=session)
    theirs = TlsStream(far, listener)
    try:
        for _ in range(5):
            with contextlib.suppress(ssl.SSLWantReadError):
                ours.do_handshake()
            theirs.handshake()
        theirs.send(b"x")
        assert ours.recv(1) == b"x"
        made = ours.session
        assert made is not None
        with contextlib.suppress(ssl.SSLWantReadError):
            ours.unwrap()
        assert theirs.recv_into(memoryview(bytearray(1))) == 0
        return made
    finally:
        theirs.close()
        ours.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_whose_certificate_was_revoked_cannot_resume_its_session(
    tmp_path: pathlib.Path, version: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path)
    crl = authority.revocation_list(tmp_path / "crl.pem")
    server_key, server_certificate = authority.issue("server", "DNS:localhost")
    client_key, client_certificate = authority.issue("client")
    settings = {
        "node.id": "1",
        "log.dirs": "/none",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": server_key.read_text(),
        "ssl.keystore.certificate.chain": server_certificate.read_text(),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.crl.location": str(crl),
    }
    listener = server_tls(Config(tables.BROKER, settings), "SSL", "required")
    client = ssl.create_default_context(cafile=str(authority.certificate))
    client.load_cert_chain(client_certificate, client_key)
    client.minimum_version = client.maximum_version = version
    session = connect(listener, client)
    if version is ssl.TLSVersion.TLSv1_2:
        with pytest.raises(OSError, match="^it resumed a TLS session"):
            connect(listener, client, session)
    session = connect(listener, client, session)  # a new session: the former one is forgotten
    authority.revocation_list(crl, [client_certificate])
    for reason in ("resumed a TLS session|has been revoked", "has been revoked"):
        with pytest.raises(OSError, match=reason):
            connect(listener, client, session)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "ssl.crl.location /.*/crl: No such file or directory"),
        ("0\x82", "it contains no revocation list in PEM .openssl crl -inform DER"),
        ("-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n", "a revocation list in it is damaged"),
    ],
)
def test_file_that_is_no_list(tmp_path: pathlib.Path, content: str | None, message: str) -> None:
    path = tmp_path / "crl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(KeyStoreUnreadable, match=message):
        client_tls(Config(tables.ADMIN, {"security.protocol": "SSL", "ssl.crl.location": str(path)}))
