"""Whole agents in one process: real folders, real journals, real certificates, links in memory."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.model import ServiceKey
from crdt import Origin
from replicator.agent import Agent
from replicator.config import parse_config
from replicator.errors import InputError, JournalError, NotGood, ReplicatorError
from replicator.identity import PeerIdentity
from replicator.kinds import ENDPOINT
from replicator.membership import Cell
from replicator.ops.address import parse_address
from replicator.ops.client import AgentClient
from replicator.pki import create_ca, issue, save_pair
from replicator.policies import Subject
from replicator.projection import kind_of
from replicator.system_clock import SystemClock
from replicator.transport.memory import MemoryNetwork
from replicator.transport.reload import LiveTls

CLUSTERS = ("fjord", "mesa", "tundra")


def manifest(*addresses: str, name: str = "cart-aa1", service: str = "cart") -> str:
    """One EndpointSlice."""
    document = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }
    return yaml.safe_dump(document)


class Running:
    """One agent of the world, while it lives."""

    def __init__(self, agent: Agent, task: asyncio.Task[None], stop: asyncio.Event) -> None:
        self.agent = agent
        self._task = task
        self._stop = stop

    async def end(self) -> None:
        """As SIGTERM does."""
        self._stop.set()
        await self._task

    async def kill(self) -> None:
        """As SIGKILL does, as far as one process can: nothing is flushed."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class World:
    """Three clusters in folders; agents come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = MemoryNetwork()
        self.authority = create_ca("prod", datetime.now(UTC))
        self.running: dict[str, Running] = {}
        self.settings: dict[str, Any] = {}
        """Keys of every configuration beyond what all tests share."""
        self._seeds = iter(range(1000))
        self._ports = dict(zip(CLUSTERS, range(1, 9), strict=False))
        for cluster in CLUSTERS:
            home = folder / cluster
            issued = issue(self.authority, cluster, ["127.0.0.1"], datetime.now(UTC))
            save_pair(issued, self.authority, home)
            (home / "source").mkdir()

    def _config(self, cluster: str) -> dict[str, Any]:
        peers = [
            {"cluster": peer, "url": f"https://memory:{self._ports[peer]}"}
            for peer in CLUSTERS
            if peer != cluster
        ]
        return {
            "clusterset": "prod",
            "cluster": cluster,
            "listen": "127.0.0.1:7443",
            "operator": f"unix:{self.folder / cluster}.sock",
            "health": None,
            "state": "state",
            "peers": peers,
            "tls": {"certificate": "tls.crt", "key": "tls.key", "trust_bundle": "ca.crt"},
            "source": {"kind": "directory", "path": "source", "export": "all"},
            "target": {"mode": "directory", "path": "target"},
            **self.settings,
        }

    async def start(self, cluster: str) -> Agent:
        """Start an agent with what its state folder holds."""
        home = self.folder / cluster
        text = json.dumps(self._config(cluster)).encode()
        config = parse_config(text, home / "agent.yaml", {})
        identity = PeerIdentity("prod", cluster)
        tls = LiveTls(config.tls, identity, lambda: datetime.now(UTC))
        agent = await Agent.build(config, SystemClock(), random.Random(next(self._seeds)), tls, {})
        listener = self.network.listener(identity, agent.admit)
        listener._port = self._ports[cluster]
        stop = asyncio.Event()
        task = asyncio.create_task(agent.run(listener, self.network.dialer(identity), stop))
        self.running[cluster] = Running(agent, task, stop)
        return agent

    async def start_all(self) -> None:
        """Start all and wait until they are ready."""
        for cluster in CLUSTERS:
            await self.start(cluster)
        await self.until(lambda: all(self[c].ready()[0] for c in CLUSTERS))

    def __getitem__(self, cluster: str) -> Agent:
        return self.running[cluster].agent

    def write(self, cluster: str, *addresses: str, name: str = "cart-aa1") -> None:
        """Put a slice into a cluster's source, renamed into place."""
        path = self.folder / cluster / "source" / f"{name}.yaml"
        fresh = path.with_suffix(".tmp")
        fresh.write_text(manifest(*addresses, name=name))
        fresh.replace(path)

    def _files(self, cluster: str) -> list[Path]:
        # os.walk, since agents remove empty folders while we look.
        walked = os.walk(self.folder / cluster / "target")
        return sorted(
            Path(top) / name for top, _, names in walked for name in names if name.endswith(".yaml")
        )

    def written(self, cluster: str) -> dict[str, list[str]]:
        """Addresses by source cluster in what an agent wrote."""
        found: dict[str, list[str]] = {}
        for path in self._files(cluster):
            try:
                document = yaml.safe_load(path.read_text())
            except FileNotFoundError:  # replaced or deleted while we look
                continue
            origin = document["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"]
            rows = [a for e in document["endpoints"] for a in e["addresses"]]
            found.setdefault(origin, []).extend(rows)
        return found

    def contents(self, cluster: str, origin: str) -> dict[str, bytes]:
        """What an agent wrote of one source cluster, byte for byte."""
        found = {}
        for path in self._files(cluster):
            with contextlib.suppress(FileNotFoundError):  # replaced or deleted while we look
                found[path.name] = path.read_bytes()
        return {
            name: text for name, text in found.items() if f"cluster: {origin}\n".encode() in text
        }

    def stats(self, cluster: str) -> dict[str, tuple[int, int]]:
        """Inode and time of every written file: a rewrite changes them."""
        paths = self._files(cluster)
        return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait until ``condition`` holds."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - conditions of any kind
                await asyncio.sleep(0.01)

    async def everybody_sees(self, cluster: str, *addresses: str) -> None:
        """Wait until the others have written exactly these of ``cluster``."""
        others = [other for other in self.running if other != cluster]
        wanted = list(addresses)
        await self.until(lambda: all(self.written(o).get(cluster, []) == wanted for o in others))

    async def ask(self, cluster: str, method: str, *arguments: str) -> Any:
        """What the operator API answers."""
        client = AgentClient(parse_address(f"unix:{self.folder / cluster}.sock"))
        return await asyncio.to_thread(getattr(client, method), *arguments)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    for running in made.running.values():
        with contextlib.suppress(asyncio.CancelledError):
            await running.end()


