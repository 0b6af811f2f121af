"""Which segments a path means: files, partitions, log directories, patterns, URLs; and what is refused, in one line."""

from __future__ import annotations

import json
import pathlib
import zipfile

import pytest
from support.recorded_logs import unpack_log

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.log.files import Selection, ensure_local_paths_exist, find_log_files, paths_of

SEGMENT = f"{0:020}.log"


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log directory with what may lie in one."""
    recorded = unpack_log("broker-root", tmp_path / "recorded")
    root = recorded.rename(tmp_path / "root")
    for name in ("my-topic.with-dashes-0", "my-topic.with-dashes-12", "__consumer_offsets-3", "__cluster_metadata-0"):
        (root / name).mkdir()
        (root / name / SEGMENT).write_bytes(b"x" * 5)
    for name in (
        "gone-0.5f1a2b3c4d5e6f708192a3b4c5d6e7f8-delete",
        "moved-1.5f1a2b3c4d5e6f708192a3b4c5d6e7f8-future",
        "lost-2.5f1a2b3c4d5e6f708192a3b4c5d6e7f8-stray",
        "no-segments-0",
        "lost+found",
    ):
        (root / name).mkdir()
        if name.startswith(("gone", "moved", "lost-")):
            (root / name / SEGMENT).write_bytes(b"y")
    beside = root / "my-topic.with-dashes-0"
    for name in (f"{9:020}.log", f"{9:020}.index", f"{9:020}.snapshot", f"{0:020}.txnindex", "partition.metadata"):
        (beside / name).write_bytes(b"z")
    for name in (f"{4:020}.log.deleted", f"{4:020}.log.cleaned", "notes.log", f"{7:020}.log.swap"):
        (beside / name).write_bytes(b"z")
    return root


def found(*args: object, **options: str) -> list[tuple[str, int, int]]:
    files = find_log_files(*args, Selection.from_options(options))  # type: ignore[arg-type]
    return [(file.topic, file.partition, file.base_offset) for file in files]


DASHES = [("my-topic.with-dashes", 0, 0), ("my-topic.with-dashes", 0, 9), ("my-topic.with-dashes", 12, 0)]
TRIO = [("trio", 0, 0), ("trio", 1, 0), ("trio", 2, 0)]


def test_a_log_directory_is_its_partitions(root: pathlib.Path) -> None:
    assert found(str(root)) == DASHES + TRIO
    assert found(f"{root}/") == DASHES + TRIO
    assert found(f"file://{root}") == DASHES + TRIO


def test_segments_know_their_neighbours(root: pathlib.Path) -> None:
    first, second = find_log_files(str(root / "my-topic.with-dashes-0"))
    assert (first.next_base_offset, second.next_base_offset) == (9, None)
    assert (first.size_bytes, second.size_bytes) == (5, 1)
    assert first.url == str(root / "my-topic.with-dashes-0" / SEGMENT)
    assert first.directory == str(root / "my-topic.with-dashes-0")
    assert first.suffixes >= {".txnindex"}
    assert second.suffixes == {".index", ".snapshot"}
    assert (first.read_beside(".txnindex"), first.read_beside(".index")) == (b"z", None)
    assert first.beside(".timeindex").endswith(f"my-topic.with-dashes-0/{0:020}.timeindex")


def test_files_and_partitions_by_themselves_and_together(root: pathlib.Path) -> None:
    one = str(root / "my-topic.with-dashes-0" / f"{9:020}.log")
    assert found(one) == DASHES[1:2]
    assert found(str(root / "trio-1")) == TRIO[1:2]
    assert found([one, str(root / "trio-1")]) == DASHES[1:2] + TRIO[1:2]
    assert found(f"{one}, {root}/trio-1") == DASHES[1:2] + TRIO[1:2]
    assert found(f"{one},{root}") == DASHES + TRIO, "nothing twice"
    (root / "a,b-0").mkdir()
    (root / "a,b-0" / SEGMENT).touch()
    assert found(str(root / "a,b-0")) == [("a,b", 0, 0)], "a comma may be part of a name"


def test_patterns(root: pathlib.Path) -> None:
    assert found(f"{root}/trio-[01]") == TRIO[:2]
    assert found(f"{root}/trio-?/*.log") == TRIO
    assert found(f"{root}/my*") == DASHES
    assert found(f"{root}/my-topic.with-dashes-0/*") == DASHES[:2], "what lies beside a segment is no segment"
    assert found(f"{root}/[gml]*-[012]*") == DASHES[:2] + DASHES[2:], "what is put aside is passed over"
    (root / "odd[1]-0").mkdir()
    (root / "odd[1]-0" / SEGMENT).touch()
    assert found(str(root / "odd[1]-0")) == [("odd[1]", 0, 0)]


def test_what_is_put_aside_is_read_when_it_is_named(root: pathlib.Path) -> None:
    for name, expected in (("gone-0", ("gone", 0)), ("moved-1", ("moved", 1)), ("lost-2", ("lost", 2))):
        (path,) = root.glob(f"{name}.*")
        assert found(str(path)) == [(*expected, 0)]
    (root.parent / "copy").mkdir()
    (root.parent / "copy" / SEGMENT).touch()
    assert found(str(root.parent / "copy")) == [("copy", 0, 0)]


def test_internal_topics_are_read_by_name(root: pathlib.Path) -> None:
    assert found(str(root / "__cluster_metadata-0")) == [("__cluster_metadata", 0, 0)]
    assert found(str(root), subscribe="__consumer_offsets, trio") == [("__consumer_offsets", 3, 0), *TRIO]
    assert found(str(root), subscribePattern="__.*|^trio$") == TRIO


def test_selections(root: pathlib.Path) -> None:
    assert found(str(root), subscribe="trio") == TRIO
    assert found(str(root), subscribepattern="my.topic.*") == DASHES
    assert found(str(root), subscribePattern="ri") == TRIO
    assert found(str(root), assign='{"trio": [2, 0], "my-topic.with-dashes": [12]}') == [*DASHES[2:], TRIO[0], TRIO[2]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"subscribe": "trio,nope"},
            "nope not found in .*; its topics are __cluster_metadata, __consumer_offsets, .*trio",
        ),
        ({"subscribe": " , "}, "subscribe names no topic: ','"),
        ({"assign": '{"trio": [7, 1]}'}, "trio-7 not found in"),
        ({"assign": "trio"}, "assign must be like {.*}, not"),
        ({"assign": '{"trio": 1}'}, "assign must be like {.*}, not"),
        ({"assign": '{"trio": [true]}'}, "assign must be like {.*}, not"),
        ({"assign": "[]"}, "assign must be like {.*}, not"),
        ({"assign": "{}"}, "assign must be like {.*}, not '{}'"),
        ({"subscribePattern": "^tri$"}, "No topic in .* matches .tri.; its topics are"),
        ({"subscribePattern": "("}, r"subscribePattern '\(' is not a valid regular expression: "),
        ({"subscribe": "trio", "assign": "{}"}, "The options assign and subscribe cannot be used together"),
    ],
)
def test_selections_that_cannot_be(options: dict[str, str], told: str, root: pathlib.Path) -> None:
    with pytest.raises(PipelineError, match=told) as raised:
        found(str(root), **options)
    assert "\n" not in str(raised.value)


def test_paths_that_cannot_be(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    cases = {
        str(tmp_path / "missing"): "missing does not exist",
        f"{root}/trio-0,{tmp_path}/missing": "missing does not exist",
        f"{tmp_path}/miss*": r"miss\* matches no segment and no directory",
        str(tmp_path / "empty"): "empty contains neither segments nor partition directories",
        str(tmp_path / "empty-0"): "empty-0 contains neither segments nor partition directories",
        str(root / "no-segments-0"): "no-segments-0 contains neither",
        str(
            root / "meta.properties"
        ): "meta.properties is not a segment: segments are named by their base offset and .log",
        str(root / "my-topic.with-dashes-0" / f"{9:020}.index"): "is not a segment",
        f"{root}/meta.properties/x": "does not exist",
        str(tmp_path / "loop"): "loop cannot be read: Too many levels of symbolic links",
        "/dev/null": "/dev/null is a pipe, a socket or a device; name a regular file or a directory",
        "": "The option path is empty",
        " ": "The option path is empty",
        "nothing-known://bucket/x": "nothing-known://bucket/x cannot be read: Protocol not known",
    }
    for path, told in cases.items():
        with pytest.raises(PipelineError, match=told) as raised:
            find_log_files(path)
        assert "\n" not in str(raised.value)


def test_what_may_not_be_read_is_named(
    root: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = str(root / "trio-1" / SEGMENT)
    monkeypatch.setattr("os.access", lambda path, mode: path != secret)  # root may read everything
    with pytest.raises(PipelineError, match="trio-1/0+.log cannot be read: Permission denied"):
        find_log_files(str(root))


def test_two_replicas_of_a_partition_are_refused(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other"
    (other / "trio-1").mkdir(parents=True)
    (other / "trio-1" / SEGMENT).touch()
    with pytest.raises(PipelineError, match=r"trio-1 is in both .*/root/trio-1 and .*/other/trio-1; name only one"):
        find_log_files([str(root), str(other)])
    assert found([str(root), str(other)], assign='{"trio": [0, 2]}') == [TRIO[0], TRIO[2]]


def test_deleted_records_are_told_by_the_checkpoint(root: pathlib.Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("0\n2\ntrio 1 7\nmy-topic.with-dashes 12 3\n")
    starts = {str(file.topic_partition): file.log_start_offset for file in find_log_files(str(root))}
    assert starts["trio-1"] == 7
    assert starts["my-topic.with-dashes-12"] == 3
    assert starts["trio-0"] == starts["my-topic.with-dashes-0"] == 0


@pytest.mark.parametrize("crash", ["nothing deleted", "one deleted", "all deleted", "not complete"])
def test_a_crash_while_the_cleaner_swaps_loses_and_doubles_nothing(crash: str, tmp_path: pathlib.Path) -> None:
    directory = unpack_log("multi-segment", tmp_path)
    sound = find_log_files(str(directory))
    first, second = (pathlib.Path(file.url) for file in sound[:2])
    swap = first.with_name(first.name + ".swap")
    swap.write_bytes(first.read_bytes() + second.read_bytes())
    first.with_name(f"{first.stem}.index.swap").write_bytes(b"i")
    if crash == "not complete":
        second.with_name(second.name + ".cleaned").touch()
        first.with_name(first.name + ".cleaned").touch()
    for path in {"one deleted": [first], "all deleted": [first, second]}.get(crash, []):
        path.rename(path.with_name(path.name + ".deleted"))
    files = find_log_files(str(directory))
    if crash == "not complete":
        assert [file.url for file in files] == [file.url for file in sound]
        return
    assert [file.base_offset for file in files] == [0, *[file.base_offset for file in sound[2:]]]
    assert files[0].url == str(swap)
    assert files[0].next_base_offset == sound[2].base_offset
    assert files[0].read_beside(".index") == b"i"
    assert files[1].read_beside(".index") == sound[2].read_beside(".index")


def test_urls_of_fsspec(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    with zipfile.ZipFile(tmp_path / "copy.zip", "w") as packed:
        for path in root.rglob("*"):
            if path.is_file():
                packed.write(path, f"logs/{path.relative_to(root)}")
    chained = f"zip://logs::file://{tmp_path}/copy.zip"
    assert found(chained) == DASHES + TRIO
    assert found(f"zip://logs/trio-[01]::file://{tmp_path}/copy.zip") == TRIO[:2]
    assert found(f"local://{root}") == DASHES + TRIO
    for file in find_log_files(chained, Selection(topics=frozenset({"trio"}))):
        local = root / f"trio-{file.partition}" / SEGMENT
        assert file.url == f"zip://logs/trio-{file.partition}/{SEGMENT}::file://{tmp_path}/copy.zip"
        assert file.size_bytes == local.stat().st_size
        with storage.open_segment(file.url) as segment:
            data = local.read_bytes()
            assert bytes(segment.view(0, segment.size)) == data
            assert bytes(segment.view(10, 20)) == data[10:30]
        assert file.read_beside(".index") == local.with_suffix(".index").read_bytes()
        assert file.read_beside(".txnindex") is None
    with pytest.raises(PipelineError, match="zip://absent::.* does not exist"):
        find_log_files(f"zip://absent::file://{tmp_path}/copy.zip")
    with pytest.raises(PipelineError, match="none.zip does not exist"):
        find_log_files(f"zip://logs::file://{tmp_path}/none.zip")


def test_without_fsspec_a_url_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(PipelineError, match="^s3://bucket/logs cannot be read: URLs need the package fsspec"):
        find_log_files("s3://bucket/logs")


def test_paths_come_from_the_options_of_a_read() -> None:
    assert paths_of({"path": "/a"}) == ["/a"]
    assert paths_of({"paths": json.dumps(["/a", "/b"])}) == ["/a", "/b"]
    with pytest.raises(PipelineError, match="The option path is missing"):
        paths_of({"subscribe": "x"})


def test_a_name_is_split_and_joined() -> None:
    for url in ("/a/b", "s3://bucket/b", "s3://bucket/a/b", "zip://a/b::file:///x.zip", "memory:///b"):
        parent, name = storage.split(url)
        assert name == "b"
        assert storage.join(parent, name) == url
    assert storage.local_path("file:///a%20b") == "/a b"
    assert storage.local_path("file://host/a") is None
    assert storage.normal("s3://b/x//") == "s3://b/x"
    assert TopicPartition("a", 0) in (Selection.from_options({"assign": '{"a": [0]}'}).partitions or ())


def test_local_paths_beside_urls_are_checked_and_urls_are_not(root: pathlib.Path) -> None:
    url, absent = "memory://absent/orders-0", str(root / "absent")
    for paths in (url, str(root), f"{root},{url}", f"{url},{root}", f"{url},{root}/*"):
        ensure_local_paths_exist(paths)
    for paths in (absent, f"{root},{absent}", f"{url},{absent}", f"{absent},{url}", f"{url}, {root} ,{absent}"):
        with pytest.raises(PipelineError, match=f"^{absent} does not exist$"):
            ensure_local_paths_exist(paths)


def test_a_path_and_a_url_are_read_together(root: pathlib.Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe(f"/beside-0/{0:020d}.log", b"")
    topics = [{file.topic for file in find_log_files(paths)} for paths in ("memory://beside-0", str(root))]
    for paths in (f"memory://beside-0,{root}", f"{root},memory://beside-0"):
        assert {file.topic for file in find_log_files(paths)} == topics[0] | topics[1]
