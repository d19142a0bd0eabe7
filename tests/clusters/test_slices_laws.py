"""Laws of planning: what holds for any endpoints, any history and any damage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clusters.model import ChangeOp, Endpoint, Manifest
from clusters.slices import SliceSettings, plan
from tests.clusters.makers import CART, endpoint_sets, json_values
from tests.clusters.slice_server import Remote, Server, endpoint, no, yes

REMOTES = st.dictionaries(st.sampled_from(["mesa", "tundra", "atoll"]), endpoint_sets, max_size=3)


def wanted(remote: Remote) -> dict[str, set[str]]:
    """What a server must hold for ``remote``: by cluster, addresses with ports."""
    found = {
        cluster: {f"{item.address} {item.ports}" for item in endpoints}
        for cluster, endpoints in remote.items()
    }
    return {cluster: names for cluster, names in found.items() if names}


@settings(max_examples=60, deadline=None)
@given(
    history=st.lists(REMOTES, min_size=1, max_size=4),
    limit=st.integers(1, 5),
    share_zones=st.booleans(),
)
def test_carrying_out_a_plan_leads_to_what_was_wanted_and_the_next_plan_is_empty(
    history: list[dict[str, list[Endpoint]]], limit: int, *, share_zones: bool
) -> None:
    server = Server(limit=limit, share_zones=share_zones)
    for remote in history:
        writable = {
            cluster: [replace(item, hostname=None) for item in endpoints]
            for cluster, endpoints in remote.items()
        }
        for shape in (writable, remote):
            server.sync(shape)
            assert server.plan(shape) == []
            held = {cluster: len(names) for cluster, names in server.holds().items()}
            assert held == {cluster: len(names) for cluster, names in wanted(shape).items()}


@settings(max_examples=60, deadline=None)
@given(REMOTES, REMOTES, st.integers(1, 5))
def test_m9_a_plan_that_may_delete_nothing_keeps_every_address(
    before: dict[str, list[Endpoint]], after: dict[str, list[Endpoint]], limit: int
) -> None:
    server = Server(limit=limit)
    server.sync(before)
    held = server.holds()
    server.settings = SliceSettings(max_endpoints=1000)
    server.sync(after, no)
    for cluster, names in held.items():
        assert set(names) <= set(server.holds()[cluster])
    assert server.plan(after, no) == []


@given(endpoint_sets, st.data())
def test_the_order_of_the_inputs_plays_no_part(
    endpoints: list[Endpoint], data: st.DataObject
) -> None:
    server = Server(limit=3)
    server.sync({"mesa": endpoints[: len(endpoints) // 2]})
    shuffled = data.draw(st.permutations(endpoints))
    observed = data.draw(st.permutations(list(server.objects.values())))
    one = server.plan({"mesa": endpoints})
    two = plan(CART, {"mesa": shuffled}, observed, settings=server.settings, deletable=yes)
    assert one == two


@given(
    st.dictionaries(st.sampled_from(["addressType", "ports", "endpoints", "x"]), json_values),
    st.dictionaries(st.sampled_from(["labels", "annotations"]), json_values),
)
def test_whatever_was_made_of_a_slice_it_is_restored(
    fields: Manifest, metadata: dict[str, Any]
) -> None:
    server = Server()
    remote = {"mesa": [endpoint(0), endpoint(1)]}
    server.sync(remote)
    found = server.only()
    found.update(fields)
    found["metadata"].update(metadata)
    changes = server.plan(remote)
    assert len(changes) <= 2
    if all(change.op is ChangeOp.UPDATE for change in changes):
        for change in changes:
            server.apply(change)
        assert server.plan(remote) == []
