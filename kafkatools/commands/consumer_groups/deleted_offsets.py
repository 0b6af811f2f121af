"""--delete-offsets of kt consumer-groups and kt streams-groups: the requests and their output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkatools.commands.consumer_groups.session import Session
from kafkatools.core.admin.group_offsets import TopicPartition, delete_offsets
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.exceptions import exception_class
from kafkatools.exit_status import ExitStatus

GROUP_ERRORS = ("INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", "GROUP_AUTHORIZATION_FAILED", "NON_EMPTY_GROUP")


def complain_of_topics(session: Session, group_id: str, errors: Mapping[str, KafkaError]) -> None:
    """Print the errors of topics that cannot be described."""
    for topic, error in errors.items():
        session.complain(f"Error: topic {topic}: {error}", error.name, group=group_id, topic=topic)


def delete_committed(
    session: Session,
    group_id: str,
    partitions: Sequence[TopicPartition],
    topic_errors: Mapping[str, KafkaError],
    unknown_error: Callable[[KafkaError], object],
) -> ExitStatus:
    """Delete the committed offsets of partitions and print the outcome of each, and the errors of topics that cannot be
    described. `unknown_error` returns the text of a group's error that is none of GROUP_ERRORS.

    Returns FAILED if one failed. Raises KafkaError if the request as a whole fails.
    """
    outcome: dict[TopicPartition, KafkaError | None] = {(topic, -1): error for topic, error in topic_errors.items()}
    result = delete_offsets(session.admin, group_id, partitions)
    for key in partitions:
        outcome[key] = result.error or result.errors.get(key)
    if session.args.json:
        _print_json(session, group_id, outcome)
    else:
        console, error = session.console, result.error
        if error is not None and error.name in GROUP_ERRORS:
            console.error(f"Error: {error}")
        elif error is not None:
            console.error(f"Error: Encountered some unknown error: {unknown_error(error)}")
        elif result.errors:
            console.error("Error: Encountered some partition-level error, see the follow-up details.")
        else:
            console.print(f"Request succeeded for deleting offsets from group {group_id}.")
        _print_table(session, outcome)
    return ExitStatus.FAILED if result.error is not None or any(outcome.values()) else ExitStatus.OK


def _print_table(session: Session, outcome: Mapping[TopicPartition, KafkaError | None]) -> None:
    console = session.console
    line = f"%-{max([15, *(len(topic) for topic, _ in outcome)])}s %-10s %-15s"
    console.print()
    console.print(line % ("TOPIC", "PARTITION", "STATUS"))
    for (topic, partition), problem in sorted(outcome.items(), key=lambda item: f"{item[0][0]}{item[0][1]}"):
        status = "Successful" if problem is None else f"Error: {exception_class(problem)}: {problem}"
        console.print(line % (topic, partition if partition >= 0 else "-", status))
        if partition < 0:
            console.error(f"Error: topic {topic}: {problem}")


def _print_json(session: Session, group_id: str, outcome: Mapping[TopicPartition, KafkaError | None]) -> None:
    for (topic, partition), problem in sorted(outcome.items()):
        place = {"group": group_id, "topic": topic, "partition": partition if partition >= 0 else None}
        error = None if problem is None else str(problem)
        session.print_json({**place, "deleted": problem is None, "error": error})
