"""Start a Python worker of Spark: `worker_start.py PATHS -m pyspark.daemon MODULE`, run as a script by Spark's JVM.

Spark puts PySpark on PYTHONPATH as a zip without compiled modules, with py4j's zip and a jar beside it. Each daemon
compiles what it imports from the zip, and each task reads the directories of the archives again
(`importlib.invalidate_caches`). So PySpark is imported from `PATHS`, where the driver found it. The modules of a task
are imported before the daemon forks its workers, which then share them, and are exempt from the garbage collection
after each task.

Rules: nothing of this package is imported before the path is set, since the script may run without it.
"""

import os
import sys

TASKS = "pyspark.worker"
_ARCHIVES = ("pyspark.zip", "py4j-", "spark-core_")
_PRELOADED = ("numpy", "pyarrow", "kafkatools.pipeline.sources.log.source")


def worker_path(path: list[str], places: list[str]) -> list[str]:
    """Return a module search path with `places` instead of the archives that Spark adds."""
    others = [place for place in path if not _is_archive(place)]
    return [*others[:1], *(place for place in places if place not in others), *others[1:]]


def _is_archive(place: str) -> bool:
    return place.endswith((".zip", ".jar")) and os.path.basename(place).startswith(_ARCHIVES)


def main(places: list[str], arguments: list[str]) -> None:
    """Run a module as `python -m` would, with the modules that a worker of its kind needs."""
    directory = [] if sys.flags.safe_path else [os.getcwd()]
    sys.path[:] = worker_path([*directory, *sys.path[len(directory) :]], places)
    for place in [*sys.path_importer_cache]:
        if _is_archive(place):
            del sys.path_importer_cache[place]
    import gc
    import importlib
    import runpy

    module, *rest = arguments
    for name in (*rest[:1], *(_PRELOADED if rest[:1] == [TASKS] else ())):
        try:
            importlib.import_module(name)
        except ImportError:  # the worker names what it lacks
            continue
    gc.collect()
    gc.freeze()
    sys.argv = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1].split(os.pathsep), sys.argv[3:])
