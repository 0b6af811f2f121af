"""kt apply --from-cluster: print the state of a cluster as a file for kt apply."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.core.admin.acls import UNKNOWN
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.errors import SecurityDisabled, UnsupportedVersion
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.declared.model import ACLS, QUOTAS, TOPICS, USERS
from kafkatools.tools.declared.present import Present, read_present
from kafkatools.tools.declared.writing import file_lines, tree_of


def print_cluster(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print the file. What cannot be in it is named on stderr. Raises KafkaError."""
    present = read_present(admin, (TOPICS,))
    for kind in (ACLS, QUOTAS, USERS):
        try:
            part = read_present(admin, (kind,))
        except (SecurityDisabled, UnsupportedVersion) as error:
            console.note(f"The file has no {kind}: {error}")
            continue
        present.acls, present.quotas = present.acls or part.acls, present.quotas or part.quotas
        present.users = present.users or part.users
    _note_omissions(console, present)
    tree = tree_of(present)
    if console.is_json:
        console.print_json(tree)
        return ExitStatus.OK
    for line in file_lines(tree, args.format):
        console.print(line)
    return ExitStatus.OK


def _note_omissions(console: Console, present: Present) -> None:
    if not present.is_replication_known:
        console.note("The file has no replication: no broker listed the reassignments in progress in time.")
    for topic in present.topics.values():
        if len(topic.replication) > 1 and not topic.is_internal:
            counts = ", ".join(map(str, sorted(topic.replication)))
            console.note(f"Topic {topic.name} has no replication in the file: its partitions have {counts} replicas.")
    unknown = sum(UNKNOWN in (acl.resource_type, acl.operation, acl.permission) for acl in present.acls)
    if unknown:
        console.note(f"{unknown} ACLs are not in the file: they are of a later version of Kafka.")
    present.acls = [acl for acl in present.acls if UNKNOWN not in (acl.resource_type, acl.operation, acl.permission)]
    if present.users:
        console.note("The file has no passwords: brokers do not reveal them.")
