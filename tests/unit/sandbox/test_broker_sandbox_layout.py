"""Where the nodes of a sandbox of several are to live, and which directories they refuse."""

import json
import pathlib
import socket

import pytest

from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_meta_properties
from kafkatools.sandbox import layout as layouts
from kafkatools.sandbox.cluster import ClusterOptions, plan_cluster
from kafkatools.sandbox.layout import ClusterLayout, node_settings
from kafkatools.sandbox.spawn import SandboxError


def planned(home: pathlib.Path, size: int = 3, **options: object) -> ClusterLayout:
    return plan_cluster(str(home), ClusterOptions(size, **{"port": 0, **options}))  # type: ignore[arg-type]


def formatted(home: pathlib.Path, size: int = 3, **options: object) -> ClusterLayout:
    layout = planned(home, size, **options)
    layouts.mark(layout)
    for place in layout.places:
        layouts.format_node(layout, place, 0)
    return layout


def test_every_node_is_a_voter_of_one_quorum_with_ports_of_its_own(tmp_path: pathlib.Path) -> None:
    layout = planned(tmp_path, racks=["a", "b"], settings={"num.partitions": "4"})
    base = layout.places[0].port
    assert [(place.port, place.controller_port) for place in layout.places] == [
        (base + 10 * index, base + 10 * index + 1) for index in range(3)
    ]
    second = node_settings(layout, layout.places[1])
    assert second["controller.quorum.voters"] == (
        f"1@127.0.0.1:{base + 1},2@127.0.0.1:{base + 11},3@127.0.0.1:{base + 21}"
    )
    assert second["listeners"] == f"PLAINTEXT://127.0.0.1:{base + 10},CONTROLLER://127.0.0.1:{base + 11}"
    assert second["log.dirs"] == str(tmp_path / "sandbox" / "nodes" / "2" / "data")
    assert (second["process.roles"], second["node.id"], second["num.partitions"]) == ("broker,controller", "2", "4")
    assert [node_settings(layout, place)["broker.rack"] for place in layout.places] == ["a", "b", "a"]


