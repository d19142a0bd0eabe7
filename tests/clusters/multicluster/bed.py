"""A stand-in for the API server that holds what mode mcs writes, and makers of exports."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from clusters.model import ChangeOp, Endpoint, ExportedService, Manifest, ServiceKey, SliceChange
from clusters.multicluster.merge import merge
from clusters.multicluster.plan import Circumstances, full_plan, observed_of
from clusters.slices import Plan, SliceSettings
from tests.clusters.makers import CART
from tests.clusters.slice_server import yes

HTTP = {"name": "http", "port": 80, "protocol": "TCP"}
GRPC = {"name": "grpc", "port": 90, "protocol": "TCP"}


def export(at: int | None = 0, **fields: Any) -> ExportedService:
    """An export that began ``at`` seconds past a full minute, of a Service with these fields."""
    fields.setdefault("type", "ClusterSetIP")
    fields.setdefault("ports", [HTTP])
    created = None if at is None else f"2026-03-01T10:00:{at:02}Z"
    return ExportedService(created, tuple(sorted(fields.items())))


class Server:
    """Keeps objects as an API server does: versions, addresses, a status of its own."""

    def __init__(self, key: ServiceKey = CART, families: tuple[str, ...] = ("IPv4",)) -> None:
        self.key = key
        self.families = families
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.version = 0
        self.seconds = 0

    def plan(
        self,
        exports: Mapping[str, ExportedService],
        endpoints: Mapping[str, list[Endpoint]] | None = None,
        deletable: Callable[[str], bool] = yes,
        **given: Any,
    ) -> Plan:
        """What is to be written now."""
        self.seconds += 1
        now = f"2026-03-01T11:{self.seconds // 60:02}:{self.seconds % 60:02}Z"
        return full_plan(
            self.key,
            merge(exports),
            endpoints or {},
            observed_of(self.key, list(self.objects.values())),
            Circumstances(SliceSettings(), deletable, now, **given),
        )

    def sync(self, *arguments: Any, **given: Any) -> list[str]:
        """Plan and carry out until nothing is left; returns the writes."""
        done: list[str] = []
        for _ in range(6):
            changes = self.plan(*arguments, **given).changes
            if not changes:
                return done
            for change in changes:
                self.apply(change)
                done.append(f"{change.op.value} {change.kind} {change.subresource}".strip())
        message = f"no end: {done}"
        raise AssertionError(message)

    def apply(self, change: SliceChange) -> None:
        """Carry out one write; anything an API server would refuse is an error here."""
        name = change.kind, change.name
        if change.op is ChangeOp.DELETE:
            del self.objects[name]
            return
        assert (name in self.objects) == (change.op is ChangeOp.UPDATE)
        self.version += 1
        before = self.objects.get(name, {"metadata": {"uid": f"uid-{self.version}"}})
        stored = copy.deepcopy(change.manifest)
        if change.op is ChangeOp.UPDATE:
            assert stored["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        if change.subresource == "status":
            stored = {**copy.deepcopy(before), "status": stored["status"]}
        elif change.kind == "ServiceImport":
            stored.pop("status", None)
            if "status" in before:
                stored["status"] = before["status"]
        stored["metadata"]["uid"] = before["metadata"]["uid"]
        stored["metadata"]["resourceVersion"] = str(self.version)
        if change.kind == "Service":
            self._defaults(stored["spec"], before.get("spec", {}))
        self.objects[name] = stored

    def _defaults(self, spec: Manifest, before: Manifest) -> None:
        """Choose addresses, and fill in what a Service leaves out."""
        policy = spec.setdefault("ipFamilyPolicy", "SingleStack")
        asked = spec.get("ipFamilies") or list(self.families)
        assert set(asked) <= set(self.families)
        spec["ipFamilies"] = list(self.families) if policy == "PreferDualStack" else asked[:1]
        chosen = {"IPv4": "10.96.0.7", "IPv6": "fd00::7"}
        spec["clusterIPs"] = [chosen[family] for family in spec["ipFamilies"]]
        spec["clusterIP"] = spec["clusterIPs"][0]
        assert before.get("clusterIP") in (None, spec["clusterIP"])
        assert spec["ports"]
        assert len({port.get("name") for port in spec["ports"]}) == len(spec["ports"])
        if spec["sessionAffinity"] == "None":
            assert "sessionAffinityConfig" not in spec

    def of(self, kind: str) -> Manifest:
        """The only object of a kind."""
        (found,) = (item for (held, _), item in self.objects.items() if held == kind)
        return found

    def slices(self) -> list[Manifest]:
        """All EndpointSlices."""
        return [item for (kind, _), item in self.objects.items() if kind == "EndpointSlice"]


def conditions(manifest: Manifest) -> dict[str, Manifest]:
    """Conditions of an object by type."""
    return {item["type"]: item for item in manifest["status"]["conditions"]}
