"""`python -m benchmarks [WORKLOAD]...`: every workload, or those named (see WORKLOADS)."""

from __future__ import annotations

import importlib
import sys

WORKLOADS = (
    "startup",
    "testing",
    "codec",
    "dump_log",
    "console",
    "find",
    "schemas",
    "transactions",
    "arrow",
    "broker",
    "fetch",
    "clients",
    "aio",
    "scale",
    "monitor_page",
    "groups",
    "perf_tools",
    "memory",
    "admin",
    "apply",
    "monitor",
    "cluster",
    "balance",
    "pipeline_jobs",
    "pipeline_jobs_here",
    "pipeline_sink",
    "pipeline_live",
    "pipeline_start",
    "pipeline_scan",
    "pipeline_headers",
    "pipeline_plan",
    "query",
    "backup",
    "export",
)


def main(names: list[str]) -> None:
    """Runs the workloads in turn."""
    unknown = sorted(set(names) - set(WORKLOADS))
    if unknown:
        raise SystemExit(f"benchmarks: no workload {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    for name in names or WORKLOADS:
        importlib.import_module(f"benchmarks.{name}").main()


main(sys.argv[1:])
