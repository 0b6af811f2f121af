"""kt doctor: find out step by step why a cluster cannot be reached. Kafka has no such tool.

Tries DNS, TCP, TLS, ApiVersions and SASL on each address of --bootstrap-server. The first address that answers
describes the cluster. Then the same steps are tried on each advertised listener, since clients connect there next. Exit
status: 0 when everything answers, 3 when there are problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, client_settings, command_config

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkatools.console import Console
    from kafkatools.core.admin.cluster import ClusterDescription
    from kafkatools.core.config import Config
    from kafkatools.core.net.addresses import HostPort
    from kafkatools.core.net.diagnosis import Diagnosis

_TIMEOUT_MS = 10_000
_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt doctor. Returns FINDINGS when there are problems."""
    from kafkatools.core.config import ADMIN, Config

    settings = {"default.api.timeout.ms": str(_TIMEOUT_MS), "request.timeout.ms": str(_TIMEOUT_MS)}
    settings |= client_settings(args)
    settings["bootstrap.servers"] = console.connect(args)
    examination = _Examination(console, Config(ADMIN, settings, allow_unknown=True), bool(args.json))
    examination.run(settings)
    return examination.verdict()


class _Examination:
    """The steps of kt doctor and the problems found."""

    def __init__(self, console: Console, config: Config, as_json: bool) -> None:
        self._console = console
        self._config = config
        self._as_json = as_json
        self._findings: list[str] = []
        self._versions: dict[str, object] = {}

    def run(self, settings: dict[str, str]) -> None:
        from kafkatools.core.net.addresses import parse_bootstrap_servers

        servers = parse_bootstrap_servers(settings["bootstrap.servers"])
        diagnoses = {server: self._try("bootstrap", server) for server in servers}
        reachable = [server for server, diagnosis in diagnoses.items() if diagnosis.error is None]
        if not reachable:
            return
        description = self._describe_cluster(reachable[0], settings)
        if description is None:
            return
        self._examine_brokers(description, reachable, diagnoses)

    def _try(self, label: str, address: HostPort) -> Diagnosis:
        from kafkatools.core.net.diagnosis import diagnose

        diagnosis = diagnose(address, self._config, self._console.clock)
        self._show(label, diagnosis)
        if diagnosis.error is not None:
            self._findings.append(f"{label} {address}: {diagnosis.steps[-1].name}: {diagnosis.error}")
        elif diagnosis.versions is not None:
            self._versions[str(address)] = diagnosis.versions.ranges
        return diagnosis

    def _show(self, label: str, diagnosis: Diagnosis) -> None:
        if self._as_json:
            steps = [
                {"step": step.name, "ok": step.error is None, "detail": step.detail or None, "ms": step.took_ms,
                 "error": None if step.error is None else str(step.error)}
                for step in diagnosis.steps
            ]  # fmt: skip
            self._console.print_json(
                {"target": label, "address": str(diagnosis.address), "ok": diagnosis.error is None, "steps": steps}
            )
            return
        self._console.print(f"{label} {diagnosis.address}")
        for step in diagnosis.steps:
            word = "ok" if step.error is None else "FAILED"
            text = step.detail if step.error is None else str(step.error)
            self._console.print(f"  {step.name:<12}{word:<8}{step.took_ms:>5} ms  {text}".rstrip())
        self._console.flush()

    def _describe_cluster(self, server: HostPort, settings: dict[str, str]) -> ClusterDescription | None:
        """Describe the cluster through one server; None, with a finding, if that fails."""
        from kafkatools.core.admin.client import AdminClient
        from kafkatools.core.admin.cluster import describe_cluster
        from kafkatools.core.errors import KafkaError, UnsupportedVersion

        other_settings = {name: value for name, value in settings.items() if name != "bootstrap.servers"}
        try:
            with AdminClient(str(server), other_settings, self._console.clock) as admin:
                try:
                    return describe_cluster(admin, include_fenced_brokers=True)
                except UnsupportedVersion:
                    return describe_cluster(admin)
        except KafkaError as error:
            self._findings.append(f"{server} cannot describe the cluster: {error}")
            return None

    def _examine_brokers(
        self, description: ClusterDescription, reachable: list[HostPort], diagnoses: dict[HostPort, Diagnosis]
    ) -> None:
        from kafkatools.core.net.addresses import HostPort

        controller = description.controller_id
        fenced = description.fenced
        count = len(description.nodes) - len(fenced)
        if self._as_json:
            brokers = [
                {"id": node.id, "host": node.host, "port": node.port, "fenced": node.id in fenced}
                for node in description.nodes
            ]
            self._console.print_json(
                {"cluster_id": description.cluster_id, "controller": controller, "brokers": brokers}
            )
        else:
            plural = "broker" if count == 1 else "brokers"
            suffix = f" and {len(fenced)} fenced" if fenced else ""
            self._console.print(f"cluster {description.cluster_id}: {count} {plural}{suffix}, controller {controller}")
        if not count:
            self._findings.append("The cluster has no unfenced broker")
        for node in description.nodes:
            advertised = HostPort(node.host, node.port)
            diagnosis = diagnoses.get(advertised) or self._try(f"broker {node.id}", advertised)
            if node.id in fenced:
                self._findings.append(
                    f"broker {node.id} is fenced: the controller gets no heartbeat from it, so clients are not sent "
                    "there and partitions without another in-sync replica are offline"
                )
            elif diagnosis.error is not None:
                self._findings += _advice(node.id, advertised, reachable)
        kinds = {repr(sorted(ranges.items())) for ranges in self._versions.values()}  # type: ignore[attr-defined]
        if len(kinds) > 1:
            self._findings.append("The brokers support different API versions: an upgrade may be unfinished")

    def verdict(self) -> ExitStatus:
        """Print the problems found. Returns FINDINGS if there are any, else OK."""
        if self._as_json:
            self._console.print_json({"ok": not self._findings, "findings": self._findings})
        elif self._findings:
            count = len(self._findings)
            self._console.print(f"Found {count} problem{'s' * (count != 1)}:")
            for finding in self._findings:
                self._console.print(f"  {finding}")
        else:
            self._console.print("No problems found.")
        return ExitStatus.FINDINGS if self._findings else ExitStatus.OK


def _advice(broker: int, advertised: HostPort, reachable: Iterable[HostPort]) -> list[str]:
    """Return the likely cause of an advertised address that does not answer."""
    if advertised.host.startswith(_LOOPBACK) and not any(address.host.startswith(_LOOPBACK) for address in reachable):
        return [
            f"broker {broker} advertises {advertised}, which on a client is the client's own machine: set "
            "advertised.listeners to an address that clients can reach"
        ]
    first = next(iter(reachable))
    return [
        f"broker {broker} advertises {advertised}, where a step failed, although {first} works: check "
        "advertised.listeners, DNS and firewalls"
    ]


COMMAND = Command(
    "doctor",
    "Diagnose step by step why a cluster cannot be reached.",
    (BOOTSTRAP_SERVER, command_config()),
    run,
    needs_arguments=False,
    examples=(
        "kt doctor --bootstrap-server broker1:9092",
        "kt doctor --bootstrap-server broker1:9093 --command-config tls.properties",
        "kt --profile prod doctor --json",
    ),
)
