"""OAUTHBEARER tokens of Amazon MSK by IAM credentials: the vendor's signer, and the JAAS options of aws-msk-iam-auth.

A token is a signed URL that is valid for 15 minutes. Brokers of MSK with IAM accept it as OAUTHBEARER on the same port
as AWS_MSK_IAM. The signer finds credentials as all programs of AWS do, and may wait for services of AWS, so it runs on
the thread of `TokenLogin`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kafkatools.core.errors import AuthenticationFailed, ConfigError
from kafkatools.core.install_command import install_command
from kafkatools.core.net.security.tokens import Token, TokenSource
from kafkatools.core.secrets import redacted, remember

_MISSING = f"IAM of Amazon MSK needs the Python package aws-msk-iam-sasl-signer-python: {install_command('msk')}"
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?(?::\d+)?")
_USED = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRegion")
_WITHOUT_EFFECT = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")


def msk_source(options: Mapping[str, str], servers: Iterable[str]) -> TokenSource:
    """A source of IAM tokens by the options of sasl.jaas.config; the region is awsRegion (which Java's library lacks),
    else that in a name of bootstrap.servers, else that of the profile. Raises ConfigError; the source raises
    AuthenticationFailed."""
    refused = [name for name in options if name not in (*_USED, *_WITHOUT_EFFECT)]
    if refused:
        raise ConfigError(
            f"sasl.jaas.config: options of IAMLoginModule that are not supported: {', '.join(sorted(refused))}; "
            f"those with an effect are {', '.join(_USED)}"
        )
    profile, role = options.get("awsProfileName"), options.get("awsRoleArn")
    if profile and role:
        raise ConfigError("sasl.jaas.config has both awsProfileName and awsRoleArn; name the role in the profile")
    try:
        import aws_msk_iam_sasl_signer  # noqa: F401
    except ImportError:
        raise ConfigError(_MISSING) from None
    named = next((match[1] for match in map(_HOST.search, servers) if match), None)
    return lambda: _signed(options.get("awsRegion") or named, profile, role, options.get("awsRoleSessionName"))


def _signed(region: str | None, profile: str | None, role: str | None, session_name: str | None) -> Token:
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session

    try:
        session = Session(profile=profile)
        region = region or session.get_config_variable("region")
        if not region:
            raise AuthenticationFailed(
                "no AWS region: bootstrap.servers names none; set awsRegion in sasl.jaas.config or AWS_DEFAULT_REGION"
            )
        if session.get_credentials() is None:
            raise AuthenticationFailed("no AWS credentials were found: environment, profile, or role of the machine")
        if role:
            text, expires_ms = signer.generate_auth_token_from_role_arn(
                region, role, *([session_name] if session_name else [])
            )
        elif profile:
            text, expires_ms = signer.generate_auth_token_from_profile(region, profile)
        else:
            text, expires_ms = signer.generate_auth_token(region)
    except (BotoCoreError, ClientError) as problem:
        raise AuthenticationFailed(f"no IAM token: {redacted(str(problem))[:200]}") from None
    remember(text)
    return Token(text, int(expires_ms))
