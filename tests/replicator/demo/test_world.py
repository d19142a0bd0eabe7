from __future__ import annotations

import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from replicator.config import load_config
from replicator.demo.world import AgentTrouble, Churn, World, hold_port
from replicator.system_clock import SystemClock
from tests.support.certificates import now

CHURN = Churn(services=3, endpoints=4, changes_per_second=2.5, seed=6, seconds=12.5)
REGIONS = ("fjord", "mesa")
WAITS = "import signal; print('up', flush=True); signal.pause()"
OBEYS = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); {WAITS}"
FAILS = "print('the first line'); print('what went wrong'); raise SystemExit(3)"


def world_of(folder: Path, program: Sequence[str]) -> World:
    return World(folder, REGIONS, CHURN, lambda _, __: 0.0, SystemClock(), program)


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = world_of(tmp_path, python(WAITS))
    yield made
    await made.stop()


async def started(world: World) -> World:
    await world.start(now())
    return world


async def ended(world: World) -> AgentTrouble:
    """Look until an agent is seen to have ended."""
    while True:
        try:
            await world.everyone()
        except AgentTrouble as trouble:
            if "does not answer" not in trouble.message:
                return trouble


def test_a_held_port_goes_to_nobody_but_a_server_that_asks_for_it() -> None:
    with hold_port() as held:
        address = held.getsockname()
        with pytest.raises(ConnectionRefusedError), socket.create_connection(address):
            pass
        if sys.platform == "linux":
            with socket.create_server(address), socket.create_connection(address):
                pass


async def test_the_configurations_are_good_and_lead_to_peers_through_the_relays(
    world: World, tmp_path: Path
) -> None:
    await started(world)
    fjord = load_config(tmp_path / "fjord" / "agent.yaml", {})
    mesa = load_config(tmp_path / "mesa" / "agent.yaml", {})
    assert (fjord.clusterset, fjord.cluster, fjord.region) == ("demo", "fjord", "fjord")
    assert [peer.cluster for peer in fjord.peers] == ["mesa"]
    assert fjord.peers[0].url != f"https://127.0.0.1:{mesa.listen.port}"
    assert fjord.operator == world.address("fjord") == f"unix:{tmp_path}/fjord.sock"
    assert fjord.source.duration == 12.5
    assert (fjord.source.services, fjord.source.endpoints, fjord.source.seed) == (3, 4, 6)
    assert fjord.tls.certificate.exists()


async def test_a_folder_too_deep_for_sockets_gets_ports(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    world = world_of(deep, python(WAITS))
    assert world.address("fjord").startswith("127.0.0.1:")
    await world.stop()


async def test_an_agent_that_ends_by_itself_is_told_with_the_end_of_its_log(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, python(FAILS))
    try:
        trouble = await ended(await started(world))
    finally:
        await world.stop()
    region = trouble.message.split()[3]
    assert trouble.message == f"the agent of {region} ended by itself with 3"
    assert trouble.log == (f"{region}: the first line", f"{region}: what went wrong")


async def test_an_agent_that_does_not_answer_is_named(world: World) -> None:
    await started(world)
    with pytest.raises(AgentTrouble, match="the agent of fjord does not answer"):
        await world.everyone()


async def test_agents_that_are_not_ready_in_time_are_told_with_their_logs(world: World) -> None:
    await started(world)
    told: list[str] = []
    with pytest.raises(AgentTrouble, match="not ready in time: of 2 agents 0 answer"):
        await world.wait_ready(SystemClock().monotonic() - 1.0, told.append)
    assert told == [
        "of 2 agents 0 answer, 0 are linked to all others, 0 hold every region's services"
    ]


async def test_stopping_ends_every_agent_in_order_and_tells_how_it_ended(tmp_path: Path) -> None:
    world = await started(world_of(tmp_path, python(OBEYS)))
    for region in REGIONS:
        while not world.tail(region):
            await world.statuses()
    assert await world.stop() == {"fjord": 0, "mesa": 0}


async def test_killed_agents_are_gone_when_stopped(world: World) -> None:
    await started(world)
    world.kill()
    assert set((await world.stop()).values()) == {-signal.SIGKILL}
