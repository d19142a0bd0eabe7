"""Property 19: a bootstrap over a narrow link ends just when the link carries more than changes.

What counts is how many *distinct* elements change a second: of one that changes again before it was
sent the last value is sent, once.  So the link's whole width is its bandwidth less the rate of
changes, what is left over carries the state, and the state is all that either side keeps.
"""

from __future__ import annotations

import pytest

from clusters.model import ServiceKey
from crdt import ZERO
from tests.support.replicas import World

SERVICES, EACH = 40, 5
STATE = SERVICES * (EACH + 1)
"""Elements: endpoints, and that a service is exported."""
DELAY, FRAMES = 0.5, 20
WIDTH = FRAMES / DELAY - 5
"""Entries a second: so many frames, of one entry each, are under way at once; some are beats."""
BEGUN = 4 * DELAY
"""Hello, advert, want, and the first entry."""


class Narrow:
    """A mesa that begins to take fjord's origin, which goes on changing ``rate`` elements a second.

    The services change in turn, all endpoints at once, so within ``STATE / rate`` no element
    changes twice.
    """

    def __init__(self, rate: float) -> None:
        self.world = World("fjord", "mesa", chunk_bytes=1)
        self.world.window = FRAMES
        self.rate, self.turn, self.until = rate, 0, 0.0
        for number in range(SERVICES):
            self.world["fjord"].say(*self.addresses(number), key=self.key(number))
        for node in self.world.nodes.values():
            node.publish()
        self.world.connect("fjord", "mesa", DELAY)
        self.most = 0
        """The most that was staged at once."""

    @staticmethod
    def key(number: int) -> ServiceKey:
        return ServiceKey("shop", f"s{number}")

    @staticmethod
    def addresses(number: int) -> list[str]:
        return [f"10.1.{number}.{at}" for at in range(EACH)]

    def churn(self, seconds: float) -> None:
        """Change from now on for so long."""
        self.until = self.world.now + seconds
        self._change()

    def _change(self) -> None:
        if self.world.now < self.until:
            rounds, number = divmod(self.turn, SERVICES)
            self.turn += 1
            addresses = self.addresses(number)
            ready = rounds % 2 == 1
            self.world["fjord"].publish(*addresses, key=self.key(number), ready=ready)
            self.world.at(EACH / self.rate, self._change)

    def done(self) -> bool:
        """Whether mesa shows a state of fjord."""
        return self.world["mesa"].version("fjord") > ZERO

    def run(self, seconds: float) -> None:
        """Let time pass, until the bootstrap has ended at most."""
        end = self.world.now + seconds
        while not self.done() and self.world.now < end:
            self.world.run(0.1)
            remote = next(iter(self.world["mesa"].replica.remotes.values()), None)
            if remote is not None and remote.staging is not None:
                self.most = max(self.most, len(remote.staging.entries))

    def sent(self) -> int:
        """Entries that were sent to mesa."""
        return sum(sent.entries for sent in self.world.transfers("mesa"))


@pytest.mark.parametrize("rate", [10.0, 20.0, 30.0])
def test_p19_a_bootstrap_ends_while_fewer_elements_change_than_the_link_carries(
    rate: float,
) -> None:
    narrow = Narrow(rate)
    narrow.churn(120.0)
    narrow.run(BEGUN + STATE / (WIDTH - rate))
    assert narrow.done()
    assert narrow.most <= STATE


@pytest.mark.parametrize("rate", [45.0, 90.0])
def test_p19_it_ends_once_fewer_change_where_more_changed_than_the_link_carries(
    rate: float,
) -> None:
    narrow = Narrow(rate)
    narrow.churn(40.0)
    narrow.run(40.0)
    assert not narrow.done()
    assert narrow.sent() >= 4 * STATE, "it was sent more than the whole state meanwhile"
    narrow.run(BEGUN + STATE / WIDTH)
    assert narrow.done()
    assert narrow.most <= STATE, "of a second value of an element one is kept"
