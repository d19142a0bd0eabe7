"""Whole agents and what they take of others: addresses by network (property 40), and links."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from replicator.agent import Agent
from replicator.load import FULL_QUEUES
from replicator.transport.base import PeerRefusedError
from tests.integration.test_agents import CLUSTERS, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    for running in made.running.values():
        await running.end()


def hidden(agent: Agent, cluster: str) -> int:
    """What the agent's status says of a cluster."""
    rows = agent.views.status()["clusters"]
    return next(row["addresses_hidden"] for row in rows if row["cluster"] == cluster)


async def test_p40_addresses_outside_the_networks_are_relayed_and_neither_written_nor_shown(
    world: World,
) -> None:
    world.write("fjord", "10.20.1.4", "10.30.1.4")
    for cluster in CLUSTERS:
        lists = {"fjord": ["10.20.0.0/16"], "*": ["10.40.0.0/16"]}
        world.settings = {"networks": lists} if cluster == "mesa" else {}
        await world.start(cluster)
    await world.until(lambda: all(world[cluster].ready()[0] for cluster in CLUSTERS))
    world.network.firewall("tundra", "fjord")
    world.network.firewall("fjord", "tundra")
    world.network.sever("fjord", "tundra")
    changes = world["mesa"].feed.subscribe()
    first = asyncio.ensure_future(anext(changes))
    await world.until(lambda: world["mesa"].feed.wanted)
    world.write("tundra", "10.50.1.4")
    world.write("tundra", "10.40.1.4", name="cart-bb2")
    await world.until(lambda: world.written("tundra") == {"fjord": ["10.20.1.4", "10.30.1.4"]})
    await world.until(
        lambda: world.written("mesa") == {"fjord": ["10.20.1.4"], "tundra": ["10.40.1.4"]}
    )
    assert (await first)["item"]["address"] == "10.40.1.4"
    await changes.aclose()  # type: ignore[attr-defined]  # it is a generator

    mesa, tundra = world["mesa"], world["tundra"]
    await world.until(lambda: mesa.views.status()["converged"])
    assert (hidden(mesa, "fjord"), hidden(mesa, "tundra")) == (1, 1)
    assert (hidden(tundra, "fjord"), hidden(tundra, "tundra")) == (0, 0)
    shown = {row["address"] for row in mesa.views.endpoints(None, None, None)}
    assert shown == {"10.20.1.4", "10.40.1.4"}
    assert b'replicator_addresses_hidden{origin="fjord"} 1.0' in mesa.gauges.exposition()

    await world.running.pop("mesa").end()
    world.settings = {"networks": {"fjord": ["10.30.0.0/16"]}}
    await world.start("mesa")
    await world.until(
        lambda: (
            world.written("mesa") == {"fjord": ["10.30.1.4"], "tundra": ["10.40.1.4", "10.50.1.4"]}
        )
    )


async def test_an_overloaded_agent_asks_new_clusters_for_time_and_keeps_those_it_has(
    world: World,
) -> None:
    for cluster in ("fjord", "mesa"):
        await world.start(cluster)
    fjord, mesa = world["fjord"], world["mesa"]
    await world.until(lambda: mesa.links.connected("fjord"))
    later = mesa.clock.monotonic() + 3600  # what is read before then is left out
    mesa.load.note(later - 1000, 0.0, 0)
    mesa.load.note(later, 10_000.0, FULL_QUEUES)
    assert b"replicator_load_score 100.0" in mesa.gauges.exposition()
    problems = mesa.views.status()["problems"]
    assert [one["code"] for one in problems if one["cure"]] == ["shedding"]

    tundra = await world.start("tundra")
    await world.until(lambda: tundra.links.connected("fjord"))
    await world.until(lambda: tundra.links.peers["mesa"].error)
    error = tundra.links.peers["mesa"].error
    assert isinstance(error, PeerRefusedError)
    assert (error.status, error.code, error.retry_after) == (503, "shedding", 10.0)
    wait = tundra.links.peers["mesa"].rest_until - tundra.clock.monotonic()
    assert 9.0 < wait <= 20.0
    assert fjord.links.connected("mesa")
    assert mesa.admit(fjord.tls.identity) is None, "a link that is renewed"
    assert mesa.admit(mesa.tls.identity) is None, "its stand-by, which must stay warm"
    assert mesa.admit(tundra.tls.identity) is not None


async def test_c70_an_address_of_another_cluster_in_a_local_slice_is_exported_and_counted(
    world: World,
) -> None:
    world.write("fjord", "10.20.1.4")
    await world.start_all()
    await world.until(lambda: world.written("mesa") == {"fjord": ["10.20.1.4"]})
    mesa = world["mesa"]
    assert b"replicator_encode_suspect_loop_total 0.0" in mesa.gauges.exposition()
    world.write("mesa", "10.20.1.4", "10.20.1.5")
    await world.until(lambda: world.written("fjord") == {"mesa": ["10.20.1.4", "10.20.1.5"]})
    assert b"replicator_encode_suspect_loop_total 1.0" in mesa.gauges.exposition()
    world.write("mesa", "10.20.1.4")
    await world.until(lambda: world.written("fjord") == {"mesa": ["10.20.1.4"]})
    assert b"replicator_encode_suspect_loop_total 1.0" in mesa.gauges.exposition()
