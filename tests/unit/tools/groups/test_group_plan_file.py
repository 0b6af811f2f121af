"""Files of offsets: what is read, what is refused with its line and column, what is written."""

import pathlib
import sys

import pytest

from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.exit_status import CommandError
from kafkatools.tools.groups.plan_file import csv_line, read_plan, undo_lines
from kafkatools.tools.undo_files import write_new_file

TRAILING_COMMA = (  # the words and the place are the standard library's
    "column 13: Illegal trailing comma before end of object"
    if sys.version_info >= (3, 13)
    else "column 14: Expecting property name enclosed in double quotes"
)


def _plan(tmp_path: pathlib.Path, text: str | bytes, groups: list[str] | None) -> list[tuple[object, ...]]:
    path = tmp_path / "plan"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return [tuple(line)[1:] for line in read_plan(str(path), groups).lines]


def _complaints(tmp_path: pathlib.Path, text: str | bytes, groups: list[str] | None) -> list[str]:
    with pytest.raises(CommandError) as refused:
        _plan(tmp_path, text, groups)
    lines = [str(refused.value), *refused.value.hint.split("\n")]
    return [line.replace(str(tmp_path / "plan"), "plan") for line in lines if line]


def test_lines_without_and_with_a_group(tmp_path: pathlib.Path) -> None:
    assert _plan(tmp_path, "orders,0,2\norders, 1 ,none\r\n\n", ["g"]) == [
        ("g", "orders", 0, 2, -1, ""),
        ("g", "orders", 1, None, -1, ""),
    ]
    assert _plan(tmp_path, 'a,t,0,1\n"b ""2""","t,t",0,9223372036854775807\n', None) == [
        ("a", "t", 0, 1, -1, ""),
        ('b "2"', "t,t", 0, 2**63 - 1, -1, ""),
    ]


def test_a_group_with_braces_is_no_json(tmp_path: pathlib.Path) -> None:
    for group in ("{env}-shop", "{}", '{"a"}', "{ b"):
        text = "".join(undo_lines("before.csv", {group: {("t", 0): OffsetAndMetadata(5)}}))
        assert _plan(tmp_path, text, None) == [(group, "t", 0, 5, -1, "")]


def test_lines_of_json(tmp_path: pathlib.Path) -> None:
    text = (
        '{"group":"a","topic":"t","partition":0,"offset":5,"leader_epoch":3,"metadata":"m","more":1}\n'
        '{"topic":"t","partition":1,"offset":null}\n'
    )
    assert _plan(tmp_path, text, ["a"]) == [("a", "t", 0, 5, 3, "m"), ("a", "t", 1, None, -1, "")]


