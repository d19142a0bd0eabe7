"""A stand-in for the API server that holds our slices: it validates, fills in defaults, counts."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from clusters.model import ChangeOp, Endpoint, Manifest, Port, ServiceKey, SliceChange
from clusters.slices import SliceSettings, plan
from tests.clusters.makers import CART

HTTP = (Port("http", 8080),)
SETTINGS = SliceSettings()
Remote = Mapping[str, Collection[Endpoint]]


OWN_LABELS = (
    "endpointslice.kubernetes.io/managed-by",
    "multicluster.kubernetes.io/service-name",
    "multicluster.kubernetes.io/source-cluster",
)


def yes(_: str) -> bool:
    """Everything may be deleted."""
    return True


def no(_: str) -> bool:
    """Nothing may be deleted."""
    return False


def endpoint(number: int, **fields: Any) -> Endpoint:
    """One of many endpoints of a crowd."""
    fields.setdefault("ports", HTTP)
    return Endpoint(f"10.21.{number // 250}.{number % 250 + 1}", **fields)


class Server:
    """Keeps our slices as an API server does: defaults filled in, versions counted."""

    def __init__(
        self, limit: int = 100, *, share_zones: bool = False, key: ServiceKey = CART
    ) -> None:
        self.objects: dict[str, Manifest] = {}
        self.settings = SliceSettings(max_endpoints=limit, share_zones=share_zones)
        self.key = key
        self.version = 0

    def plan(self, remote: Remote, deletable: Callable[[str], bool] = yes) -> list[SliceChange]:
        return plan(
            self.key,
            remote,
            list(self.objects.values()),
            settings=self.settings,
            deletable=deletable,
        )

    def sync(self, remote: Remote, deletable: Callable[[str], bool] = yes) -> list[str]:
        """Plan and carry out; returns the operations."""
        changes = self.plan(remote, deletable)
        for change in changes:
            self.apply(change)
        return [change.op.value for change in changes]

    def apply(self, change: SliceChange) -> None:
        if change.op is ChangeOp.DELETE:
            del self.objects[change.name]
            return
        assert (change.name in self.objects) == (change.op is ChangeOp.UPDATE)
        self.version += 1
        stored = self.accept(copy.deepcopy(change.manifest))
        stored["metadata"]["resourceVersion"] = str(self.version)
        stored["metadata"].setdefault("uid", f"uid-{self.version}")
        if change.op is ChangeOp.UPDATE:
            before = self.objects[change.name]
            assert change.manifest["addressType"] == before["addressType"]
            assert stored["metadata"]["uid"] == before["metadata"]["uid"]
        self.objects[change.name] = stored

    def accept(self, manifest: Manifest) -> Manifest:
        """Validate as the API server does, and fill in its defaults."""
        metadata = manifest["metadata"]
        label = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
        dns = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
        assert re.fullmatch(rf"{dns}(\.{dns})*", metadata["name"])
        assert len(metadata["name"]) <= 253
        for name in OWN_LABELS:
            value = metadata["labels"][name]
            assert re.fullmatch(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", value)
            assert len(value) <= 63
        assert sum(map(len, metadata["annotations"].values())) < 256 * 1024
        ports = manifest["ports"] or []
        assert len({port["name"] for port in ports}) == len(ports) <= 100
        for port in ports:
            assert not port["name"] or label.fullmatch(port["name"])
            port.setdefault("protocol", "TCP")
        assert 1 <= len(manifest["endpoints"]) <= self.settings.max_endpoints
        for entry in manifest["endpoints"]:
            assert 1 <= len(entry["addresses"]) <= 100
            assert all(
                (":" in item) == (manifest["addressType"] == "IPv6") for item in entry["addresses"]
            )
            assert label.fullmatch(entry.get("hostname", "a"))
            assert not {"nodeName", "targetRef", "hints"} & entry.keys()
        manifest["endpoints"].reverse()
        return manifest

    def holds(self) -> dict[str, dict[str, tuple[bool, bool, bool]]]:
        """Conditions by source cluster and "address ports"."""
        found: dict[str, dict[str, tuple[bool, bool, bool]]] = {}
        for manifest in self.objects.values():
            cluster = manifest["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"]
            for entry in manifest["endpoints"]:
                state = tuple(
                    entry["conditions"][name] for name in ("ready", "serving", "terminating")
                )
                for address in entry["addresses"]:
                    name = f"{address} {json.dumps(manifest['ports'], sort_keys=True)}"
                    assert name not in found.setdefault(cluster, {})
                    found[cluster][name] = state
        return found

    def only(self) -> Manifest:
        (found,) = self.objects.values()
        return found
