"""Replication of one origin as a state machine: any schedule, checked against the reference model.

An owner publishes, collects and changes epochs; chunks are cut from the owner or from any replica,
at any position, and delivered late, twice, out of order, to the wrong transfer, forged or never.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from crdt import ZERO, CrdtError, Entry, Head, MismatchError, OriginSet, Staging
from tests.crdt.origin import (
    PLENTY,
    OwnerHistory,
    add,
    changes_between,
    element,
    picture,
    pull,
    remove,
    state_of,
)
from tests.support.reference_model import ModelReplica, after, root

REPLICAS = 3
replica_numbers = st.integers(0, REPLICAS - 1)
gaps = st.integers(1, 3) | st.just(1_000_000_007)
batches = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 3), gaps), min_size=1, max_size=8)
budgets = st.integers(0, 400) | st.just(PLENTY)


@dataclass
class Pair:
    """A replica and its model, with one transfer under way."""

    core: OriginSet = field(default_factory=OriginSet)
    model: ModelReplica = field(default_factory=ModelReplica)
    staging: Staging = field(default_factory=lambda: Staging(epoch=1, start=0, replaces=True))
    taken: list[Entry] = field(default_factory=list)


class Replication(RuleBasedStateMachine):
    """One owner, three replicas and a post office that promises nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = OwnerHistory()
        self.pairs = [Pair() for _ in range(REPLICAS)]
        self.post: list[tuple[int, int, list[Entry]]] = []

    @initialize(many=st.booleans())
    def the_owner_publishes_its_first_state(self, *, many: bool) -> None:
        count = 90 if many else 5
        self.owner.publish([add(number, number + 1) for number in range(count)])

    @rule(batch=batches, rest=st.integers(0, 2))
    def the_owner_publishes_a_batch(self, batch: list[tuple[int, int, int]], rest: int) -> None:
        stamp = self.owner.stamp
        entries: dict[int, Entry] = {}
        for number, value, gap in batch:
            stamp += gap
            entry = remove(number, stamp) if value == 0 else add(number, stamp, value)
            entries.pop(number, None)
            entries[number] = entry
        self.owner.publish(list(entries.values()), stamp=stamp + rest)

    @rule(back=st.integers(0, 12))
    def the_owner_moves_its_floor(self, back: int) -> None:
        stamp = self.owner.stamp + 1
        self.owner.publish(stamp=stamp, floor=max(self.owner.elements.floor, stamp - back))

    @rule(data=st.data())
    def another_writer_continues_from_a_head(self, data: st.DataObject) -> None:
        self.owner.open_epoch(base=data.draw(st.sampled_from(self.owner.heads[-4:])))

    @rule(back=st.integers(0, 5))
    def another_writer_starts_without_a_base(self, back: int) -> None:
        self.owner.open_epoch(base=None, stamp=max(1, self.owner.stamp - back))

    @rule()
    def the_owner_restarts_from_its_journal(self) -> None:
        self.owner.elements = self.owner.replica()

    @rule(number=replica_numbers, replaces=st.booleans(), back=st.integers(0, 2))
    def a_transfer_begins(self, *, number: int, replaces: bool, back: int) -> None:
        pair = self.pairs[number]
        start = 0 if replaces else pair.core.version.stamp
        epoch = max(1, self.owner.epoch - back)
        pair.staging = Staging(epoch=epoch, start=start, replaces=replaces)
        pair.taken = []

    @rule(
        source=st.integers(-1, REPLICAS - 1),
        reader=replica_numbers,
        back=st.just(0) | st.integers(0, 20),
        budget=budgets,
    )
    def a_chunk_is_cut(self, source: int, reader: int, back: int, budget: int) -> None:
        elements = self.owner.elements if source < 0 else self.pairs[source].core
        start = max(0, self.pairs[reader].staging.position - back)
        entries, to, _ = elements.since(start, budget)
        self.post.append((start, max(start, to), entries))

    @precondition(lambda self: self.post)
    @rule(data=st.data(), number=replica_numbers, forged=st.none() | st.integers(0, 5))
    def a_chunk_is_delivered(self, data: st.DataObject, number: int, forged: int | None) -> None:
        pair = self.pairs[number]
        start, to, entries = data.draw(st.sampled_from(self.post[-6:]))
        entries = entries if forged is None else forge(entries, forged, to)
        position, before = pair.staging.position, dict(pair.staging.entries)
        try:
            pair.staging.add(start, to, entries)
        except CrdtError:
            assert start > position
            assert (pair.staging.position, pair.staging.entries) == (position, before)
        else:
            pair.taken += entries
            assert pair.staging.position == max(position, to)

    @rule(number=replica_numbers, data=st.data())
    def a_replica_tries_to_commit(self, number: int, data: st.DataObject) -> None:
        self.attempt(self.pairs[number], data.draw(st.sampled_from(self.owner.heads[-4:])))

    def attempt(self, pair: Pair, head: Head) -> None:
        """Commit; the core must do exactly what the model does."""
        before, staging = pair.model.state, pair.staging
        newest = [(key, *kept) for key, kept in after({}, pair.taken, -1).items()]
        refusal = pair.model.refusal(
            head, staging.epoch, staging.position, replaces=staging.replaces
        )
        if refusal is None:
            try:
                pair.model.commit(head, newest, replaces=staging.replaces)
            except MismatchError:
                refusal = MismatchError
        if refusal is None:
            told = pair.core.commit(staging, head)
            assert told == changes_between(before, pair.model.state, head.version)
            return
        shown = picture(pair.core)
        with pytest.raises(refusal):
            pair.core.commit(staging, head)
        assert picture(pair.core) == shown

    @rule(number=replica_numbers, budget=st.integers(0, 120), late=st.none() | st.integers(1, 4))
    def a_transfer_goes_on(self, number: int, budget: int, late: int | None) -> None:
        pair, elements, head = self.pairs[number], self.owner.elements, self.owner.head
        staging = pair.staging
        replaces = not pair.core.can_continue(head)
        if staging.epoch != head.epoch or staging.replaces != replaces:
            self.a_transfer_begins(number=number, replaces=replaces, back=0)
            staging = pair.staging
        position = staging.position
        entries, to, complete = elements.since(position, budget)
        chunks = [(position, to, entries)]
        if late is not None:
            chunks += [chunk for chunk in self.post[-late:] if chunk[0] <= position]
        self.post.append(chunks[0])
        for start, end, taken in chunks:
            staging.add(start, max(start, end), taken)
            pair.taken += taken
        if complete:
            self.attempt(pair, head)

    @rule(number=replica_numbers, budget=budgets)
    def a_replica_pulls_everything_from_the_owner(self, number: int, budget: int) -> None:
        pair, owner = self.pairs[number], self.owner
        if pair.core.version < owner.head.version:
            before = pair.model.state
            told = pull(pair.core, owner.elements, owner.head, budget)
            self.follow(pair)
            assert told == changes_between(before, pair.model.state, owner.head.version)

    @rule(number=replica_numbers, source=replica_numbers, budget=budgets)
    def a_replica_pulls_everything_from_another(
        self, number: int, source: int, budget: int
    ) -> None:
        pair, relay = self.pairs[number], self.pairs[source].core
        if pair.core.version < relay.version:
            head = next(head for head in self.owner.heads if head.version == relay.version)
            pull(pair.core, relay, head, budget)
            self.follow(pair)

    def follow(self, pair: Pair) -> None:
        """The model goes where a complete and honest transfer must have led."""
        pair.model.version = pair.core.version
        pair.model.state = self.owner.states[pair.core.version]

    @rule(number=replica_numbers)
    def a_replica_restarts_from_its_journal(self, number: int) -> None:
        pair = self.pairs[number]
        core = pair.core
        pair.core = OriginSet.restored(core.version, core.floor, core.entries())
        pair.staging = Staging(epoch=self.owner.epoch, start=core.version.stamp, replaces=False)
        pair.taken = []

    @invariant()
    def every_committed_state_is_the_owners_at_that_head(self) -> None:
        for pair in self.pairs:
            assert pair.core.version == pair.model.version
            assert state_of(pair.core) == pair.model.state
            if pair.core.version > ZERO:
                assert pair.model.state == self.owner.states[pair.core.version]

    @invariant()
    def what_is_kept_beside_the_entries_agrees_with_them(self) -> None:
        for core in [self.owner.elements, *(pair.core for pair in self.pairs)]:
            state = state_of(core)
            assert core.root() == root(state)
            assert core.live_count == sum(1 for _, op, _ in state.values() if op == 0)
            assert len(core) == core.live_count + core.tombstone_count
            assert all(stamp > core.floor for stamp, op, _ in state.values() if op == 1)
            in_order = sorted(((key, *stored) for key, stored in state.items()), key=lambda e: e[1])
            assert core.since(-1, PLENTY) == (in_order, core.version.stamp, True)


def forge(entries: list[Entry], how: int, to: int) -> list[Entry]:
    """What a malicious relay could make of a chunk."""
    if not entries:
        return [add(11, to)]
    key, stamp, op, value = entries[0]
    forgeries = [
        entries[1:],
        [*entries, (element(99), to, 0, b"\x01")],
        [(key, stamp, op, value + b"\x00"), *entries[1:]],
        [(key, stamp + 1, op, value), *entries[1:]],
        [(key, stamp, 1 - op, value), *entries[1:]],
        [(element(98), stamp, op, value), *entries[1:]],
    ]
    return forgeries[how]


def test_the_core_does_what_the_reference_model_does_on_any_schedule() -> None:
    run_state_machine_as_test(
        Replication, settings=settings(max_examples=40, stateful_step_count=40)
    )
