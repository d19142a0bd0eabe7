"""What mode mcs plans from the view of others and from our own cluster."""

from __future__ import annotations

from typing import Any

from clusters.model import (
    ChangeOp,
    Endpoint,
    ExportedService,
    LocalService,
    Port,
    SliceChange,
    Standing,
)
from replicator.planners import AdmittingPlanner, MulticlusterPlanner, SlicePlanner
from replicator.staleness import Seen
from tests.clusters.makers import CART, object_of
from tests.clusters.multicluster.bed import GRPC, Server, conditions, export

WEB = (Port("http", 8080),)
NOW_NS = 1_772_362_800_000_000_000


class Bed:
    """A planner of cluster ``fjord`` and an API server that its writes go to."""

    def __init__(self) -> None:
        self.server = Server()
        self.local = LocalService(CART)
        self.exports: dict[str, ExportedService] = {}
        self.view: dict[str, list[Endpoint]] = {}
        self.known: set[str] = {"mesa"}
        self.planner = MulticlusterPlanner(
            "fjord",
            lambda _: self.local,
            lambda _: self.exports,
            lambda: NOW_NS,
            lambda cluster: cluster in {"fjord", "mesa"},
        )

    def plan(self) -> list[SliceChange]:
        owned = list(self.server.objects.values())
        seen = Seen(self.view)
        return list(self.planner.plan(CART, seen, owned, self.known.__contains__, ""))

    def settle(self) -> None:
        for _ in range(6):
            for change in self.plan():
                self.server.apply(change)
        assert self.plan() == []

    def ours(self, **fields: Any) -> None:
        endpoints = (Endpoint("10.1.0.1", WEB),)
        self.local = LocalService(CART, endpoints, export(2, **fields), standing=Standing.VALID)

    def theirs(self, **fields: Any) -> None:
        self.exports["mesa"] = export(1, **fields)
        self.view["mesa"] = [Endpoint("10.2.0.1", WEB)]


def test_an_export_that_is_not_confirmed_makes_no_import_and_takes_none_away() -> None:
    bed = Bed()
    bed.theirs()
    unsure = Seen({}, held={"mesa"}, unconfirmed=frozenset({"mesa"}))

    def unconfirmed() -> list[SliceChange]:
        owned = list(bed.server.objects.values())
        return list(bed.planner.plan(CART, unsure, owned, lambda _: False, ""))

    assert unconfirmed() == []
    bed.server.objects["ServiceExport", "cart"] = object_of(
        "ServiceExport", "cart", metadata={"uid": "u", "resourceVersion": "1", "generation": 1}
    )
    bed.ours()
    bed.settle()
    assert sources(bed) == ["fjord", "mesa"]
    assert unconfirmed() == []
    bed.local = LocalService(CART)
    assert [change.name for change in unconfirmed() if "mesa" in change.name] == []


def test_c69_where_nothing_may_be_written_what_was_written_goes() -> None:
    bed = Bed()
    bed.ours()
    bed.theirs()
    bed.server.objects["ServiceExport", "cart"] = object_of(
        "ServiceExport", "cart", metadata={"uid": "u", "resourceVersion": "1", "generation": 1}
    )
    bed.settle()
    for include, exclude in ((["*"], ["sh*"]), (["bank"], []), ([], [])):
        refusing = AdmittingPlanner(bed.planner, include, exclude)
        owned = list(bed.server.objects.values())
        changes = refusing.plan(CART, Seen(bed.view), owned, lambda _: False, "")
        assert {change.op for change in changes} == {ChangeOp.DELETE}
        kinds = sorted(change.kind for change in changes)
        assert kinds == ["EndpointSlice", "EndpointSlice", "Service", "ServiceImport"]
    admitting = AdmittingPlanner(bed.planner, ["shop"], ["kube-*"])
    owned = list(bed.server.objects.values())
    assert admitting.plan(CART, Seen(bed.view), owned, bed.known.__contains__, "") == []


