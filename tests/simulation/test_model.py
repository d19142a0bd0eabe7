"""Property 49: the production core shows what the forty-line model shows, on the same events."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.model import ServiceKey
from tests.support.reference_model import ModelNetwork
from tests.support.replicas import World

NAMES = ("fjord", "mesa", "tundra")
KEYS = (ServiceKey("shop", "cart"), ServiceKey("shop", "pay"))
PAIRS = (("fjord", "mesa"), ("mesa", "tundra"), ("fjord", "tundra"))
SETTLE_SECONDS = 4.0
"""Two beats and a stalled source."""

names, keys = st.sampled_from(NAMES), st.sampled_from(KEYS)
addresses = st.sets(st.integers(1, 4), max_size=3).map(
    lambda numbers: tuple(f"10.0.0.{number}" for number in sorted(numbers))
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), names, keys, addresses),
        st.tuples(st.just("publish"), names),
        st.tuples(st.just("link"), st.sampled_from(PAIRS)),
        st.tuples(st.just("cut"), st.sampled_from(PAIRS)),
        st.tuples(st.just("floor"), names),
        st.tuples(st.just("save"), names),
        st.tuples(st.just("crash"), names),
        st.tuples(st.just("settle")),
    ),
    max_size=24,
)


class Both:
    """The model and the core, told the same."""

    def __init__(self) -> None:
        self.model = ModelNetwork(NAMES)
        self.core = World(*NAMES, tick=0.25, chunk_bytes=60)

    def tell(self, event: tuple[object, ...]) -> None:
        """One event, then compare everything."""
        getattr(self, f"_{event[0]}")(*event[1:])
        for name in NAMES:
            for origin in NAMES:
                for key in KEYS:
                    self.compare(name, origin, key)

    def compare(self, name: str, origin: str, key: ServiceKey) -> None:
        if name != origin:
            wanted = self.model.shows(name, origin, key)
            assert tuple(self.core[name].sees(origin, key)) == (wanted or ()), (name, origin, key)

    def _say(self, name: str, key: ServiceKey, some: tuple[str, ...]) -> None:
        self.model.say(name, key, some)
        self.core[name].say(*some, key=key)

    def _publish(self, name: str) -> None:
        # In step with the model: nothing is under way when a state is published.
        self._settle()
        self.model.publish(name)
        self.core[name].publish()
        self._settle()

    def _link(self, pair: tuple[str, str]) -> None:
        if not self.core.between(*pair):
            self.model.links.add(frozenset(pair))
            self.core.connect(*pair)
        self._settle()

    def _cut(self, pair: tuple[str, str]) -> None:
        self.model.links.discard(frozenset(pair))
        self.core.cut(*pair)

    def _floor(self, name: str) -> None:
        """The model knows no tombstones: collecting them must show nowhere."""
        own = self.core[name].replica.own
        if own.head is not None:
            own.move_floor(own.head.stamp, self.core[name].wall_ns)

    def _save(self, name: str) -> None:
        self.model.save(name)
        self.core[name].save()

    def _crash(self, name: str) -> None:
        self.model.crash(name)
        self.core.crash(name)

    def _settle(self) -> None:
        self.model.settle()
        self.core.run(SETTLE_SECONDS)


def agree(events: list[tuple[object, ...]]) -> None:
    both = Both()
    for event in events:
        both.tell(event)
    for pair in PAIRS:
        both.tell(("link", pair))
    for name in NAMES:
        both.tell(("publish", name))
    assert len(both.core.digests()) == 1


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_the_core_shows_what_the_model_shows(events: list[tuple[object, ...]]) -> None:
    agree(events)


@pytest.mark.sim
@pytest.mark.timeout(600)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(EVENTS)
def test_the_core_shows_what_the_model_shows_on_many_lists(
    events: list[tuple[object, ...]],
) -> None:
    agree(events)
