"""`kt export` against `kt pipeline export`: a log directory to Parquet and to JSON files.

1 M records (KT_BENCH_RECORDS) with JSON values of 100 B in one partition, in batches of 16 KiB as of producers. Each
figure is a whole process, from its start to its end, the JVM included.
"""

from __future__ import annotations

import os
import pathlib
import shlex
import sys
import tempfile

from benchmarks.measure import Work, compare, report, run
from benchmarks.query import write_log

_RECORDS = int(os.environ.get("KT_BENCH_RECORDS", "1000000"))
_MEMORY_MIB = 300


def main() -> None:
    """Writes the log and reports the figures."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("KT_BENCH_DIR")) as directory:
        log = pathlib.Path(directory) / "orders-0"
        write_log(log, _RECORDS)
        for kind in ("parquet", "json"):
            target = f"{kind}:{directory}/{kind}"
            ours, peer = export(log, target, "export"), export(log, target, "pipeline", "export")
            peak = run(ours).peak_bytes >> 20
            report(
                f"kt export to {kind}, memory", ours_peak_mib=peak, limit_mib=_MEMORY_MIB, reached=peak < _MEMORY_MIB
            )
            if os.environ.get("JAVA_HOME"):
                name = f"kt export to {kind} from start to end"
                compare(name, ours, peer, "kt pipeline export", target=5, rounds=3, records=_RECORDS)


def export(log: pathlib.Path, target: str, *words: str) -> Work:
    """An export into a new directory."""
    command = shlex.join([sys.executable, "-m", "kafkatools", *words, f"log:{log}", "--to", target])
    return Work(["sh", "-c", f"rm -rf {shlex.quote(target.partition(':')[2])} && exec {command}"])


if __name__ == "__main__":
    main()
