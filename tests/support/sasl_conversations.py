"""What a broker answers in conversations about SASL, byte for byte: the same ones for Apache Kafka and for ours."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable

from support.broker_client import BrokerClient

from kafkatools.core.net.security.scram import Scram

VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
CLOSED = "closed"
Bootstrap = Callable[[str], str]
Outcome = list[object]


class Talk:
    """One connection, and the outcomes so far; after `closed` nothing more is sent."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.client = BrokerClient(host, int(port))
        self.outcomes: Outcome = []

    def _note(self, run: Callable[[], object]) -> None:
        if self.outcomes[-1:] == [CLOSED]:
            return
        try:
            self.outcomes.append(run())
        except (EOFError, ConnectionError):
            self.outcomes.append(CLOSED)

    def versions(self, version: int = 3) -> Talk:
        fields = {"client_software_name": "test", "client_software_version": "1"} if version == 3 else {}
        self._note(lambda: int(self.client.call(VERSIONS, version, **fields).error_code))
        return self

    def handshake(self, mechanism: str, version: int = 1) -> Talk:
        def run() -> object:
            response = self.client.call(HANDSHAKE, version, mechanism=mechanism)
            return [int(response.error_code), list(response.mechanisms)]

        self._note(run)
        return self

    def say(self, message: bytes | str, version: int = 2) -> Talk:
        data = message.encode() if isinstance(message, str) else message

        def run() -> object:
            response = self.client.call(AUTHENTICATE, version, auth_bytes=data)
            text = bytes(response.auth_bytes).decode()
            lifetime = getattr(response, "session_lifetime", None)
            return [int(response.error_code), response.error_message, _stable(text), lifetime]

        self._note(run)
        return self

    def bare(self, message: bytes) -> Talk:
        def run() -> object:
            self.client.socket.sendall(len(message).to_bytes(4, "big") + message)
            return self.client.read(int.from_bytes(self.client.read(4), "big")).decode()

        self._note(run)
        return self

    def metadata(self) -> Talk:
        self._note(lambda: len(self.client.call(METADATA, 12, topics=[]).brokers))
        return self

    def end(self) -> Outcome:
        """The outcomes; `open` at the end of a connection that the broker has not closed."""
        self.client.close()
        return self.outcomes


def _stable(text: str) -> str:
    """A SCRAM message without its random parts."""
    return ",".join(part for part in text.split(",") if part[:2] not in ("r=", "s=", "v="))


def _bearer(subject: str, expires: float) -> str:
    parts = ({"alg": "none"}, {"sub": subject, "iat": int(time.time()) - 1, "exp": time.time() + expires})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return f"n,,\x01auth=Bearer {'.'.join(texts)}.\x01\x01"


