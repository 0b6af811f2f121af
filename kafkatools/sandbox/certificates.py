"""The certificates of a sandbox in PEM, made by the package `cryptography`: an authority of its own, one certificate
for all nodes (localhost, 127.0.0.1 and ::1), and one for a client."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kafkatools.core import atomic_file
from kafkatools.sandbox.spawn import SandboxError

_YEARS = 10
_CLOCKS_DIFFER = timedelta(days=1)


def issue_certificates(directory: str, *, client: str | None) -> None:
    """Write `ca.pem` and `ca.key` unless they exist, `node.pem`, and with `client`, the common name, `client.pem`; a
    file has the private key and then the chain. Raises SandboxError when the authority cannot be read."""
    key, authority = _authority(directory)
    addresses = (ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1"))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), *map(x509.IPAddress, addresses)])
    _issue(os.path.join(directory, "node.pem"), "localhost", key, authority, names)
    if client is not None:
        _issue(os.path.join(directory, "client.pem"), client, key, authority, None)


def _authority(directory: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    certificate_path, key_path = os.path.join(directory, "ca.pem"), os.path.join(directory, "ca.key")
    if os.path.exists(certificate_path) and os.path.exists(key_path):
        try:
            with open(certificate_path, "rb") as file:
                certificate = x509.load_pem_x509_certificate(file.read())
            with open(key_path, "rb") as file:
                key = load_pem_private_key(file.read(), None)
        except ValueError:
            raise SandboxError(f"{key_path} or {certificate_path} is damaged: remove both") from None
        if isinstance(key, ec.EllipticCurvePrivateKey) and certificate.not_valid_after_utc > datetime.now(UTC):
            return key, certificate
    new_key = ec.generate_private_key(ec.SECP256R1())
    name = _name("kt sandbox")
    builder = _builder(name, name, new_key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = {name: name in ("key_cert_sign", "crl_sign") for name in _USAGES}
    builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(new_key.public_key())  # clients on Python 3.13 demand it
    certificate = builder.add_extension(identifier, critical=False).sign(new_key, hashes.SHA256())
    atomic_file.replace(key_path, _pem(new_key), mode=0o600)
    atomic_file.replace(certificate_path, certificate.public_bytes(Encoding.PEM), mode=0o600)
    return new_key, certificate


_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _issue(
    path: str,
    name: str,
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    names: x509.SubjectAlternativeName | None,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), authority.subject, key)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if names is not None:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = builder.add_extension(issuer, critical=False).sign(authority_key, hashes.SHA256())
    chain = b"".join(part.public_bytes(Encoding.PEM) for part in (certificate, authority))
    atomic_file.replace(path, _pem(key) + chain, mode=0o600)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _CLOCKS_DIFFER)
    return builder.not_valid_after(now + timedelta(days=365 * _YEARS))


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
