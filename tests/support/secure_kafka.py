"""One Apache Kafka with a listener for every security protocol, its certificates and its users.

`alice` is the user of PLAIN, `bob` that of SCRAM; OAUTHBEARER takes any token that is not signed. The listener SHORT
makes sessions of SASL end after 1.5 s; MTLS wants a certificate of the client.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from support.apache_kafka import ApacheKafka
from support.certificates import Authority, keytool, pkcs12, trust_store
from support.ports import free_port

MODULES = "org.apache.kafka.common.security"
STORE_PASSWORD = "store-canary1"
KEY_PASSWORD = "key-canary1"
PROTOCOLS = {"SSL": "SSL", "MTLS": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
SHORT_SESSION_MS = 1500
PLAIN_LOGIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-canary";'
SCRAM_LOGIN = f'{MODULES}.scram.ScramLoginModule required username="bob" password="bob-canary";'
TOKEN_LOGIN = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="carol";'


class SecureKafka:
    """`start` it, ask `bootstrap(listener)`, and write client settings with `client_file`."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.authority = Authority(home / "certificates")
        self.directory = self.authority.directory
        self._make_certificates()
        self.cluster = ApacheKafka(home / "kafka")
        self._ports = {"PLAINTEXT": self.cluster.ports[0]}
        self._ports.update({name: free_port() for name in (*PROTOCOLS, "SHORT")})
        self.cluster.settings = self._settings()

    def bootstrap(self, listener: str, host: str = "localhost") -> str:
        """The address of a listener."""
        return f"{host}:{self._ports[listener]}"

    def _make_certificates(self) -> None:
        key, made = self.authority.issue("server", "DNS:localhost")
        (self.directory / "server-both.pem").write_text(key.read_text() + made.read_text())
        key, made = self.authority.issue("client")
        both = self.directory / "client.p12"
        pkcs12(key, made, both, STORE_PASSWORD)
        keytool(
            *(
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                both,
                "-srcstorepass",
                STORE_PASSWORD,
                "-srcalias",
                "own",
            ),
            *("-destkeystore", self.directory / "client.jks", "-deststoretype", "JKS"),
            *("-deststorepass", STORE_PASSWORD, "-destkeypass", KEY_PASSWORD),
        )
        (self.directory / "client.jks").chmod(0o600)  # a key store that others can read is warned about
        trust_store(self.directory / "trust.jks", "JKS", STORE_PASSWORD, [self.authority.certificate])

    def _settings(self) -> dict[str, str]:
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items())
        advertised = ",".join(f"{name}://localhost:{port}" for name, port in self._ports.items())
        protocols = {**PROTOCOLS, "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", "SHORT": "SASL_PLAINTEXT"}
        found = {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self.cluster.controller_ports[0]}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "server-both.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.mtls.ssl.client.auth": "required",
            "delegation.token.secret.key": "0123456789abcdef0123456789abcdef",
        }
        for name in ("sasl_plaintext", "sasl_ssl", "short"):
            found |= self._sasl_settings(f"listener.name.{name}")
        for mechanism in ("scram-sha-512", "oauthbearer"):
            found[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = str(SHORT_SESSION_MS)
        return found

    def _sasl_settings(self, prefix: str) -> dict[str, str]:
        users = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-canary";'
        scram = f"{MODULES}.scram.ScramLoginModule required;"
        return {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.plain.sasl.jaas.config": users,
            f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
            f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
            f"{prefix}.oauthbearer.sasl.jaas.config": TOKEN_LOGIN.replace("carol", "kafka"),
        }

    @property
    def trust(self) -> dict[str, str]:
        """The settings that trust the brokers' certificate."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}

    def client_file(self, name: str, values: Mapping[str, str]) -> str:
        """A file for --command-config."""
        path = self.home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        path.chmod(0o600)  # a file with secrets that others can read is warned about
        return str(path)
