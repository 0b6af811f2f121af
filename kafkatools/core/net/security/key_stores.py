"""Load a client's truststore and key store from its settings (DefaultSslEngineFactory).

Rules: a refused setting has Kafka's message. PEM comes from a file or from the settings themselves and has no store
password. JKS and PKCS12 files have one; their first bytes decide the format, as Java reads either under both names.
A truststore without a password is read without an integrity check. Where the system allows it, an unprotected private
key stays in memory and is never written to a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.config import Config
from kafkatools.core.config.setting import clear_text
from kafkatools.core.errors import ConfigError, KeyStoreUnreadable
from kafkatools.core.net.security import pem

if TYPE_CHECKING:
    from kafkatools.core.net.security.java_key_store import JavaKeyStore

# The readers of JKS and PKCS #12 are imported only for such a file.
_JKS_MAGIC, _JCEKS_MAGIC = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"

_FILE_TYPES = ("JKS", "PKCS12")


class Identity(NamedTuple):
    """A private key and its certificate chain in PEM. `password`: the key's, if it is encrypted."""

    key: str
    chain: str
    password: str | None
    source: str

    def __repr__(self) -> str:
        return f"Identity({self.source})"


class _Store(NamedTuple):
    """A key store or truststore file with its type and passwords. `setting`: `ssl.keystore` or `ssl.truststore`, for
    errors."""

    path: str
    type: str
    password: str | None
    key_password: str | None
    setting: str

    @property
    def source(self) -> str:
        return f"{self.setting}.location {self.path}"

    @property
    def wrong_password(self) -> KeyStoreUnreadable:
        return KeyStoreUnreadable(
            f"{self.source}: the password ({self.setting}.password) is wrong, or the file is damaged"
        )


def trusted_certificates(config: Config) -> list[bytes] | None:
    """The trusted certificates as DER; None to trust those of the system. Raises ConfigError, KeyStoreUnreadable."""
    kind: str = config["ssl.truststore.type"].upper()
    path, password = config["ssl.truststore.location"], clear_text(config["ssl.truststore.password"])
    inline = clear_text(config["ssl.truststore.certificates"])
    if inline is not None:
        if kind != "PEM":
            raise ConfigError(f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}.")
        if path is not None:
            raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
    if kind == "PEM" and password is not None and (path is not None or inline is not None):
        raise ConfigError("SSL trust store password cannot be specified for PEM format.")
    if inline is not None:
        return pem.certificates(inline, "ssl.truststore.certificates")
    if path is None:
        if password is not None:
            raise ConfigError("SSL trust store is not specified, but trust store password is specified.")
        return None
    store = _Store(path, kind, password, None, "ssl.truststore")
    certificates = _trusted_of(store, _contents(store))
    if not certificates:
        raise KeyStoreUnreadable(f"{store.source}: it contains no trusted certificate")
    return certificates


def _trusted_of(store: _Store, data: bytes) -> list[bytes]:
    if store.type == "PEM":
        return pem.certificates(_text(data), store.source)
    if data.startswith(_JKS_MAGIC):
        content = _java_key_store(store, data)
        return [*content.certificates, *(key.chain[0] for key in content.keys if key.chain)]  # as in Java
    from kafkatools.core.net.security.pkcs12 import trusted_of

    return trusted_of(data, store.password, store.wrong_password)


