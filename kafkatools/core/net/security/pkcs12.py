"""Read PKCS #12 files with the library `cryptography`, which also supports the old algorithms of Java 8's keytool.

If a key store holds several private keys, the first one is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.errors import KeyStoreUnreadable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate


def trusted_of(data: bytes, password: str | None, wrong: KeyStoreUnreadable) -> list[bytes]:
    """The trusted certificates of a PKCS #12 file as DER: as in Java also the key's own one, and none of its issuers.
    Raises `wrong` for a wrong password or a damaged file."""
    from cryptography.hazmat.primitives.serialization import Encoding

    chain, others = _chain_and_others(_load(data, password, wrong))
    return [certificate.public_bytes(Encoding.DER) for certificate in (*chain[:1], *others)]


def identity_of(data: bytes, password: str, source: str, wrong: KeyStoreUnreadable) -> tuple[bytes, list[bytes]]:
    """The private key as PKCS #8 and its certificate chain as DER, the key's own certificate first. Raises
    KeyStoreUnreadable without a private key, `wrong` for a wrong password or a damaged file."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    store = _load(data, password, wrong)
    if store.key is None or store.cert is None:
        raise KeyStoreUnreadable(f"{source}: it contains no private key")
    chain, _ = _chain_and_others(store)
    plain = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return plain, [certificate.public_bytes(Encoding.DER) for certificate in chain]


def _chain_and_others(store: PKCS12KeyAndCertificates) -> tuple[list[Certificate], list[Certificate]]:
    """The chain of the private key, its own certificate first, and the certificates that are not part of it."""
    others = [entry.certificate for entry in store.additional_certs]
    chain = [] if store.cert is None else [store.cert.certificate]
    while chain and chain[-1].issuer != chain[-1].subject:
        issuer = next((candidate for candidate in others if candidate.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        others.remove(issuer)
        chain.append(issuer)
    return chain, others


def _load(data: bytes, password: str | None, wrong: KeyStoreUnreadable) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, TypeError):  # the library raises the same errors for a wrong password and a damaged file
        raise wrong from None