@pytest.mark.parametrize(("size", "copies", "least"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_have_as_many_replicas_as_there_can_be(
    tmp_path: pathlib.Path, size: int, copies: str, least: str
) -> None:
    layout = planned(tmp_path, size)
    settings = node_settings(layout, layout.places[0])
    assert settings["offsets.topic.replication.factor"] == copies
    assert settings["transaction.state.log.replication.factor"] == copies
    assert settings["share.coordinator.state.topic.replication.factor"] == copies
    assert settings["transaction.state.log.min.isr"] == least
    assert settings["share.coordinator.state.topic.min.isr"] == least
    assert "min.insync.replicas" not in settings


def test_what_was_asked_for_comes_before_the_defaults(tmp_path: pathlib.Path) -> None:
    layout = planned(tmp_path, settings={"offsets.topic.replication.factor": "1"})
    assert node_settings(layout, layout.places[0])["offsets.topic.replication.factor"] == "1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "A sandbox has 1 to 9 nodes, not 0"),
        ({"size": 10}, "A sandbox has 1 to 9 nodes, not 10"),
        ({"size": 2, "racks": ["a", "b", "c"]}, "3 racks for 2 nodes"),
        ({"settings": {"node.id": "7"}}, "node.id cannot be set: the sandbox sets it for each node"),
        ({"port": 65_520}, "3 nodes from port 65520 on need ports up to 65541, the highest port is 65535"),
        ({"port": -1}, "3 nodes from port -1 on need ports up to 20, the highest port is 65535"),
    ],
)
def test_what_cannot_be(tmp_path: pathlib.Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(SandboxError) as raised:
        planned(tmp_path, **options)  # type: ignore[arg-type]
    assert str(raised.value) == message
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_named_with_its_node(tmp_path: pathlib.Path) -> None:
    base = planned(tmp_path).places[0].port
    with socket.create_server(("127.0.0.1", base + 11)):
        with pytest.raises(SandboxError, match=rf"^Port {base + 11} \(node 2\) is in use$"):
            planned(tmp_path, port=base)
        assert base + 11 not in [place.controller_port for place in planned(tmp_path).places]


def test_the_usual_ports_give_way_to_free_ones(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = planned(tmp_path).places[0].port
    monkeypatch.setattr(layouts, "DEFAULT_PORT", base)
    assert planned(tmp_path, port=None).places[0].port == base
    with socket.create_server(("127.0.0.1", base + 20)):
        assert planned(tmp_path, port=None).places[0].port != base


def test_nodes_are_formatted_for_one_cluster_and_found_again(tmp_path: pathlib.Path) -> None:
    layout = formatted(tmp_path)
    files = RealFileSystem()
    found = [read_meta_properties(files, f"{place.directory}/meta.properties") for place in layout.places]
    assert [one["node.id"] for one in found] == ["1", "2", "3"]
    assert {one["cluster.id"] for one in found} == {layout.cluster_id}
    assert len({one["directory.id"] for one in found}) == 3
    assert planned(tmp_path).cluster_id == layout.cluster_id
    stored = json.loads(json.dumps(layout.to_json()))
    assert ClusterLayout.from_json(stored) == layout
    assert [*stored] == ["cluster_id", "root", "places", "settings", "idle_ms", "parent", "removes_home", "protocol"]
    keys = ["node_id", "port", "controller_port", "directory", "rack"]
    assert [[*place] for place in stored["places"]] == [keys] * 3


def test_a_directory_is_for_its_number_of_nodes_only(tmp_path: pathlib.Path) -> None:
    formatted(tmp_path, directory=str(tmp_path / "d"))
    with pytest.raises(SandboxError) as raised:
        planned(tmp_path, 5, directory=str(tmp_path / "d"))
    assert str(raised.value) == (
        f"{tmp_path}/d was formatted for 3 nodes, not for 5: take another directory, or --nodes 3"
    )


def test_nodes_of_two_clusters_do_not_meet(tmp_path: pathlib.Path) -> None:
    first = formatted(tmp_path, directory=str(tmp_path / "d"))
    other = formatted(tmp_path, directory=str(tmp_path / "e"))
    (tmp_path / "d" / "2").rename(tmp_path / "old")
    (tmp_path / "e" / "2").rename(tmp_path / "d" / "2")
    with pytest.raises(SandboxError) as raised:
        planned(tmp_path, directory=str(tmp_path / "d"))
    expected = f"{tmp_path}/d/2 was formatted for another cluster: {other.cluster_id}, not {first.cluster_id}"
    assert str(raised.value) == expected


def test_the_directory_of_another_node_is_refused(tmp_path: pathlib.Path) -> None:
    formatted(tmp_path, directory=str(tmp_path / "d"))
    (tmp_path / "d" / "1").rename(tmp_path / "first")
    (tmp_path / "d" / "3").rename(tmp_path / "d" / "1")
    with pytest.raises(SandboxError, match="d/1 is the data of node 3, not of node 1$"):
        planned(tmp_path, directory=str(tmp_path / "d"))


def test_the_directory_of_one_broker_is_refused(tmp_path: pathlib.Path) -> None:
    one = formatted(tmp_path, 1, directory=str(tmp_path / "d")).places[0].directory
    with pytest.raises(
        SandboxError, match=f"^{one} is the data of one broker: a cluster needs a directory of its own$"
    ):
        planned(tmp_path, directory=one)


def test_a_marker_that_says_nothing_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "cluster.json").write_text("[]")
    with pytest.raises(SandboxError, match=f"^{tmp_path}/cluster.json is damaged: it does not have the cluster id"):
        planned(tmp_path / "home", directory=str(tmp_path))


def test_an_unknown_node_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SandboxError, match="^There is no node 4: the nodes of the sandbox are 1 to 3$"):
        planned(tmp_path).place(4)