def converse(bootstrap: Bootstrap) -> dict[str, Outcome]:
    """The outcomes of all conversations by name; `bootstrap` gives the address of a listener."""

    def to(listener: str = "SASL_PLAINTEXT") -> Talk:
        return Talk(bootstrap(listener))

    alice = "\0alice\0alice-canary"
    found: dict[str, Outcome] = {}
    found["plain"] = to().versions().handshake("PLAIN").say(alice).metadata().end()
    found["plain without ApiVersions, version 0"] = to().handshake("PLAIN").say(alice, 0).metadata().end()
    done = to().handshake("PLAIN").say(alice)
    found["both again after success"] = done.handshake("PLAIN").say(alice).metadata().end()
    for name, message in {
        "wrong password": "\0alice\0nothing",
        "unknown user": "\0nobody\0alice-canary",
        "no user": "\0\0alice-canary",
        "no password": "\0alice\0",
        "two tokens": "alice\0alice-canary",
        "four tokens": "\0alice\0alice-canary\0",
        "another authorization id": "bob\0alice\0alice-canary",
    }.items():
        found[f"plain, {name}"] = to().handshake("PLAIN").say(message).metadata().end()
    found["mechanism not offered"] = to().handshake("SCRAM-SHA-1").metadata().end()
    found["a request before authentication"] = to().metadata().end()
    found["a request after ApiVersions"] = to().versions().metadata().end()
    found["a request after the handshake"] = to().handshake("PLAIN").metadata().end()
    found["a message before the handshake"] = to().say(alice).end()
    found["ApiVersions twice"] = to().versions().versions().end()
    found["ApiVersions after the handshake"] = to().handshake("PLAIN").versions().end()
    found["handshake twice"] = to().handshake("PLAIN").handshake("PLAIN").end()
    found["bare messages"] = to().handshake("PLAIN", 0).bare(alice.encode()).metadata().end()
    found["bare messages, wrong"] = to().handshake("PLAIN", 0).bare(b"\0a\0b").metadata().end()
    for name, message in {
        "unknown user": "n,,n=nobody,r=abc",
        "malformed": "n=bob,r=abc",
        "another authorization id": "n,a=eve,n=bob,r=abc",
        "unknown token": "n,,n=none,r=abc,tokenauth=true",
    }.items():
        found[f"scram, {name}"] = to().handshake("SCRAM-SHA-256").say(message).end()
    first = to().handshake("SCRAM-SHA-512").say("n,,n=bob,r=abc")
    found["scram, wrong nonce"] = first.say("c=biws,r=abcd,p=AAAA").end()
    found["bearer"] = to().handshake("OAUTHBEARER").say(_bearer("carol", 1e6)).metadata().end()[:1]
    expired = to().handshake("OAUTHBEARER").say(_bearer("carol", -1))
    found["bearer, expired"] = expired.say(b"\1").metadata().end()
    found["bearer, malformed"] = to().handshake("OAUTHBEARER").say("n,,auth=Bearer x").end()
    found["bearer, not a token"] = to().handshake("OAUTHBEARER").say("n,,\1auth=Bearer x\1\1").say(b"\1").end()
    again = to("SHORT").handshake("OAUTHBEARER").say(_bearer("carol", 3600)).metadata()
    again = again.handshake("OAUTHBEARER").say(_bearer("carol", 3600)).metadata()
    found["authenticated again, twice at once"] = again.handshake("OAUTHBEARER").end()
    changed = to("SHORT").handshake("OAUTHBEARER").say(_bearer("carol", 3600))
    found["again as somebody else"] = changed.handshake("OAUTHBEARER").say(_bearer("eve", 3600)).metadata().end()
    other = to("SHORT").handshake("OAUTHBEARER").say(_bearer("carol", 3600))
    found["again by another mechanism"] = other.handshake("PLAIN").say(alice).metadata().end()
    wrong = to("SHORT").handshake("OAUTHBEARER").say(_bearer("carol", 3600))
    found["again, malformed"] = wrong.handshake("OAUTHBEARER").say("x").metadata().end()
    found["on a listener without SASL"] = to("PLAINTEXT").handshake("PLAIN").say(alice).metadata().end()
    return found


# -- delegation tokens -------------------------------------------------------------------------------------------------
CREATE, RENEW, EXPIRE, DESCRIBE = 38, 39, 40, 41


def _authenticated(address: str, *steps: tuple[str, bytes | str]) -> BrokerClient:
    talk = Talk(address)
    for mechanism, message in steps:
        talk.handshake(mechanism).say(message)
    return talk.client


