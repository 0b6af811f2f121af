"""Run kt backup verify and print each damage."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args, client_settings
from kafkatools.output import counted
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.backup.verify import Damage, Verifier, compare_with_cluster
from kafkatools.tools.copying.client_cluster import ClientCluster
from kafkatools.tools.monitor.figures import size as size_text

_CLIENT_ID = "kt-backup"


def run_verify(console: Console, args: Args, url: str) -> ExitStatus:
    """Run kt backup verify, as its `run` says."""
    store = open_store(url)
    verifier = Verifier(store, args.generation)
    state = verifier.state
    label = f"Verifying {store.url}"
    with console.progress(label, verifier.total_bytes, measure=lambda: state.bytes, is_bytes=True):
        for damage in verifier.run():
            console.print(f"Damaged: {damage}", _row(damage))
    differences = None
    if args.against is not None and state.newest is not None:
        differences = 0
        cluster = ClientCluster(args.against, client_settings(args), _CLIENT_ID)
        with cluster.admin(console.clock) as admin:
            for item in compare_with_cluster(admin, state.newest):
                differences += 1
                row = {"kind": "difference", **item._asdict()}
                console.print(f"Different: {item.topic}-{item.partition}: {item.reason}", row)
    count = len(state.damages)
    console.print(
        f"{counted(len(state.generations), 'generation')}, {counted(state.objects, 'object')}, "
        f"{size_text(state.bytes)}: " + ("no damage" if not count else f"{count} damaged"),
        {
            "kind": "total",
            "url": store.url,
            "generations": len(state.generations),
            "objects": state.objects,
            "bytes": state.bytes,
            "damages": count,
            "differences": differences,
        },
    )
    return ExitStatus.FINDINGS if count or differences else ExitStatus.OK


def _row(damage: Damage) -> dict[str, object]:
    return {"kind": "damage", **damage._asdict()}
