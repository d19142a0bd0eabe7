from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replicator.demo.lag import (
    Phases,
    Sample,
    Spread,
    by_pair,
    over_the_delay,
    sample_of,
    spread,
)

MS = 1_000_000
PHASES = Phases("tundra", began=100 * MS, cut=200 * MS, heal=300 * MS, healed=350 * MS)


def sample(made: int, committed: int, origin: str = "fjord", reader: str = "mesa") -> Sample:
    """A sample with its times in milliseconds."""
    return Sample(origin, reader, made * MS, committed * MS)


def change(origin: str) -> dict[str, object]:
    return {
        "op": "add",
        "item": {"tag": f"{origin}:1764655200000000000"},
        "origin": origin,
        "committed_at": "1764655200042500000",
        "convergence_ms": 1.0,
    }


def test_a_watched_change_of_another_region_took_from_its_stamp_to_its_commit() -> None:
    found = sample_of("mesa", change("fjord"))
    assert found == Sample("fjord", "mesa", 1764655200000000000, 1764655200042500000)
    assert found.ms == 42.5


def test_a_regions_own_change_is_no_sample() -> None:
    assert sample_of("fjord", change("fjord")) is None


def test_the_spread_of_a_hundred_times_is_its_ranks() -> None:
    assert spread(float(n) for n in range(100, 0, -1)) == Spread(50.0, 99.0, 100.0, 100)


def test_the_spread_of_one_time_is_that_time_and_of_none_is_none() -> None:
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0, 1)
    assert spread([]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_times_that_occurred_in_order(times: list[float]) -> None:
    found = spread(times)
    assert found is not None
    assert {found.p50, found.p99, found.longest} <= set(times)
    assert found.p50 <= found.p99 <= found.longest == max(times)
    assert sum(time <= found.p50 for time in times) * 2 >= len(times)


def test_pairs_are_kept_apart_by_direction() -> None:
    there, back = sample(0, 10), sample(0, 30, "mesa", "fjord")
    assert by_pair([back, there, there]) == {
        ("fjord", "mesa"): Spread(10.0, 10.0, 10.0, 2),
        ("mesa", "fjord"): Spread(30.0, 30.0, 30.0, 1),
    }


def test_each_samples_own_delay_is_taken_off_before_pairs_are_put_together() -> None:
    delays = {("fjord", "mesa"): 10.0, ("mesa", "fjord"): 25.0}
    found = over_the_delay(
        [sample(0, 12), sample(0, 30, "mesa", "fjord")], lambda a, b: delays[a, b]
    )
    assert found == Spread(2.0, 5.0, 5.0, 2)


def test_before_the_cut_counts_only_what_was_made_and_committed_before_it() -> None:
    inside = sample(100, 199)
    assert PHASES.before([inside, sample(99, 150), sample(190, 200)]) == [inside]


def test_meanwhile_counts_only_pairs_that_were_not_cut() -> None:
    inside = sample(200, 299)
    others = [
        sample(200, 250, "tundra", "mesa"),
        sample(200, 250, "mesa", "tundra"),
        sample(199, 250),
        sample(200, 300),
    ]
    assert PHASES.meanwhile([inside, *others]) == [inside]


def test_what_waited_crossed_the_cut_after_the_heal_however_early_it_was_made() -> None:
    lost_on_the_way, made_within = sample(199, 320, "tundra"), sample(250, 300, "mesa", "tundra")
    others = [sample(250, 320), sample(300, 320, "tundra"), sample(150, 190, "tundra")]
    assert PHASES.waited([lost_on_the_way, made_within, *others]) == [lost_on_the_way, made_within]


def test_after_the_heal_counts_what_was_made_once_all_had_healed() -> None:
    assert PHASES.after([sample(349, 400), sample(350, 400)]) == [sample(350, 400)]
