"""Forgetting and admitting over real HTTP: what is passed on, and who is turned away."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from replicator.errors import InputError, JournalError, NotGood
from replicator.ops.server import OperatorServer
from replicator.policies import Subject
from tests.support.fake_views import FakeViews

GOOD = json.dumps({"cluster": "mesa"})
JSON = {"Content-Type": "application/json"}


async def post(
    http: aiohttp.ClientSession,
    server: OperatorServer,
    decision: str = "forget",
    data: Any = GOOD,
    headers: dict[str, str] = JSON,
) -> tuple[int, Any]:
    """(status, document)."""
    url = f"http://{server.address}/v1/{decision}"
    async with http.post(url, data=data, headers=headers) as answer:
        assert answer.content_type == "application/json"
        return answer.status, await answer.json()


@pytest.mark.parametrize("decision", ["forget", "admit"])
async def test_a_decision_is_passed_on_and_answered(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews, decision: str
) -> None:
    told = {"cluster": "mesa", "decision": decision, "elements": 2, "services": 1}
    assert await post(http, operator, decision) == (200, told)
    assert views.decisions == [(decision, "mesa")]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, 415, "bad_content_type"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "bad_content_type"),
        ({"Content-Type": "application/json-patch+json"}, 415, "bad_content_type"),
        (JSON | {"Origin": "https://evil.example"}, 403, "cross_site"),
        (JSON | {"Origin": "null"}, 403, "cross_site"),
        (JSON | {"Host": "evil.example"}, 403, "bad_host"),
    ],
)
async def test_a_page_of_another_site_decides_nothing(
    operator: OperatorServer,
    http: aiohttp.ClientSession,
    views: FakeViews,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    answered, document = await post(http, operator, headers=headers)
    assert (answered, document["error"]["code"]) == (status, code)
    assert document["error"]["cure"]
    assert views.decisions == []


async def _in_pieces() -> Any:
    yield GOOD.encode()


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "[" * 1000,
        "[]",
        "{}",
        '"mesa"',
        '{"cluster": "mesa", "force": true}',
        '{"cluster": 5}',
        '{"cluster": ""}',
        '{"cluster": "Not a label"}',
        json.dumps({"cluster": "m" * 64}),
        json.dumps({"cluster": "m" * 5000}),
        b'{"cluster": "\xff"}',
    ],
    ids=lambda data: repr(data)[:30],
)
async def test_a_wrong_body_is_400(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews, data: Any
) -> None:
    status, document = await post(http, operator, data=data)
    assert (status, document["error"]["code"]) == (400, "bad_body")
    assert views.decisions == []


async def test_a_body_without_a_length_is_not_read(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    status, document = await post(http, operator, data=_in_pieces())
    assert (status, document["error"]["code"]) == (400, "bad_body")
    assert views.decisions == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NotGood("mesa is alive", cure="wait", code="cluster_alive"), 409),
        (InputError("no cluster mesa", cure="look", code="unknown_cluster"), 400),
        (JournalError("disk full", cure="free some space"), 503),
    ],
)
async def test_what_may_not_be_keeps_its_code_message_and_cure(
    operator: OperatorServer,
    http: aiohttp.ClientSession,
    views: FakeViews,
    failure: NotGood,
    status: int,
) -> None:
    views.failure = failure
    answered, document = await post(http, operator)
    error = {"code": failure.code, "message": failure.message, "cure": failure.cure}
    assert (answered, document) == (status, {"error": error})


async def test_reading_a_decision_is_405_and_says_how(
    operator: OperatorServer, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"http://{operator.address}/v1/forget") as answer:
        assert answer.status == 405
        assert (await answer.json())["error"]["cure"] == "use POST"


# ---- policies ----------------------------------------------------------------------------------

DRAIN = {"policy": "drain", "cluster": "mesa", "service": "shop/cart", "setting": "drained"}


async def test_a_policy_is_passed_on_and_answered(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    told = DRAIN | {"changed": True, "services": 2, "kept": 1}
    assert await post(http, operator, "policies", json.dumps(DRAIN)) == (200, told)
    assert views.steered == [(Subject("drain", "mesa", "shop", "cart"), "drained")]


async def test_policies_are_listed_at_the_same_path(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.policy_rows = [DRAIN | {"by": "fjord", "order": 1}]
    async with http.get(f"http://{operator.address}/v1/policies") as answer:
        assert await answer.json() == {"items": views.policy_rows}


@pytest.mark.parametrize(
    "changes", [{"policy": "mirror"}, {"cluster": None}, {"setting": 5}, {"more": 1}]
)
async def test_a_policy_that_makes_no_sense_is_400(
    operator: OperatorServer,
    http: aiohttp.ClientSession,
    views: FakeViews,
    changes: dict[str, Any],
) -> None:
    status, document = await post(http, operator, "policies", json.dumps(DRAIN | changes))
    assert (status, document["error"]["code"]) == (400, "bad_body")
    assert views.steered == []


async def test_a_release_is_passed_on_and_answered(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    body = json.dumps({"cluster": "mesa", "service": None})
    row = {"service": "shop/cart", "cluster": "mesa", "removed": 6, "written": 8}
    assert await post(http, operator, "release", body) == (200, {"released": [row]})
    assert views.releases == [("mesa", None)]


@pytest.mark.parametrize("wrong", [{"cluster": 1, "service": None}, {"cluster": "mesa"}])
async def test_a_bad_release_is_refused(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews, wrong: dict[str, Any]
) -> None:
    status, document = await post(http, operator, "release", json.dumps(wrong))
    assert (status, document["error"]["code"]) == (400, "bad_body")
    assert views.releases == []
