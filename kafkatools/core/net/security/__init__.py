"""Secure connections: TLS below the frames, and SASL as the first requests after ApiVersions.

No module of this package is imported for security.protocol PLAINTEXT. Secrets are kept as `Password` values until they
are used, and appear in no message, log line or `repr`.
"""
