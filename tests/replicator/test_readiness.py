"""When an agent may publish, relay and delete."""

from __future__ import annotations

import pytest

from replicator.readiness import Start, is_current, may_publish


def start(*configured: str, empty: bool = True) -> Start:
    """A start at 100 s."""
    return Start(100.0, empty, frozenset(configured))


def test_with_a_state_of_its_own_an_agent_publishes_at_once() -> None:
    assert may_publish(start("mesa", empty=False), frozenset(), 100.0)


def test_without_peers_an_agent_publishes_at_once() -> None:
    assert may_publish(start(), frozenset(), 100.0)


def test_with_an_empty_folder_an_agent_waits_for_every_peer_or_thirty_seconds() -> None:
    begun = start("mesa", "tundra")
    assert not may_publish(begun, frozenset({"mesa", "steppe"}), 129.9)
    assert may_publish(begun, frozenset({"mesa", "tundra", "steppe"}), 100.0)
    assert may_publish(begun, frozenset(), 130.0)


@pytest.mark.parametrize(
    ("configured", "caught_up", "current"),
    [
        ((), (), True),
        (("a",), (), False),
        (("a",), ("a",), True),
        (("a", "b", "c"), ("a",), False),
        (("a", "b", "c"), ("a", "c"), True),
        (("a", "b", "c"), ("a", "x", "y"), False),
    ],
)
def test_a_view_is_current_with_two_configured_peers_caught_up_or_all_there_are(
    configured: tuple[str, ...], caught_up: tuple[str, ...], *, current: bool
) -> None:
    begun = start(*configured, empty=False)
    assert is_current(begun, frozenset(caught_up), 100.0) is current
    assert is_current(begun, frozenset(caught_up), 109.9) is current
    assert is_current(begun, frozenset(), 110.0)
