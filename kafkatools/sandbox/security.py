"""TLS, SASL and ACLs of a sandbox: certificates, users, and the files for its clients.

Rules: everything is below `<home>/sandbox/security`, for the owner only (0700, files 0600). The authority is made once
and kept, so that a truststore stays valid; certificates are issued anew at each start. Clients use one listener. Nodes
of a cluster talk to each other and to the controllers through further listeners, by SASL PLAIN with a password that
is new at each start.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core import atomic_file
from kafkatools.sandbox.layout import CONTROLLER_LISTENER, INTERNAL_LISTENER
from kafkatools.sandbox.spawn import SandboxError, folder, make_private

MECHANISMS = {"scram": "SCRAM-SHA-512", "plain": "PLAIN", "oauthbearer": "OAUTHBEARER"}
NODE_USER = "kt-node"
CLIENT_USER = "client"
PROFILE = "sandbox"
_MODULES = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "scram": f"{_MODULES}.scram.ScramLoginModule",
    "plain": f"{_MODULES}.plain.PlainLoginModule",
    "oauthbearer": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_BACKSLASH = "\\"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """The requested security of a sandbox: TLS, certificates of clients, the SASL mechanism (scram, plain or
    oauthbearer; None: no SASL), ACLs, and the password of each user."""

    tls: bool = False
    mtls: bool = False
    sasl: str | None = None
    acls: bool = False
    users: Mapping[str, str] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        """The security protocol of the clients' listener."""
        has_tls = self.tls or self.mtls
        if self.sasl is not None:
            return "SASL_SSL" if has_tls else "SASL_PLAINTEXT"
        return "SSL" if has_tls else "PLAINTEXT"

    @property
    def is_secured(self) -> bool:
        """Return whether anything is requested."""
        return self.protocol != "PLAINTEXT"


def parse_users(texts: list[str], sasl: str | None) -> dict[str, str]:
    """The passwords by user of `NAME:PASSWORD` texts; a NAME alone gets a random password. Raises SandboxError."""
    users: dict[str, str] = {}
    for text in texts:
        name, colon, password = text.partition(":")
        if not _NAME.fullmatch(name):
            raise SandboxError(
                "--user takes NAME:PASSWORD or NAME; a name has up to 64 letters, digits, dots, dashes and underscores"
            )
        if name in users or name == NODE_USER:
            raise SandboxError(f"--user names {name} twice" if name in users else f"--user cannot be {NODE_USER}")
        if sasl == "oauthbearer" and colon:
            raise SandboxError(f"--user {name}: tokens have no password; pass --user {name}")
        if colon and (not password or not password.isprintable()):
            raise SandboxError(f"--user {name}: the password is empty or has control characters")
        users[name] = password if colon else secrets.token_urlsafe(18)
    return users


def checked(options: SecurityOptions) -> SecurityOptions:
    """The options with a first user where SASL needs one. Raises SandboxError for options that do not fit together."""
    if options.sasl is not None and options.sasl not in MECHANISMS:
        raise SandboxError(f"--sasl is one of {', '.join(MECHANISMS)}, not {options.sasl}")
    if options.users and options.sasl is None:
        raise SandboxError("--user needs --sasl: without it clients have no user name")
    if options.acls and options.sasl is None and not options.mtls:
        raise SandboxError("--acls needs --sasl or --mtls: otherwise every client is User:ANONYMOUS")
    if options.sasl is None or options.users:
        return options
    users = {"admin": secrets.token_urlsafe(18)}
    return SecurityOptions(options.tls, options.mtls, options.sasl, options.acls, users)


@dataclass(frozen=True, slots=True)
class Security:
    """The security of a sandbox: the protocol of its clients' listener, the broker settings, the SCRAM passwords to
    set by user, and the settings of clients by user (the first one is the super user of `--acls`)."""

    directory: str
    protocol: str
    settings: Mapping[str, str]
    scram: Mapping[str, str]
    clients: Mapping[str, Mapping[str, str]]
    internal: Mapping[str, str]
    """The settings of a client of the internal listener; empty for a node alone."""


def prepare(home: str, options: SecurityOptions, *, is_cluster: bool) -> Security | None:
    """Make the certificates and settings of a sandbox; None without any security, and then the files of an earlier one
    are removed. Raises SandboxError."""
    directory = os.path.join(folder(home), "security")
    options = checked(options)
    forget(home)
    if not options.is_secured:
        return None
    make_private(directory)
    has_tls = options.protocol.endswith("SSL")
    if has_tls:
        from kafkatools.sandbox.certificates import issue_certificates

        issue_certificates(directory, client=CLIENT_USER if options.mtls else None)
    node_password = secrets.token_urlsafe(24)
    settings = {
        **_tls_settings(directory, options),
        **_sasl_settings(options),
        **(_internal_settings(node_password) if is_cluster else {}),
        **_acl_settings(options),
    }
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": os.path.join(directory, "ca.pem")}
    internal = {
        "security.protocol": "SASL_SSL" if has_tls else "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": _login("plain", NODE_USER, node_password),
        **(trust if has_tls else {}),
    }
    scram = dict(options.users) if options.sasl == "scram" else {}
    clients = _client_settings(directory, options, trust if has_tls else {})
    return Security(directory, options.protocol, settings, scram, clients, internal if is_cluster else {})


