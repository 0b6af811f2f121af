"""The pages of docs/python that are made from the code: what is exported, with its signatures and docstrings.

`docs/generate.py` writes them; a test fails when one is stale.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_overloads

import kafkatools
from kafkatools import aio, errors
from kafkatools.core.admin import (
    cluster,
    configs,
    delegation_tokens,
    features,
    groups,
    log_dirs,
    offsets,
    quotas,
    reassignments,
    share_groups,
    topics,
    transactions,
)
from kafkatools.core.consumer.offset_fetcher import OffsetAndTimestamp
from kafkatools.core.producer.futures import RowsRun

CLIENTS = ("Producer", "Consumer", "ShareConsumer", "Admin", "EmbeddedBroker", "EmbeddedCluster")
RESULTS = (
    RowsRun,
    OffsetAndTimestamp,
    topics.TopicListing,
    topics.TopicDescription,
    topics.PartitionDescription,
    topics.CreatedTopic,
    configs.ConfigEntry,
    configs.ConfigSynonym,
    offsets.PartitionOffset,
    groups.GroupListing,
    groups.GroupDescription,
    groups.MemberDescription,
    transactions.TransactionListing,
    transactions.TransactionDescription,
    transactions.ProducerState,
    transactions.OpenTransaction,
    reassignments.PartitionReassignment,
    reassignments.Replica,
    reassignments.ReplicaLogDir,
    log_dirs.LogDir,
    log_dirs.ReplicaInfo,
    share_groups.ShareOffset,
    quotas.EntityQuotas,
    delegation_tokens.DelegationToken,
    features.Features,
    features.FeatureLevels,
    cluster.ClusterDescription,
)
# Taken by tests and by the commands, not by callers.
_HIDDEN_METHODS = {
    "poll_further",
    "give_back",
    "poll_assignment",
    "chain",
    "add",
    "metadata",
    "sender",
    "known_partitions",
}
_HIDDEN_PARAMETERS = ("clock", "parts", "start_thread", "client")


def pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    return {"reference.md": reference(), "asyncio.md": asyncio_reference(), "errors.md": error_table()}


def reference() -> str:
    """Classes and methods."""
    lines = [
        "# Reference of the Python API",
        "",
        "The guide is [python.md](../python.md).",
        "Made from the docstrings by `make docs`.",
        "",
    ]
    others = [name for name in kafkatools.__all__ if name not in (*CLIENTS, "errors", "KafkaError")]
    for name in (*CLIENTS, *others):
        lines += _class(getattr(kafkatools, name))
    lines += ["## What calls return", ""]
    for made in RESULTS:
        lines += [f"### {made.__name__}{_fields(made)}", "", _text(made), ""]
    return "\n".join(lines)


def asyncio_reference() -> str:
    """The clients for asyncio."""
    lines = [
        "# Reference of `kafkatools.aio`",
        "",
        "The guide is [asyncio.md](../asyncio.md); records and results are those of the [Python API](reference.md).",
        "Made from the docstrings by `make docs`.",
        "",
    ]
    for name in aio.__all__:
        lines += _class(getattr(aio, name))
    return "\n".join(lines)


def error_table() -> str:
    """Every exception."""
    lines = [
        "# Errors: `kafkatools.errors`",
        "",
        "All are subclasses of `kafkatools.KafkaError`, except `PipelineError`, which `kafkatools.scan` raises.",
        "A code is that of Kafka's protocol; errors without one are raised by the client only.",
        "Made from the classes by `make docs`.",
        "",
        "| Class | Code | May succeed later | What it is |",
        "| --- | --- | --- | --- |",
    ]
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, errors.KafkaError)]
    for error in sorted(found, key=lambda one: one.__name__):
        code = error.code if errors.known_codes().get(error.code) is error else ""
        about = " ".join((error.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")
        lines.append(f"| `{error.__name__}` | {code} | {'yes' if error.retriable else ''} | {about} |")
    return "\n".join([*lines, ""])


def _class(found: type[Any]) -> Iterator[str]:
    yield from (f"## {found.__name__}", "")
    if inspect.isfunction(found):
        yield from (f"`{found.__name__}{_signature(found)}`", "", _text(found), "")
        return
    if _is_tuple(found):
        yield from (f"`{found.__name__}{_fields(found)}`", "")
    elif inspect.isfunction(found.__init__) and not issubclass(found, Exception):
        yield from (f"`{found.__name__}{_signature(found.__init__)}`", "")
    yield from (_text(found), "")
    for name, member in _members(found):
        if isinstance(member, property):
            yield from (f"- **`{name}`**", f"  {_text(member, '  ')}")
        else:
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            for form in get_overloads(function) or [function]:
                awaited = "await " if inspect.iscoroutinefunction(function) else ""
                yield from (f"- **`{awaited}{name}{_signature(form)}`**", "")
            yield f"  {_text(function, '  ')}"
        yield ""


def _members(found: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties with a docstring, in the order of the source, inherited ones of ours last."""
    seen = set(_HIDDEN_METHODS)
    for owner in found.__mro__:
        if not owner.__module__.startswith("kafkatools"):
            continue
        for name, described in vars(owner).items():
            member = inspect.unwrap(described) if callable(described) else described
            is_ours = inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod)
            if is_ours and not name.startswith("_") and name not in seen and inspect.getdoc(member):
                seen.add(name)
                yield name, member


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    kept = [one for name, one in signature.parameters.items() if name not in ("self", "cls", *_HIDDEN_PARAMETERS)]
    text = str(signature.replace(parameters=kept)).removesuffix(" -> 'None'")
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _is_tuple(found: type[Any]) -> bool:
    return issubclass(found, tuple)


def _fields(found: Any) -> str:
    return f"({', '.join(found._fields)})"


def _text(documented: Any, indent: str = "") -> str:
    return (inspect.getdoc(documented) or "").replace("\n", f"\n{indent}").replace(f"\n{indent}\n", "\n\n")
