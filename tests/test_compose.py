"""docker-compose.yml says what the command does: its own lines are run here, without Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from replicator.cli.main import main
from replicator.config import HostPort, load_config

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
AGENTS = {name: entry for name, entry in COMPOSE["services"].items() if name != "certificates"}


def test_five_regions_make_five_agents_each_with_its_own_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMPOSE["services"]["certificates"]["command"]
    folder = tmp_path / "mesh"
    assert main([str(folder) if word == "/mesh" else word for word in command]) == 0
    assert capsys.readouterr().err == ""
    assert len(AGENTS) == 5
    for name, entry in AGENTS.items():
        assert entry["command"] == ["agent", "--config", f"/mesh/{name}/agent.yaml"]
        config = load_config(folder / name / "agent.yaml", entry["environment"])
        assert config.source.kind == "simulated"
        assert {peer.url for peer in config.peers} == {
            f"https://{other}:7443" for other in AGENTS if other != name
        }
        assert config.listen == HostPort("0.0.0.0", 7443)
        assert config.health == HostPort("0.0.0.0", 7481)
        assert config.operator == "127.0.0.1:7480"


def test_every_region_changes_in_its_own_way() -> None:
    seeds = {entry["environment"]["REPLICATOR_SOURCE_SEED"] for entry in AGENTS.values()}
    assert len(seeds) == len(AGENTS)


def test_the_image_copies_only_what_exists() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    names = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert names
    for name in names:
        assert (ROOT / name).exists(), name
