"""The process of official_spark: functions come as JSON lines on stdin, their results go to stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from kafkatools.pipeline.run.session import own_python


def answer(spark: Any, line: str) -> dict[str, Any]:
    """Runs what a line asks for."""
    request = json.loads(line)
    names: dict[str, Any] = {}
    try:
        exec("from __future__ import annotations\nfrom typing import Any\n" + request["source"], names)
        return {"result": names[request["name"]](spark, **request["arguments"])}
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Serves until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else may write between the answers
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("official")
    settings = json.loads(sys.argv[1])
    for name, value in settings.items():
        builder = builder.config(name, value)
    with own_python(settings["spark.master"]):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(answer(spark, line)), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
