"""Check the specification of a fault before it is sent to a node."""

from __future__ import annotations

from kafkatools.core.errors import ConfigError
from kafkatools.sandbox.faults.responses import has_error_code, has_topics
from kafkatools.sandbox.faults.spec import (
    API_KEYS,
    CLIENTS,
    CLOCK_SKEW,
    CUT,
    DELAY,
    DISK_KINDS,
    ERROR,
    ERROR_CODES,
    KINDS,
    REQUEST_KINDS,
    SENDERS,
    SLOW_DISK,
    FaultSpec,
)


def checked(spec: FaultSpec) -> FaultSpec:
    """Return a specification with Kafka's spelling of its APIs. Raises ConfigError for one that makes no sense."""
    if spec.kind not in KINDS:
        raise ConfigError(f"There is no fault '{spec.kind}'; faults are {', '.join(KINDS)}")
    _check_scope(spec)
    by_lower = {name.lower(): name for name in API_KEYS}
    unknown = [name for name in spec.apis if name.lower() not in by_lower]
    if unknown:
        near = _similar(unknown[0], list(API_KEYS)) or "; kt broker-api-versions prints the names"
        raise ConfigError(f"There is no API '{unknown[0]}'{near}")
    spec = spec._replace(apis=tuple(by_lower[name.lower()] for name in spec.apis))
    if spec.kind == ERROR:
        spec = spec._replace(error=spec.error.upper())
        _check_error(spec)
    if spec.topic is not None:
        for name in spec.apis:
            if not has_topics(API_KEYS[name], spec.kind):
                raise ConfigError(f"Requests of {name} cannot be chosen by topic")
    if not 0 < spec.rate <= 1:
        raise ConfigError(f"The rate is {spec.rate:g}: it must be above 0 and at most 1")
    if spec.senders not in SENDERS:
        raise ConfigError(f"There are no senders '{spec.senders}'; senders are {', '.join(SENDERS)}")
    return spec


def _check_scope(spec: FaultSpec) -> None:
    """Raise ConfigError for what the kind does not have, and for what it lacks."""
    kind = spec.kind
    has = {
        "an API": (bool(spec.apis), REQUEST_KINDS),
        "a client": (spec.client is not None, REQUEST_KINDS),
        "senders": (spec.senders != CLIENTS, REQUEST_KINDS),
        "a topic": (spec.topic is not None, (*REQUEST_KINDS, *DISK_KINDS)),
        "a rate": (spec.rate != 1, (*REQUEST_KINDS, *DISK_KINDS)),
        "a delay": (spec.delay_ms != 0, (DELAY, SLOW_DISK)),
        "an error": (bool(spec.error), (ERROR,)),
        "after": (spec.after, (CUT,)),
        "a skew": (spec.skew_ms != 0, (CLOCK_SKEW,)),
    }
    for what, (is_there, kinds) in has.items():
        if is_there and kind not in kinds:
            raise ConfigError(f"The fault {kind} takes no {what.removeprefix('an ').removeprefix('a ')}")
    for what, option in (("a delay", "--delay or delay_ms"), ("an error", "--error"), ("a skew", "--skew or skew_ms")):
        is_there, kinds = has[what]
        if kind in kinds and not is_there:
            raise ConfigError(f"The fault {kind} needs {what} ({option})")
    if spec.topic == "":
        raise ConfigError("The topic is empty; '*' stands for all topics")
    if spec.delay_ms < 0:
        raise ConfigError("The delay is negative")


def _check_error(spec: FaultSpec) -> None:
    if spec.error not in ERROR_CODES:
        near = _similar(spec.error, list(ERROR_CODES)) or "; use a name of Kafka's protocol, such as UNKNOWN_TOPIC_ID"
        raise ConfigError(f"Kafka has no error '{spec.error}'{near}")
    if not spec.apis:
        raise ConfigError("The fault error needs an API, such as Produce")
    for name in spec.apis:
        if not has_error_code(API_KEYS[name]):
            raise ConfigError(f"The fault error does not know the responses of {name}; use drop or cut")


def _similar(word: str, words: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word.lower(), [one.lower() for one in words], 1)
    found = next((one for one in words if near and one.lower() == near[0]), None)
    return "" if found is None else f"; did you mean {found}?"
