"""Values that are meant to be JSON, as Spark's parser takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkatools.pipeline.decoding import formats as decoding
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.spec import Decoding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_bytes_that_are_no_object_are_null_and_bad(spark: SparkSession) -> None:
    values = [b'{"a":1}', b"{}", None, b"", b" \t\r\n", b"null", b"[]", b"5", b"{", b"\xff", b'{"a":"text"}']
    values += [b'{"a":1} trailing', b'{"a":1}{"a":2}', b'{"a":1},{"a":2}', b'{"a":1},"b":2', b' {"a":1}\n']
    table = spark.createDataFrame(list(enumerate(values)), "offset int, value binary")
    plan = decoding.plan_decoding(spark, "value", Decoding("json"), lambda _: [b'{"a":1}'], None)
    rows = decoding.decode(table, plan, strict=False).orderBy("offset").collect()
    assert [None if row.value is None else row.value.a for row in rows] == [1, *[None] * 14, 1]
    assert [row.value is None for row in rows] == [False, False, *[True] * 13, False]
    assert [row[plan.bad_column] for row in rows] == [False, False, False, *[True] * 12, False]


def test_fields_that_differ_only_in_case_are_told_with_the_way_out(spark: SparkSession) -> None:
    words = r"have the fields ID and id, which differ only in case: set --conf spark\.sql\.caseSensitive=true"
    with pytest.raises(PipelineError, match=words):
        decoding.plan_decoding(spark, "value", Decoding("json"), lambda _: [b'{"id":1,"ID":2}'], None)
