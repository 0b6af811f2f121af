"""The source of OAUTHBEARER tokens by the settings: a command, a token endpoint or a file (JwtRetriever), IAM of Amazon
MSK, or an unsecured token of this process.

No class is loaded by name: Kafka's own and those of aws-msk-iam-auth are known, others are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkatools.core import config as tables
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.config.setting import clear_text
from kafkatools.core.errors import ConfigError
from kafkatools.core.net.security.jaas import LoginModule
from kafkatools.core.net.security.tokens import TokenSource, command_source, file_source, unsecured_source
from kafkatools.core.net.security.warnings import warn

if TYPE_CHECKING:
    from kafkatools.core.net.security.token_endpoint import TokenRequest

AWS_MSK_IAM = "AWS_MSK_IAM"
_KAFKAS_OWN = "org.apache.kafka.common.security."
_AMAZONS = "software.amazon.msk.auth.iam."
_HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.login.class")
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_DEFAULT_TIMEOUT_MS = 10_000


def refuse_foreign_classes(config: Config, *known: str) -> None:
    """Raise ConfigError for a callback handler or login class that is neither Kafka's nor in a `known` package."""
    for name in _HANDLERS:
        value: object = config[name]
        if value is not None and not str(value).startswith((_KAFKAS_OWN, *known)):
            raise ConfigError(
                f"{name}: the Java class {value} cannot be used here (sasl.oauthbearer.token.command may help)"
            )


def makes_unsecured(config: Config) -> bool:
    """Return whether tokens are made in this process, without a signature."""
    names = ("sasl.oauthbearer.token.command", "sasl.oauthbearer.token.endpoint.url")
    return all(config[name] is None for name in names) and not _uses_msk(config)


def _uses_msk(config: Config) -> bool:
    return config.sasl_mechanism == AWS_MSK_IAM or any(str(config[name]).startswith(_AMAZONS) for name in _HANDLERS)


def token_source(config: Config, module: LoginModule | None, clock: Clock) -> TokenSource:
    """The source of OAUTHBEARER tokens: IAM of Amazon MSK, else the token command, else the endpoint, else a file, else
    an unsecured token from the options. Raises ConfigError."""
    options: Mapping[str, str] = {} if module is None else module.options
    if _uses_msk(config):
        from kafkatools.core.net.security.msk import msk_source

        refuse_foreign_classes(config, _AMAZONS)
        return msk_source(options, config.bootstrap_servers)
    if module is not None and module.name.rpartition(".")[2] == "IAMLoginModule":
        raise ConfigError(f"IAMLoginModule of sasl.jaas.config needs sasl.mechanism={AWS_MSK_IAM}")
    command: str | None = config["sasl.oauthbearer.token.command"]
    if command is not None:
        return command_source(command, config.sasl_login_read_timeout_ms, clock)
    refuse_foreign_classes(config)
    url: str | None = config["sasl.oauthbearer.token.endpoint.url"]
    if url is None:
        return unsecured_source(options, clock)
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme == "file":
        return file_source(parts.path, clock)
    return _endpoint_source(config, options, url, clock)


def _endpoint_source(config: Config, options: Mapping[str, str], url: str, clock: Clock) -> TokenSource:
    from urllib.parse import urlsplit

    from kafkatools.core.net.addresses import is_loopback
    from kafkatools.core.net.security.tls_context import client_tls
    from kafkatools.core.net.security.token_endpoint import Endpoint, endpoint_source

    make_request = _request(config, options, clock)
    parts = urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        warn("sasl.oauthbearer.token.endpoint.url is not https: secrets and token are readable by the network")
    tls_options = {name: value for name, value in options.items() if name.startswith("ssl.")}
    tls = client_tls(Config(tables.ADMIN, tls_options)).context if parts.scheme == "https" else None
    endpoint = Endpoint(
        url,
        make_request,
        max(config.sasl_login_connect_timeout_ms or 0, config.sasl_login_read_timeout_ms or 0) or _DEFAULT_TIMEOUT_MS,
        config.sasl_login_retry_backoff_ms,
        config.sasl_login_retry_backoff_max_ms,
    )
    return endpoint_source(endpoint, tls, clock)


def _request(config: Config, options: Mapping[str, str], clock: Clock) -> Callable[[], TokenRequest]:
    """The maker of the requests of the configured retriever. Raises ConfigError."""
    from kafkatools.core.net.security import token_endpoint
    from kafkatools.core.net.security.assertions import assertion_source

    retriever = str(config[_RETRIEVER])
    kind = retriever.rpartition(".")[2]
    scope = config["sasl.oauthbearer.scope"] or options.get("scope")
    if kind == "JwtBearerJwtRetriever":
        bearer = assertion_source(config, clock)
        return lambda: token_endpoint.jwt_bearer_request(bearer(), scope)
    if kind not in ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever"):
        raise ConfigError(f"{_RETRIEVER} {retriever} is not built in")
    user: str | None = config["sasl.oauthbearer.client.credentials.client.id"] or options.get("clientId")
    if config["sasl.oauthbearer.assertion.file"] or config["sasl.oauthbearer.assertion.claim.iss"]:
        assertion = assertion_source(config, clock)
        return lambda: token_endpoint.client_assertion_request(user, assertion(), scope)
    secret = clear_text(config["sasl.oauthbearer.client.credentials.client.secret"]) or options.get("clientSecret")
    if not user or not secret:
        lacking = "id" if not user else "secret"
        raise ConfigError(f"SASL OAUTHBEARER: sasl.oauthbearer.client.credentials.client.{lacking} is not set")
    encodes: bool = config["sasl.oauthbearer.header.urlencode"]
    return lambda: token_endpoint.secret_request(user, secret, scope, encodes_header=encodes)