def sources(bed: Bed) -> list[str]:
    label = "multicluster.kubernetes.io/source-cluster"
    return sorted(item["metadata"]["labels"][label] for item in bed.server.slices())


def test_our_own_endpoints_are_written_beside_those_of_others() -> None:
    bed = Bed()
    bed.ours()
    bed.theirs()
    bed.settle()
    assert sources(bed) == ["fjord", "mesa"]
    clusters = bed.server.of("ServiceImport")["status"]["clusters"]
    assert clusters == [{"cluster": "fjord"}, {"cluster": "mesa"}]


def test_what_is_not_exported_here_is_imported_all_the_same_and_nothing_of_ours_with_it() -> None:
    bed = Bed()
    bed.ours()
    bed.local = LocalService(CART, bed.local.endpoints, None, standing=Standing.VALID)
    bed.theirs()
    bed.settle()
    assert sources(bed) == ["mesa"]


def test_our_service_export_is_told_how_it_fares() -> None:
    bed = Bed()
    bed.server.objects["ServiceExport", "cart"] = object_of(
        "ServiceExport", "cart", metadata={"uid": "u", "resourceVersion": "1", "generation": 1}
    )
    bed.settle()
    assert conditions(bed.server.of("ServiceExport"))["Valid"]["reason"] == "NoService"
    bed.ours(ports=[GRPC])
    bed.theirs()
    bed.settle()
    told = conditions(bed.server.of("ServiceExport"))
    assert told["Valid"]["status"] == told["Ready"]["status"] == "True"
    assert told["Conflict"]["reason"] == "PortConflict"


def test_our_unexport_needs_no_complete_state_but_that_of_others_does() -> None:
    bed = Bed()
    bed.ours()
    bed.theirs()
    bed.settle()
    bed.local = LocalService(CART)
    bed.settle()
    assert sources(bed) == ["mesa"]
    bed.exports, bed.view, bed.known = {}, {}, set()
    assert bed.plan() == []
    bed.known = {"mesa"}
    bed.settle()
    assert bed.server.objects == {}


def test_a_status_that_names_a_stranger_is_put_right() -> None:
    bed = Bed()
    bed.theirs()
    bed.settle()
    bed.server.of("ServiceImport")["status"]["clusters"] = [{"cluster": "moon"}]
    bed.settle()
    assert sources(bed) == ["mesa"]
    assert bed.server.of("ServiceImport")["status"]["clusters"] == [{"cluster": "mesa"}]


class Read(dict[str, Any]):
    """An object that counts how often its endpoints are read."""

    times = 0

    def get(self, name: str, default: Any = None, /) -> Any:
        self.times += name == "endpoints"
        return super().get(name, default)


def written(planner: SlicePlanner, view: list[Endpoint], held: list[Read]) -> list[SliceChange]:
    return list(planner.plan(CART, Seen({"mesa": view}), held, lambda _: True, ""))


def test_a_change_in_a_big_service_reads_only_the_slices_that_changed() -> None:
    planner = SlicePlanner()
    view = [Endpoint(f"10.2.{number // 250}.{number % 250}", WEB) for number in range(300)]
    held = [Read(change.manifest) for change in written(planner, view, [])]
    assert len(held) == 3
    assert written(planner, view, held) == []
    assert [one.times for one in held] == [1, 1, 1]

    view[7] = Endpoint(view[7].address, WEB, ready=False)
    (change,) = written(planner, view, held)
    assert change.op is ChangeOp.UPDATE
    held = [
        Read(change.manifest) if one["metadata"]["name"] == change.name else one for one in held
    ]
    assert written(planner, view, held) == []
    assert sorted(one.times for one in held) == [1, 1, 1]

    emptied = Read({**held[1], "endpoints": []})
    (repair,) = written(planner, view, [held[0], emptied, held[2]])
    assert repair.name == emptied["metadata"]["name"]
    assert len(written(planner, [], held)) == 3
    assert written(planner, [], []) == []
