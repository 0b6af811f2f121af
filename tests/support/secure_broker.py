"""An embedded broker with a listener for every security protocol, its certificates and its users, and the settings of
their clients.

`alice` is the user of PLAIN, `bob` that of SCRAM; OAUTHBEARER takes any token that is not signed. The listener SHORT
ends sessions of SASL after 1.5 s; MTLS requires a certificate of the client, SIGNED
takes signed tokens only, and the certificate of EXPIRED has expired.
"""

from __future__ import annotations

import base64
import json
import pathlib
import time
from collections.abc import Mapping

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from support.certificates import Authority
from support.ports import free_port

from kafkatools.sandbox.embedded_broker import EmbeddedBroker

MODULES = "org.apache.kafka.common.security"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MTLS": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "SIGNED": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
}
SHORT_SESSION_MS = 1500
TOKEN_KEY = b"0123456789abcdef0123456789abcdef"
ISSUER, AUDIENCE = "https://issuer.example", "kafka"
LOGINS = {
    "PLAIN": f'{MODULES}.plain.PlainLoginModule required username="alice" password="alice-canary";',
    "SCRAM-SHA-256": f'{MODULES}.scram.ScramLoginModule required username="bob" password="bob-canary";',
    "SCRAM-SHA-512": f'{MODULES}.scram.ScramLoginModule required username="bob" password="bob-canary";',
    "OAUTHBEARER": f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="carol";',
}
_VALIDATOR = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"


class SecureBroker:
    """`start` it, ask `bootstrap(listener)`, and write client settings with `client_file`."""

    def __init__(self, home: pathlib.Path) -> None:
        self.home = home
        self.authority = Authority(home / "certificates")
        self.directory = self.authority.directory
        self.key = rsa.generate_private_key(65537, 2048)
        self._ports = {name: free_port() for name in PROTOCOLS}
        for name, names, end in (
            ("server", "DNS:localhost", ""),
            ("client", "", ""),
            ("expired", "DNS:localhost", "20200101000000Z"),
        ):
            key, made = self.authority.issue(name, names, not_after=end)
            both = self.directory / f"{name}-both.pem"
            both.write_text(key.read_text() + made.read_text())
            both.chmod(0o600)
        (home / "jwks.json").write_text(json.dumps({"keys": [self._public_key()]}))
        self.broker = EmbeddedBroker(self._settings())

    def bootstrap(self, listener: str, host: str = "localhost") -> str:
        """The address of a listener."""
        return f"{host}:{self._ports[listener]}"

    def log(self) -> str:
        """The messages of the broker's process."""
        return (pathlib.Path(self.broker.directory).parent / "sandbox" / "sandbox.log").read_text()

    def _settings(self) -> dict[str, str]:
        found = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()),
            "advertised.listeners": ",".join(f"{name}://localhost:{port}" for name, port in self._ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in PROTOCOLS.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "server-both.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.certificate),
            "listener.name.expired.ssl.keystore.location": str(self.directory / "expired-both.pem"),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U,DEFAULT",
            "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.signed.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            "listener.name.signed.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (self.home / "jwks.json").as_uri(),
            "listener.name.signed.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            "listener.name.signed.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "delegation.token.secret.key": TOKEN_KEY.decode(),
        }
        for name in ("sasl_plaintext", "sasl_ssl", "short"):
            found[f"listener.name.{name}.sasl.enabled.mechanisms"] = ",".join(LOGINS)
            users = f'{MODULES}.plain.PlainLoginModule required user_alice="alice-canary" user_dave="dave-canary";'
            found[f"listener.name.{name}.plain.sasl.jaas.config"] = users
        for mechanism in ("scram-sha-512", "oauthbearer"):
            found[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = str(SHORT_SESSION_MS)
        return found

    @property
    def trust(self) -> dict[str, str]:
        """The settings that trust the broker's certificate."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate)}

    @property
    def identity(self) -> dict[str, str]:
        """The settings that show the client's certificate."""
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.directory / "client-both.pem")}

    def sasl(self, mechanism: str, *, tls: bool = True, login: str | None = None) -> dict[str, str]:
        """The settings of a client for a mechanism, by default with its usual user."""
        return {
            "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login or LOGINS[mechanism],
            **(self.trust if tls else {}),
        }

    def client_file(self, name: str, values: Mapping[str, str]) -> str:
        """A file for --command-config."""
        path = self.home / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        path.chmod(0o600)  # a file with secrets that others can read is warned about
        return str(path)

    # -- signed tokens -----------------------------------------------------------------------------------------------
    def _public_key(self) -> dict[str, str]:
        numbers = self.key.public_key().public_numbers()
        members = {"e": numbers.e.to_bytes(3, "big"), "n": numbers.n.to_bytes(256, "big")}
        return {"kty": "RSA", "kid": "one", "use": "sig", **{name: _text(value) for name, value in members.items()}}

    def token(self, *, algorithm: str = "RS256", signature: bytes = b"", **claims: object) -> str:
        """A token signed by the issuer's key; claims replace the usual ones, None leaves one out."""
        now = int(time.time())
        usual = {"sub": "erin", "iss": ISSUER, "aud": [AUDIENCE, "other"], "iat": now, "exp": now + 3600}
        chosen = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        parts = [_text(json.dumps(part).encode()) for part in ({"alg": algorithm, "kid": "one"}, chosen)]
        signature = signature or self.key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join((*parts, _text(signature)))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