async def test_a_manifest_becomes_slices_in_every_other_cluster_and_goes_again(
    world: World,
) -> None:
    await world.start_all()
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    world.write("fjord", "10.20.1.5")
    await world.everybody_sees("fjord", "10.20.1.5")
    (world.folder / "fjord" / "source" / "cart-aa1.yaml").unlink()
    await world.everybody_sees("fjord")
    assert world.written("fjord") == {}


async def test_stopping_removes_nothing_and_coming_back_writes_nothing(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    stamp = world["fjord"].replica.own.elements.version
    await world.running.pop("fjord").end()
    await world.until(lambda: not world["mesa"].links.connected("fjord"))
    assert world.written("mesa") == {"fjord": ["10.20.1.4"]}
    before = world.stats("mesa")
    await world.start("fjord")
    await world.until(lambda: world["fjord"].ready()[0])
    await world.until(lambda: world["mesa"].links.connected("fjord"))
    rows = world["fjord"].replica.own.elements.live()
    assert [stated <= stamp.stamp for e, stated, _ in rows if kind_of(e) == ENDPOINT] == [True]
    assert world["fjord"].replica.own.epoch == 1
    assert world.stats("mesa") == before


async def test_a_killed_agent_comes_back_with_what_changed_meanwhile(world: World) -> None:
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    await world.running.pop("fjord").kill()
    world.write("fjord", "10.20.1.5", "10.20.1.6")
    world.write("mesa", "10.40.1.4")
    await world.start("fjord")
    await world.everybody_sees("fjord", "10.20.1.5", "10.20.1.6")
    await world.everybody_sees("mesa", "10.40.1.4")
    assert world["fjord"].replica.own.epoch == 1


async def test_p22_an_older_store_brings_nothing_back_that_consumers_saw_go(world: World) -> None:
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    state = world.folder / "mesa" / "state"
    await world.running.pop("mesa").end()
    older = {path: path.read_bytes() for path in state.glob("remote.db*")}
    await world.start("mesa")
    world.write("fjord", "10.20.1.4")
    await world.everybody_sees("fjord", "10.20.1.4")
    before = world.stats("mesa")
    await world.running.pop("mesa").kill()
    for path in state.glob("remote.db*"):
        path.unlink()
    for path, content in older.items():
        path.write_bytes(content)

    for other in ("fjord", "tundra"):
        world.network.cut("mesa", other)
    mesa = await world.start("mesa")
    written: list[Any] = []
    mesa.target.apply = _noting(mesa.target.apply, written)  # type: ignore[union-attr, method-assign]
    await world.until(lambda: mesa.target is not None and mesa.target.health().synced)
    assert len(mesa.others.view(ServiceKey("shop", "cart"))["fjord"]) == 2, (
        "the store is the older one"
    )
    mesa.imports.add(ServiceKey("shop", "cart"))
    await world.until(lambda: mesa.imports.idle)
    for other in ("fjord", "tundra"):
        world.network.heal("mesa", other)
    await world.until(lambda: mesa.ready()[0])
    await world.until(lambda: len(mesa.others.view(ServiceKey("shop", "cart"))["fjord"]) == 1)
    await world.until(lambda: mesa.imports.idle)
    assert written == []
    assert world.stats("mesa") == before
    world.write("fjord", "10.20.1.6")
    await world.everybody_sees("fjord", "10.20.1.6")


def _noting(apply: Callable[[Any], Any], written: list[Any]) -> Callable[[Any], Any]:
    """``apply``, with each change put down."""

    async def noting(change: Any) -> None:
        written.append(change)
        await apply(change)

    return noting


async def test_a_lost_disk_opens_a_new_epoch_and_the_others_never_see_it_empty(
    world: World,
) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    await world.running.pop("fjord").kill()
    for path in sorted((world.folder / "fjord" / "state").iterdir()):
        path.unlink()
    before = world.stats("mesa")
    await world.start("fjord")
    await world.until(lambda: world["fjord"].replica.own.epoch == 2)
    remote = world["mesa"].replica.remotes[Origin("fjord")]
    await world.until(lambda: remote.version.epoch == 2)
    assert world.stats("mesa") == before


async def test_what_somebody_does_to_our_files_is_undone(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    (path,) = (world.folder / "mesa" / "target").rglob("*.yaml")
    text = path.read_text()
    path.write_text(text.replace("10.20.1.4", "10.66.6.6"))
    await world.everybody_sees("fjord", "10.20.1.4")
    path.unlink()
    await world.everybody_sees("fjord", "10.20.1.4")
    path.write_text("no: [yaml")
    await world.until(lambda: path.read_text() == text)


async def test_a_disk_that_refuses_delays_the_change_and_loses_nothing(world: World) -> None:
    await world.start_all()
    agent = world["fjord"]
    real = agent.journal.persist_own
    refusals = iter([JournalError("no room", code="journal_full")])

    async def refuse_once(batch: Any) -> float:
        for refusal in refusals:
            raise refusal
        return await real(batch)

    agent.journal.persist_own = refuse_once  # type: ignore[method-assign]  # a fault, not a fake
    world.write("fjord", "10.20.1.4")
    await world.until(lambda: agent.publisher.failing)
    assert agent.ready() == (False, ["journal_failing"])
    assert agent.condition.problems()[0]["code"] == "journal_failing"
    assert world.written("mesa") == {}
    await world.everybody_sees("fjord", "10.20.1.4")
    assert agent.ready() == (True, [])


async def test_a_remote_commit_that_was_not_stored_is_stored_whole_later(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    recorder = world["mesa"].recorder
    real = recorder._journal.persist_remote
    calls: list[Any] = []

    async def refuse(commits: Any) -> None:
        calls.append(commits)
        raise JournalError("no room", code="journal_full")

    recorder._journal.persist_remote = refuse  # type: ignore[method-assign]
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    await world.until(lambda: recorder.failing)
    recorder._journal.persist_remote = real  # type: ignore[method-assign]
    assert await recorder.flush()
    assert recorder.failing is None
    await world.running.pop("mesa").kill()
    for cluster in ("fjord", "tundra"):
        await world.running.pop(cluster).end()
    agent = await world.start("mesa")
    index = agent.replica.remotes[Origin("fjord")].index
    assert len(index.visible(ServiceKey("shop", "cart"))) == 2


async def test_a_cut_region_keeps_what_it_knows_and_catches_up(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    for other in ("fjord", "mesa"):
        world.network.cut("tundra", other)
        world.network.sever("tundra", other)
    world.write("fjord", "10.20.1.9")
    await world.until(lambda: world.written("mesa").get("fjord") == ["10.20.1.9"])
    assert world.written("tundra") == {"fjord": ["10.20.1.4"]}
    for other in ("fjord", "mesa"):
        world.network.heal("tundra", other)
    await world.everybody_sees("fjord", "10.20.1.9")


async def test_c49_a_silent_cluster_is_not_ready_until_it_is_heard_and_then_exactly_as_before(
    world: World,
) -> None:
    def silent() -> bool:
        texts = world.contents("mesa", "fjord").values()
        return bool(texts) and all(b"ready: false" in t and b"serving: false" in t for t in texts)

    world.settings = {"stale": {"policy": "not-ready", "after": "6s"}}
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    before = world.contents("mesa", "fjord")
    version = world["mesa"].replica.remotes[Origin("fjord")].version
    for other in ("mesa", "tundra"):
        world.network.cut("fjord", other)
        world.network.sever("fjord", other)
    await world.until(silent)
    assert world.contents("mesa", "fjord").keys() == before.keys()
    remote = world["mesa"].replica.remotes[Origin("fjord")]
    assert (remote.version, remote.elements.tombstone_count) == (version, 0)
    endpoints = world["mesa"].views.endpoints(None, None, "fjord")
    assert [item["ready"] for item in endpoints] == [True, True]
    row = next(row for row in world["mesa"].views.clusters() if row["cluster"] == "fjord")
    assert (row["policy"], row["state"]) == ("not-ready", "stale")

    # A restart brings it back neither at once nor by what a relay still holds of it.
    written = world.stats("mesa")
    await world.running.pop("mesa").end()
    await world.start("mesa")
    await world.until(lambda: world["mesa"].ready()[0])
    await world.until(lambda: (world["mesa"].others.staleness(Origin("fjord")) or 0.0) > 7.0)
    assert silent()
    assert world.stats("mesa") == written

    for other in ("mesa", "tundra"):
        world.network.heal("fjord", other)
    await world.until(lambda: world.contents("mesa", "fjord") == before)
    assert world["mesa"].replica.remotes[Origin("fjord")].version == version


async def test_m10_a_cluster_that_comes_back_empty_loses_nothing_before_it_is_released(
    world: World,
) -> None:
    world.settings = {"stale": {"after": "3s"}, "guard": {"fresh_for": "10m"}}
    world.write("fjord", "10.20.1.4", "10.20.1.5")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4", "10.20.1.5")
    mesa = world["mesa"]
    for other in ("mesa", "tundra"):
        world.network.cut("fjord", other)
        world.network.sever("fjord", other)
    (world.folder / "fjord" / "source" / "cart-aa1.yaml").unlink()
    await world.until(lambda: (mesa.others.staleness(Origin("fjord")) or 0.0) > 3.2)
    for other in ("mesa", "tundra"):
        world.network.heal("fjord", other)
    await world.until(lambda: mesa.views.status()["withdrawals_held"])
    assert mesa.others.view(ServiceKey("shop", "cart")) == {}, "it is committed"
    row = {"service": "shop/cart", "cluster": "fjord", "removed": 2, "written": 2}
    status = await world.ask("mesa", "status")
    assert status["withdrawals_held"] == [row]
    assert [problem["code"] for problem in status["problems"]] == ["withdrawal_held"]
    assert b"replicator_withdrawals_held 1.0" in mesa.views.metrics()
    assert world.written("mesa") == {"fjord": ["10.20.1.4", "10.20.1.5"]}
    client = AgentClient(parse_address(f"unix:{world.folder / 'mesa'}.sock"))
    with pytest.raises(InputError, match="no cluster fjrod was ever heard of here"):
        await asyncio.to_thread(client.release, "fjrod", None)
    assert await asyncio.to_thread(client.release, "fjord", None) == {"released": [row]}
    await world.until(lambda: world.written("mesa") == {})
    await world.until(lambda: mesa.views.status()["withdrawals_held"] == [])


async def test_the_operator_sees_the_whole(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    await world.until(lambda: world["mesa"].views.status()["converged"])
    status = await world.ask("mesa", "status")
    assert status["agent"]["ready"] is True
    assert status["converged"] is True
    assert [row["cluster"] for row in status["clusters"]] == list(CLUSTERS)
    fjord = status["clusters"][0]
    assert (fjord["state"], fjord["services"], fjord["via"]) == ("fresh", 1, "fjord")
    assert [peer["state"] for peer in status["peers"]] == ["connected", "connected"]
    assert status["problems"] == []
    snapshot = await world.ask("mesa", "snapshot")
    assert [row["cluster"] for row in snapshot["origins"]] == list(CLUSTERS)
    rows = world["mesa"].views.endpoints("shop", "cart", "fjord")
    assert [row["address"] for row in rows] == ["10.20.1.4"]
    assert world["mesa"].views.endpoints(None, None, "mesa") == []
    assert world["mesa"].views.services()[0]["clusters"][0]["ready"] == 1
    assert world["mesa"].views.config()["cluster"] == "mesa"
    assert b"replicator_ready 1.0" in world["mesa"].views.metrics()
    assert world["mesa"].views.healthy() == (True, [])


async def test_every_histogram_of_a_working_agent_counts(world: World) -> None:
    await world.start_all()
    for octet in (4, 5):
        for cluster in ("fjord", "mesa", "tundra"):
            world.write(cluster, f"10.20.1.{octet}")
        for cluster in ("fjord", "mesa", "tundra"):
            await world.everybody_sees(cluster, f"10.20.1.{octet}")
    text = world["fjord"].views.metrics().decode()
    counted = dict(line.rsplit(" ", 1) for line in text.splitlines() if "_seconds_count" in line)
    mine = {name: float(value) for name, value in counted.items()}
    silent = [name for name, value in mine.items() if value == 0 and 'origin="fjord"' not in name]
    assert mine
    assert silent == []


async def test_watchers_see_own_and_remote_changes_as_they_are_committed(world: World) -> None:
    await world.start_all()
    seen: list[dict[str, Any]] = []

    async def watch(cluster: str) -> None:
        async for change in world[cluster].views.subscribe():
            seen.append(change)  # noqa: PERF401 - as they come

    tasks = [asyncio.create_task(watch(cluster)) for cluster in ("fjord", "mesa")]
    await world.until(lambda: world["fjord"].feed.wanted and world["mesa"].feed.wanted)
    world.write("fjord", "10.20.1.4")
    await world.until(lambda: len(seen) == 2)
    (world.folder / "fjord" / "source" / "cart-aa1.yaml").unlink()
    await world.until(lambda: len(seen) == 4)
    assert [change["op"] for change in seen] == ["add", "add", "remove", "remove"]
    assert {change["item"]["address"] for change in seen} == {"10.20.1.4"}
    assert {change["origin"] for change in seen} == {"fjord"}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_new_certificate_is_signed_with_at_once(world: World) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    home = world.folder / "fjord"
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (home / name).unlink()
    issued = issue(world.authority, "fjord", ["127.0.0.1"], datetime.now(UTC))
    save_pair(issued, world.authority, home)
    before = world["fjord"].replica.own.signer.key_id
    assert world["fjord"].tls.check()
    assert world["fjord"].replica.own.signer.key_id != before
    remote = world["mesa"].replica.remotes[Origin("fjord")]
    await world.until(lambda: remote.head and remote.head.key_id != before)
    world.write("fjord", "10.20.1.5")
    await world.everybody_sees("fjord", "10.20.1.5")


async def test_c50_a_cluster_leaves_for_good_and_comes_back(world: World) -> None:
    async def decide(cluster: str, decision: str) -> Any:
        return await world.ask(cluster, "decide", decision, "mesa")

    world.write("mesa", "10.40.1.4")
    world.write("tundra", "10.60.1.4")
    await world.start_all()
    await world.everybody_sees("mesa", "10.40.1.4")
    with pytest.raises(NotGood, match="mesa is alive"):
        await decide("fjord", "forget")
    await world.running.pop("mesa").end()
    with pytest.raises(NotGood, match="mesa is alive"):
        await decide("fjord", "forget")
    fjord, tundra = world["fjord"], world["tundra"]
    fjord.replica.members.alive_seconds = 0.1
    await world.until(lambda: (fjord.others.staleness(Origin("mesa")) or 0.0) > 0.1)
    counts = {"elements": 3, "services": 1}
    told = {"cluster": "mesa", "decision": "forget"}
    assert await decide("fjord", "forget") == told | counts
    assert await decide("fjord", "forget") == told | {"elements": 0, "services": 0}
    for cluster in ("fjord", "tundra"):
        await world.until(lambda c=cluster: "mesa" not in world.written(c))
        await world.until(lambda c=cluster: world[c].replica.members.forgotten("mesa"))
        status = world[cluster].views.status()
        assert status["forgotten"] == ["mesa"]
        assert "mesa" not in [row["cluster"] for row in status["clusters"] + status["peers"]]
        assert world[cluster].ready() == (True, [])
        metrics = world[cluster].views.metrics()
        assert b'"mesa"' not in metrics
        assert b'="tundra"' in metrics
    assert world.written("fjord") == {"tundra": ["10.60.1.4"]}

    # It outlives its author and a restart of whoever learned it.
    await world.running.pop("fjord").end()
    await world.running.pop("tundra").kill()
    tundra = await world.start("tundra")
    assert tundra.replica.members.all_forgotten() == ["mesa"]
    assert Origin("mesa") not in tundra.replica.remotes
    assert "mesa" not in tundra.replica.uids
    fjord = await world.start("fjord")
    mesa = await world.start("mesa")
    status_of = mesa.links.peers
    for peer in ("fjord", "tundra"):
        await world.until(lambda p=peer: p in status_of and status_of[p].state == "refused")
        error = status_of[peer].error
        assert error is not None
        assert error.code == "cluster_forgotten"
        assert "replicator admit mesa" in error.cure
        assert error.message.endswith("mesa was forgotten by fjord")
    assert "mesa" not in {**world.written("fjord"), **world.written("tundra")}
    assert mesa.replica.own.epoch == 1
    await decide("tundra", "admit")
    await world.everybody_sees("mesa", "10.40.1.4")
    assert mesa.replica.own.epoch == 2
    await world.until(lambda: world["fjord"].views.status()["forgotten"] == [])
    await world.until(lambda: world["fjord"].views.status()["converged"])
    assert world.written("mesa") == {"tundra": ["10.60.1.4"]}


async def test_a_forgotten_cluster_that_learns_it_says_so(world: World) -> None:
    world.write("mesa", "10.40.1.4")
    await world.start_all()
    await world.everybody_sees("mesa", "10.40.1.4")
    mesa = world["mesa"]
    cell = Cell(1, "fjord", "forget", 1)
    for agent in (mesa, world["fjord"]):
        now, wall_ns = agent.clock.monotonic(), agent.clock.wall_ns()
        agent.perform(agent.replica.learn({"mesa": cell}, now, wall_ns))
    assert [problem["code"] for problem in mesa.condition.problems()] == ["cluster_forgotten"]
    await world.until(lambda: "mesa" not in world.written("tundra"))
    await world.until(lambda: "mesa" not in world.written("fjord"))
    await world.until(lambda: not mesa.links.connected("fjord"))
    assert world.written("mesa") == {}


async def test_a_decision_that_cannot_be_stored_says_so(world: World) -> None:
    await world.start_all()
    await world.running.pop("mesa").end()
    agent = world["fjord"]
    await world.until(lambda: not agent.links.connected("mesa"))
    agent.replica.members.alive_seconds = 0.0
    agent.decisions.stored_seconds = 0.05
    real = agent.journal.persist_own

    async def refuse(batch: Any) -> float:
        raise JournalError("no room", code="journal_full")

    agent.journal.persist_own = refuse  # type: ignore[method-assign]  # a fault, not a fake
    with pytest.raises(ReplicatorError, match=r"decided, but not stored .* yet: no room") as caught:
        await agent.decisions.member("forget", "mesa")
    assert caught.value.code == "decision_not_stored"
    agent.journal.persist_own = real  # type: ignore[method-assign]
    await world.until(lambda: world["tundra"].replica.members.forgotten("mesa"))


async def test_a_decision_before_the_first_head_says_so(world: World) -> None:
    agent = await world.start("fjord")
    agent.replica.members.alive_seconds = 0.0
    agent.decisions.stored_seconds = 0.05
    with pytest.raises(ReplicatorError, match="this agent has not published yet"):
        await agent.decisions.member("forget", "mesa")
    assert agent.replica.members.forgotten("mesa")


async def test_a_drain_decided_at_one_agent_is_written_everywhere_and_ended_at_another(
    world: World,
) -> None:
    def drained(at: str, *, ready: bool) -> bool:
        texts = world.contents(at, "fjord").values()
        told = b"ready: true" if ready else b"ready: false"
        return bool(texts) and all(told in t and b"serving: true" in t for t in texts)

    def settings() -> list[str]:
        return [row["setting"] for row in world["fjord"].views.policies()]

    world.write("fjord", "10.20.1.4")
    world.write("tundra", "10.40.1.4")
    await world.start_all()
    await world.everybody_sees("fjord", "10.20.1.4")
    await world.everybody_sees("tundra", "10.40.1.4")
    subject = Subject("drain", "fjord")
    told = await world["mesa"].views.steer(subject, "drained")
    assert told["changed"]
    await world.until(lambda: drained("mesa", ready=False))
    await world.until(lambda: drained("tundra", ready=False))
    again = await world["tundra"].views.steer(subject, "drained")
    assert (again["changed"], again["services"], again["kept"]) == (False, 1, 0)
    await world.until(lambda: settings() == ["drained"])
    assert (await world["fjord"].views.steer(subject, "drained"))["services"] == 1
    world.write("tundra")
    await world.until(lambda: drained("tundra", ready=True))
    await world.until(lambda: drained("mesa", ready=True))
    last = await world["tundra"].views.steer(subject, "drained")
    assert (last["changed"], last["services"], last["kept"]) == (False, 1, 1)
    await world["tundra"].views.steer(subject, "undrained")
    await world.until(lambda: settings() == ["undrained"])
    await world.until(lambda: drained("mesa", ready=True))
    (row,) = world["fjord"].views.policies()
    assert (row["cluster"], row["setting"], row["by"]) == ("fjord", "undrained", "tundra")
