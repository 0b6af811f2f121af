"""How a connection becomes secure: TLS below the frames, SASL as the first requests after ApiVersions.

Nothing here is imported for security.protocol PLAINTEXT. Secrets are kept in `Password` values until the moment they
are needed, and are in no message, log line or `repr`.
"""
