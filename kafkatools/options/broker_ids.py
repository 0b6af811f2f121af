"""Parse the broker ids of options."""

from __future__ import annotations

from kafkatools.exit_status import UsageError
from kafkatools.java_numbers import java_int

BROKER_LIST_FORM = "--broker-list takes broker ids separated by commas, such as 1,2,3."


def broker_id(text: str, form: str) -> int:
    """Parse a broker id. Raises UsageError with Kafka's words, and as hint the form of the option's value."""
    try:
        return java_int(text)
    except ValueError:
        raise UsageError(f'For input string: "{text}"', form) from None