def forget(home: str) -> None:
    """Remove the files for clients of an earlier sandbox; the authority stays."""
    directory = os.path.join(folder(home), "security")
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if name.endswith((".properties", ".toml", ".json")):
            os.unlink(os.path.join(directory, name))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _login(sasl: str, user: str, password: str) -> str:
    module = f"{_LOGIN_MODULES[sasl]} required"
    if sasl == "oauthbearer":
        return f"{module} unsecuredLoginStringClaim_sub={_quoted(user)};"
    return f"{module} username={_quoted(user)} password={_quoted(password)};"


def _tls_settings(directory: str, options: SecurityOptions) -> dict[str, str]:
    if not options.protocol.endswith("SSL"):
        return {}
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.path.join(directory, "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.path.join(directory, "ca.pem"),
    }
    if options.mtls:
        settings[f"listener.name.{options.protocol.lower()}.ssl.client.auth"] = "required"
        settings["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]*).*$/$1/,DEFAULT"
    return settings


def _sasl_settings(options: SecurityOptions) -> dict[str, str]:
    if options.sasl is None:
        return {}
    prefix = f"listener.name.{options.protocol.lower()}"
    enabled = "SCRAM-SHA-512,SCRAM-SHA-256" if options.sasl == "scram" else MECHANISMS[options.sasl]
    settings = {f"{prefix}.sasl.enabled.mechanisms": enabled}
    if options.sasl == "plain":
        users = " ".join(f"user_{name}={_quoted(password)}" for name, password in options.users.items())
        settings[f"{prefix}.plain.sasl.jaas.config"] = f"{_LOGIN_MODULES['plain']} required {users};"
    return settings


def _internal_settings(password: str) -> dict[str, str]:
    """The settings of the listeners between nodes and of the controllers."""
    login = f"{_login('plain', NODE_USER, password)[:-1]} user_{NODE_USER}={_quoted(password)};"
    settings = {"sasl.mechanism.inter.broker.protocol": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN"}
    for name in (INTERNAL_LISTENER.lower(), CONTROLLER_LISTENER.lower()):
        settings[f"listener.name.{name}.sasl.enabled.mechanisms"] = "PLAIN"
        settings[f"listener.name.{name}.plain.sasl.jaas.config"] = login
    return settings


def _acl_settings(options: SecurityOptions) -> dict[str, str]:
    if not options.acls:
        return {}
    first = next(iter(options.users), CLIENT_USER)
    return {"authorizer.class.name": _AUTHORIZER, "super.users": f"User:{first};User:{NODE_USER}"}


def _client_settings(
    directory: str, options: SecurityOptions, trust: Mapping[str, str]
) -> dict[str, Mapping[str, str]]:
    common = {"security.protocol": options.protocol, **trust}
    if options.mtls:
        common |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": os.path.join(directory, "client.pem")}
    if options.sasl is None:
        return {CLIENT_USER: common}
    return {
        user: {
            **common,
            "sasl.mechanism": MECHANISMS[options.sasl],
            "sasl.jaas.config": _login(options.sasl, user, password),
        }
        for user, password in options.users.items()
    }


def settings_of(security: Security | None, user: str | None = None) -> dict[str, str]:
    """The settings of a user's clients, by default of the first user; none without security. Raises ValueError for an
    unknown user."""
    if security is None:
        if user is not None:
            raise ValueError(f"There is no user {user!r}: no user was requested")
        return {}
    name = user or next(iter(security.clients))
    if name not in security.clients:
        raise ValueError(f"There is no user {name!r}. Users: {', '.join(security.clients)}")
    return dict(security.clients[name])


def write_client_files(security: Security, bootstrap: str) -> str:
    """Write `client.properties` for the first user, `<name>.properties` for each further one, and the profile
    `sandbox`; returns the path of client.properties."""
    for index, (user, settings) in enumerate(security.clients.items()):
        name = "client" if index == 0 else user
        lines = {"bootstrap.servers": bootstrap, **settings}.items()
        text = "".join(f"{key}={value.replace(_BACKSLASH, 2 * _BACKSLASH)}\n" for key, value in lines)
        _write(security, f"{name}.properties", text)
    profile = (
        f'[profiles.{PROFILE}]\nbootstrap_servers = {json.dumps(bootstrap)}\ncommand_config = "client.properties"\n'
    )
    _write(security, "config.toml", profile)
    _write(security, "client.json", json.dumps(next(iter(security.clients.values()))))
    return os.path.join(security.directory, "client.properties")


def _write(security: Security, name: str, text: str) -> None:
    atomic_file.replace(os.path.join(security.directory, name), text.encode(), mode=0o600)


def client_file(home: str) -> str | None:
    """The path of the properties file for clients of a home's sandbox; None without security."""
    path = os.path.join(folder(home), "security", "client.properties")
    return path if os.path.exists(path) else None


def read_client_settings(home: str) -> dict[str, str]:
    """The settings of the first client of a home's sandbox; empty without security."""
    try:
        with open(os.path.join(folder(home), "security", "client.json"), encoding="utf-8") as file:
            return {str(name): str(value) for name, value in json.load(file).items()}
    except (FileNotFoundError, ValueError):
        return {}
