"""Settings of TLS and SASL that clients and brokers share."""

from kafkatools.core.config.setting import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    PER_BROKER,
    STRING,
    Setting,
    between,
    one_of_any_case,
)

SECURITY: tuple[Setting, ...] = (
    Setting("sasl.client.callback.handler.class", CLASS, None, "Supplies credentials to the client side of SASL."),
    Setting(
        "sasl.jaas.config",
        PASSWORD,
        None,
        "Login module and its options, in the form of a JAAS entry.",
        update_mode=PER_BROKER,
    ),
    Setting("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "Path of kinit.", update_mode=PER_BROKER),
    Setting(
        "sasl.kerberos.min.time.before.relogin", LONG, 60_000, "Least time between logins.", update_mode=PER_BROKER
    ),
    Setting(
        "sasl.kerberos.service.name", STRING, None, "Name of the brokers' Kerberos principal.", update_mode=PER_BROKER
    ),
    Setting(
        "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, "Random part of the renewal time.", update_mode=PER_BROKER
    ),
    Setting(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        "Part of a ticket's life after which it is renewed.",
        update_mode=PER_BROKER,
    ),
    Setting("sasl.login.callback.handler.class", CLASS, None, "Supplies credentials to the login."),
    Setting("sasl.login.class", CLASS, None, "The login implementation."),
    Setting("sasl.login.connect.timeout.ms", INT, None, "Time allowed to connect to a token provider."),
    Setting("sasl.login.read.timeout.ms", INT, None, "Time allowed to read from a token provider."),
    Setting(
        "sasl.login.retry.backoff.max.ms", LONG, 10_000, "Upper bound of the wait between tries at a token provider."
    ),
    Setting("sasl.login.retry.backoff.ms", LONG, 100, "First wait between tries at a token provider."),
    Setting(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        "Algorithm that signs the assertion.",
        one_of_any_case("ES256", "RS256"),
    ),
    Setting("sasl.oauthbearer.assertion.claim.aud", STRING, None, "Audience claim of the assertion."),
    Setting(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        "Seconds for which the assertion is valid.",
        between(0, 86_400),
    ),
    Setting("sasl.oauthbearer.assertion.claim.iss", STRING, None, "Issuer claim of the assertion."),
    Setting(
        "sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False, "Whether the assertion carries a unique id."
    ),
    Setting(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "Seconds in the past from which the assertion is valid.",
        between(0, 3600),
    ),
    Setting("sasl.oauthbearer.assertion.claim.sub", STRING, None, "Subject claim of the assertion."),
    Setting("sasl.oauthbearer.assertion.file", STRING, None, "File with a ready-made assertion."),
    Setting("sasl.oauthbearer.assertion.private.key.file", STRING, None, "File with the key that signs the assertion."),
    Setting("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, "Passphrase of that key."),
    Setting("sasl.oauthbearer.assertion.template.file", STRING, None, "File with header and claims of the assertion."),
    Setting("sasl.oauthbearer.client.credentials.client.id", STRING, None, "Client id for the token endpoint."),
    Setting(
        "sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None, "Client secret for the token endpoint."
    ),
    Setting("sasl.oauthbearer.clock.skew.seconds", INT, 30, "Difference of clocks that is forgiven."),
    Setting("sasl.oauthbearer.expected.audience", LIST, (), "Audiences a token may be for."),
    Setting("sasl.oauthbearer.expected.issuer", STRING, None, "Issuer a token must be from."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, "Time between reads of the keys."),
    Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "Upper bound of the wait between tries to read the keys.",
    ),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, "First wait between tries to read the keys."),
    Setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None, "Where the keys that verify tokens are."),
    Setting(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "How a token is obtained.",
    ),
    Setting(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "How a token is checked.",
    ),
    Setting("sasl.oauthbearer.scope", STRING, None, "Scope to ask for."),
    Setting("sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim that holds the scope."),
    Setting("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim that holds the subject."),
    Setting("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where tokens are issued."),
    Setting("security.providers", STRING, None, "Providers of security algorithms (of the JVM; without meaning here)."),
    Setting(
        "ssl.cipher.suites", LIST, (), "Cipher suites to allow; empty for the library's own.", update_mode=PER_BROKER
    ),
    Setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions to allow.", update_mode=PER_BROKER),
    Setting(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        "https checks the host name against the certificate; empty does not.",
        update_mode=PER_BROKER,
    ),
    Setting("ssl.engine.factory.class", CLASS, None, "Makes TLS engines (of the JVM).", update_mode=PER_BROKER),
    Setting("ssl.key.password", PASSWORD, None, "Password of the private key.", update_mode=PER_BROKER),
    Setting(
        "ssl.keymanager.algorithm",
        STRING,
        "SunX509",
        "Algorithm of the key manager (of the JVM).",
        update_mode=PER_BROKER,
    ),
    Setting("ssl.keystore.certificate.chain", PASSWORD, None, "Certificate chain in PEM.", update_mode=PER_BROKER),
    Setting("ssl.keystore.key", PASSWORD, None, "Private key in PEM.", update_mode=PER_BROKER),
    Setting("ssl.keystore.location", STRING, None, "File with key and certificate.", update_mode=PER_BROKER),
    Setting("ssl.keystore.password", PASSWORD, None, "Password of that file.", update_mode=PER_BROKER),
    Setting("ssl.keystore.type", STRING, "JKS", "Its format: JKS, PKCS12 or PEM.", update_mode=PER_BROKER),
    Setting("ssl.protocol", STRING, "TLSv1.3", "TLS version to prefer.", update_mode=PER_BROKER),
    Setting("ssl.provider", STRING, None, "Provider of TLS (of the JVM).", update_mode=PER_BROKER),
    Setting(
        "ssl.secure.random.implementation", STRING, None, "Source of randomness (of the JVM).", update_mode=PER_BROKER
    ),
    Setting(
        "ssl.trustmanager.algorithm",
        STRING,
        "PKIX",
        "Algorithm of the trust manager (of the JVM).",
        update_mode=PER_BROKER,
    ),
    Setting("ssl.truststore.certificates", PASSWORD, None, "Trusted certificates in PEM.", update_mode=PER_BROKER),
    Setting("ssl.truststore.location", STRING, None, "File with trusted certificates.", update_mode=PER_BROKER),
    Setting("ssl.truststore.password", PASSWORD, None, "Password of that file.", update_mode=PER_BROKER),
    Setting("ssl.truststore.type", STRING, "JKS", "Its format: JKS, PKCS12 or PEM.", update_mode=PER_BROKER),
)