def identity(config: Config) -> Identity | None:
    """The client's private key and certificate chain; None without a key store. Raises ConfigError,
    KeyStoreUnreadable."""
    kind: str = config["ssl.keystore.type"].upper()
    path, password = config["ssl.keystore.location"], clear_text(config["ssl.keystore.password"])
    key, chain = clear_text(config["ssl.keystore.key"]), clear_text(config["ssl.keystore.certificate.chain"])
    key_password = clear_text(config["ssl.key.password"])
    if key is not None and chain is not None:
        _check_inline(kind, path, password)
        return _pem_identity(key, chain, key_password, "ssl.keystore.key")
    if key is not None:
        raise ConfigError("SSL private key is specified, but certificate chain is not specified.")
    if chain is not None:
        raise ConfigError("SSL certificate chain is specified, but private key is not specified")
    if kind == "PEM" and path is not None and password is not None:
        raise ConfigError(
            "SSL key store password cannot be specified with PEM format, only key password may be specified"
        )
    if path is None:
        if password is not None:
            raise ConfigError("SSL key store is not specified, but key store password is specified.")
        return None
    if kind != "PEM" and password is None:
        raise ConfigError("SSL key store is specified, but key store password is not specified.")
    store = _Store(path, kind, password, key_password, "ssl.keystore")
    data = _contents(store)
    if kind == "PEM":
        text = _text(data)
        return _pem_identity(text, text, key_password, store.source)
    return _file_identity(store, data)


def _check_inline(kind: str, path: str | None, password: str | None) -> None:
    if kind != "PEM":
        raise ConfigError(f"SSL private key can be specified only for PEM, but key store type is {kind}.")
    if path is not None:
        raise ConfigError("Both SSL key store location and separate private key are specified.")
    if password is not None:
        raise ConfigError(
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        )


def _pem_identity(key: str, chain: str, password: str | None, source: str) -> Identity:
    private_key = pem.private_key(key, source)
    return Identity(private_key.text(), pem.certificate_chain(pem.certificates(chain, source)), password, source)


def _file_identity(store: _Store, data: bytes) -> Identity:
    password = store.password or ""
    if not data.startswith(_JKS_MAGIC):
        from kafkatools.core.net.security.pkcs12 import identity_of

        key, chain = identity_of(data, password, store.source, store.wrong_password)
        return Identity(pem.Block("PRIVATE KEY", key).text(), pem.certificate_chain(chain), None, store.source)
    from kafkatools.core.net.security.java_key_store import WrongPassword, recover_key

    keys = _java_key_store(store, data).keys
    if not keys:
        raise KeyStoreUnreadable(f"{store.source}: it contains no private key")
    entry = keys[0]
    try:
        key = recover_key(entry, store.key_password or password, store.source)
    except WrongPassword:
        problem = (
            f"ssl.key.password is wrong for the key {entry.alias}"
            if store.key_password
            else f"the key {entry.alias} has another password than the keystore; set ssl.key.password"
        )
        raise KeyStoreUnreadable(f"{store.source}: {problem}") from None
    return Identity(pem.Block("PRIVATE KEY", key).text(), pem.certificate_chain(entry.chain), None, store.source)


def _java_key_store(store: _Store, data: bytes) -> JavaKeyStore:
    from kafkatools.core.net.security.java_key_store import WrongPassword, read_java_key_store

    try:
        return read_java_key_store(data, store.password, store.source)
    except WrongPassword:
        raise store.wrong_password from None


def _contents(store: _Store) -> bytes:
    if store.type not in (*_FILE_TYPES, "PEM"):
        raise ConfigError(
            f"{store.setting}.type {store.type} is not supported; use PEM, PKCS12 or JKS "
            "(keytool -importkeystore converts other types)"
        )
    try:
        with open(store.path, "rb") as file:
            data = file.read()
    except OSError as problem:
        raise KeyStoreUnreadable(f"{store.source}: {problem.strerror or problem}") from None
    except ValueError as problem:  # a path with a null character
        raise KeyStoreUnreadable(f"{store.source}: {problem}") from None
    if store.type != "PEM" and b"-----BEGIN " in data[:4096]:
        raise KeyStoreUnreadable(f"{store.source}: this is a PEM file; set {store.setting}.type=PEM")
    if data.startswith(_JCEKS_MAGIC):
        raise KeyStoreUnreadable(f"{store.source}: JCEKS is not supported; convert it with keytool -importkeystore")
    return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
