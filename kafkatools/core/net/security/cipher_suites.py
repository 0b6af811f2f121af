"""Translate the cipher suite names of Java and the TLS standards to OpenSSL's names."""

from __future__ import annotations

import re

from kafkatools.core.errors import ConfigError

TLS13 = frozenset(
    (
        "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_8_SHA256",
    )
)  # fmt: skip
_STANDARD = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>[A-Z0-9_]+)_WITH_(?P<cipher>[A-Z0-9_]+?)_(?P<digest>SHA\d*|POLY1305_SHA256)"
)
_CIPHERS = {
    "AES_128_GCM": "AES128-GCM", "AES_256_GCM": "AES256-GCM", "AES_128_CBC": "AES128", "AES_256_CBC": "AES256",
    "CHACHA20": "CHACHA20-POLY1305", "AES_128_CCM": "AES128-CCM", "AES_256_CCM": "AES256-CCM",
}  # fmt: skip


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a TLS 1.2 cipher suite. A name without the prefix TLS_ or SSL_ is returned unchanged. Raises
    ConfigError for an unknown suite."""
    if not suite.startswith(("TLS_", "SSL_")):
        return suite
    match = _STANDARD.fullmatch(suite)
    cipher = None if match is None else _CIPHERS.get(match["cipher"])
    if match is None or cipher is None:
        raise ConfigError(f"ssl.cipher.suites: the suite {suite} is not known")
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    digest = "" if match["digest"] == "POLY1305_SHA256" else "-" + match["digest"]
    return f"{exchange}{cipher}{digest}"