def _login_by_token(address: str, token_id: str, password: str) -> BrokerClient | None:
    """A connection that authenticated with a token; None when it was refused."""
    host, _, port = address.rpartition(":")
    client, scram = BrokerClient(host, int(port)), Scram("SCRAM-SHA-256", token_id, password, is_delegation_token=True)
    client.call(HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    message: bytes | None = scram.initial()
    while message is not None:
        response = client.call(AUTHENTICATE, 2, auth_bytes=message)
        if response.error_code:
            client.close()
            return None
        message = scram.respond(bytes(response.auth_bytes))
    return client


def converse_about_tokens(bootstrap: Bootstrap, key: bytes) -> dict[str, Outcome]:
    """The outcomes of requests for delegation tokens; `key` is delegation.token.secret.key."""
    address, found = bootstrap("SASL_PLAINTEXT"), {}
    alice = _authenticated(address, ("PLAIN", "\0alice\0alice-canary"))
    carol = _authenticated(address, ("OAUTHBEARER", _bearer("carol", 3600)))
    bob = [{"principal_type": "User", "principal_name": "bob"}]
    made = alice.call(CREATE, 3, renewers=bob, max_lifetime=60_000)
    found["created"] = [
        *(int(made.error_code), made.principal_name, made.token_requester_principal_name),
        *(_ms(made.expiry_timestamp) - _ms(made.issue_timestamp), _ms(made.max_timestamp) - _ms(made.issue_timestamp)),
        bytes(made.hmac) == hmac.digest(key, made.token_id.encode(), "sha512"),
    ]
    groups = [{"principal_type": "Group", "principal_name": "g"}]
    found["a renewer that is a group"] = [int(alice.call(CREATE, 3, renewers=groups, max_lifetime=-1).error_code)]
    token = {"hmac": bytes(made.hmac)}
    found["renewed, of somebody else, unknown"] = [
        _settled(lambda: int(alice.call(RENEW, 2, **token, renew_period=60_000).error_code)),
        int(carol.call(RENEW, 2, **token, renew_period=1000).error_code),
        int(alice.call(RENEW, 2, hmac=b"none", renew_period=1000).error_code),
    ]
    password = base64.b64encode(made.hmac).decode()
    ends = time.monotonic() + 20
    holder = None
    while holder is None and time.monotonic() < ends:  # a broker learns of a token after its controller
        holder = _login_by_token(address, made.token_id, password)
    assert holder is not None
    found["a token for a token"] = [int(holder.call(CREATE, 3, renewers=[], max_lifetime=-1).error_code)]
    found["described by a token"] = [int(holder.call(DESCRIBE, 3, owners=None).error_code)]
    described = [entry for entry in alice.call(DESCRIBE, 3, owners=None).tokens if entry.token_id == made.token_id]
    found["described"] = [
        [entry.principal_name, [renewer.principal_name for renewer in entry.renewers], bytes(entry.hmac) == made.hmac]
        for entry in described
    ]
    owners = [{"principal_type": "User", "principal_name": "nobody"}]
    found["described of nobody"] = [len(alice.call(DESCRIBE, 3, owners=owners).tokens)]
    plain = _authenticated(bootstrap("PLAINTEXT"))
    found["without authentication"] = [
        int(plain.call(CREATE, 3, renewers=[], max_lifetime=-1).error_code),
        int(plain.call(RENEW, 2, **token, renew_period=1).error_code),
        int(plain.call(EXPIRE, 2, **token, expiry_time_period=1).error_code),
        int(plain.call(DESCRIBE, 3, owners=None).error_code),
    ]
    found["removed, by its owner only"] = [
        int(carol.call(EXPIRE, 2, **token, expiry_time_period=-1).error_code),
        int(alice.call(EXPIRE, 2, **token, expiry_time_period=-1).error_code),
    ]
    for client in (alice, carol, holder, plain):
        client.close()
    return found


def _settled(call: Callable[[], int]) -> int:
    """The error code, when it is no longer DELEGATION_TOKEN_NOT_FOUND: Apache Kafka answers before it knows the
    token everywhere."""
    ends = time.monotonic() + 20
    while (code := call()) == 62 and time.monotonic() < ends:
        pass
    return code


def _ms(time_of: object) -> int:
    return int(time_of) if isinstance(time_of, int) else round(time_of.timestamp() * 1000)  # type: ignore[attr-defined]