@pytest.mark.parametrize(
    ("text", "groups", "expected"),
    [
        ("t,0,1\n" * 1 + "t,1,1\nt,2,1\nt,3,1\nt,4,1\nt,5,1\nt,six,1\n", ["g"],
         ["plan, line 7, column 2: partition 'six' is not a number"]),
        ("t,0,1\nt,1,-5\n,2,1\n", ["g"], [
            "plan, line 2, column 3: offset '-5' is not a number or none",
            "plan, line 3, column 1: the topic is missing",
        ]),
        ("g,t,0,1_0\n", None, ["plan, line 1, column 4: offset '1_0' is not a number or none"]),
        ("t,0,9223372036854775808\n", ["g"],
         ["plan, line 1, column 3: offset '9223372036854775808' is not a number or none"]),
        ("t,0,1\ng,t,1,1\n", ["g"], ["plan, line 2: 4 columns, but earlier lines have 3"]),
        ("hello\n", ["g"],
         ["plan, line 1: 1 columns; topic,partition,offset or group,topic,partition,offset is expected"]),
        ("t,0,1\n", ["g", "h"], ["plan, line 1: a line without a group requires exactly one --group"]),
        ("g,t,0,1\nx,t,0,1\n", ["g"], ["plan, line 2: group x is not among the requested groups"]),
        ("t,0,1\nt,1,1\nt,0,2\n", ["g"], ["plan, line 3: t-0 of group g is already in line 1"]),
        ("\n\n", ["g"], ["plan holds no offsets"]),
        (b"t,0,1\n\xff,0,1\n", ["g"], ["plan is not UTF-8 (byte 6)"]),
        ('{"topic":"t","partition":0,"offset":1}\n{"topic":"t","partition":1}\n', ["g"],
         ["plan, line 2: offset is missing"]),
        ('{"topic":"t","partition":0,"offset":1}\n{"topic":"t",}\n', ["g"],
         [f"plan, line 2, {TRAILING_COMMA}"]),
        ('{"topic":"t","partition":true,"offset":1}\n', ["g"], ["plan, line 1: partition True is not a number"]),
        ('{"topic":"t","partition":0,"offset":"1"}\n', ["g"], ["plan, line 1: offset '1' is not a number or null"]),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(
    tmp_path: pathlib.Path, text: str | bytes, groups: list[str] | None, expected: list[str]
) -> None:
    assert _complaints(tmp_path, text, groups) == expected


def test_of_many_mistakes_the_first_twenty_are_named(tmp_path: pathlib.Path) -> None:
    found = _complaints(tmp_path, "t,x,1\n" * 25, ["g"])
    assert len(found) == 21
    assert found[-1] == "and 5 more"


@pytest.mark.parametrize(
    ("group", "topic", "expected"),
    [
        (None, "orders", "orders,0,5"),
        ("g 1", "abcdefghijklmnopqrstuvwx", '"g 1",abcdefghijklmnopqrstuvwx,0,5'),
        ('q"x', "abcdefghijklmnopqrstuvwxy", '"q""x","abcdefghijklmnopqrstuvwxy",0,5'),
        ("ümlaut", "a.b_c-d", "ümlaut,a.b_c-d,0,5"),
        ("g'x", "t", '"g\'x",t,0,5'),
    ],
)
def test_csv_is_quoted_as_recorded_from_apache_kafka(group: str | None, topic: str, expected: str) -> None:
    assert csv_line(group, (topic, 0), 5) == expected


@pytest.mark.parametrize("name", ["undo.csv", "undo.jsonl"])
def test_an_undo_file_is_read_back(tmp_path: pathlib.Path, name: str) -> None:
    before = {"g,1": {("t", 1): None, ("t", 0): OffsetAndMetadata(7, 2, 'an "m"\n')}, "h": {("u", 0): None}}
    path = tmp_path / name
    write_new_file(str(path), undo_lines(str(path), before))
    epoch, text = (2, 'an "m"\n') if name.endswith("l") else (-1, "")
    assert [tuple(line)[1:] for line in read_plan(str(path), None).lines] == [
        ("g,1", "t", 0, 7, epoch, text),
        ("g,1", "t", 1, None, -1, ""),
        ("h", "u", 0, None, -1, ""),
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_an_undo_file_is_never_overwritten(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "undo.csv"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        write_new_file(str(path), undo_lines(str(path), {"g": {("t", 0): None}}))
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_every_key_of_an_undo_file(tmp_path: pathlib.Path) -> None:
    before = {"a": {("t", 1): None, ("t", 0): OffsetAndMetadata(5, 3, "m")}, "b": {("u", 0): OffsetAndMetadata(7)}}
    path = tmp_path / "undo.jsonl"
    write_new_file(str(path), undo_lines(str(path), before))
    assert path.read_text().splitlines() == [
        '{"group":"a","topic":"t","partition":0,"offset":5,"leader_epoch":3,"metadata":"m"}',
        '{"group":"a","topic":"t","partition":1,"offset":null,"leader_epoch":null,"metadata":null}',
        '{"group":"b","topic":"u","partition":0,"offset":7,"leader_epoch":null,"metadata":""}',
    ]
    path = tmp_path / "undo.csv"
    write_new_file(str(path), undo_lines(str(path), before))
    assert path.read_text().splitlines() == ["a,t,0,5", "a,t,1,none", "b,u,0,7"]
