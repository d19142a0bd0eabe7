"""The operator API over real HTTP: paths, shapes, errors, and who may ask."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from replicator.errors import JournalError
from replicator.ops.server import OperatorServer
from tests.support.fake_views import FakeViews, item


async def ask(
    http: aiohttp.ClientSession, server: OperatorServer, path: str, **more: Any
) -> tuple[int, Any]:
    """(status, document) of a GET."""
    async with http.get(f"http://{server.address}{path}", **more) as answer:
        assert answer.content_type == "application/json"
        return answer.status, await answer.json()


async def test_documents_are_carried_as_the_views_give_them(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.service_rows = [{"namespace": "shop", "service": "cart", "clusters": []}]
    views.snapshot_document = {"format": "replicator.snapshot/1"}
    expected = {
        "/v1/status": views.status(),
        "/v1/peers": {"items": views.peers()},
        "/v1/clusters": {"items": views.clusters()},
        "/v1/services": {"items": views.service_rows},
        "/v1/endpoints": {"items": []},
        "/v1/snapshot": views.snapshot_document,
        "/v1/config": views.config_document,
    }
    for path, document in expected.items():
        assert await ask(http, operator, path) == (200, document), path


async def test_endpoints_are_chosen_by_the_query(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.items = [item(), item("10.40.1.1", service="pay", tag="mesa:5")]
    path = "/v1/endpoints?namespace=shop&service=cart&cluster=fjord"
    assert await ask(http, operator, path) == (200, {"items": [item()]})
    assert views.asked == [("shop", "cart", "fjord")]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/v1/endpoints?namespce=shop", "namespce"),
        ("/v1/endpoints?namespace=", "namespace"),
        ("/v1/endpoints?service=a/b", "service"),
        ("/v1/endpoints?cluster=a&cluster=b", "cluster"),
        ("/v1/endpoints?cluster=" + "a" * 300, "cluster"),
        ("/v1/watch?since=5", "since"),
        ("/v1/status?verbose=1", "verbose"),
    ],
)
async def test_a_wrong_query_is_400_and_named(
    operator: OperatorServer, http: aiohttp.ClientSession, path: str, named: str
) -> None:
    status, document = await ask(http, operator, path)
    assert status == 400
    assert document["error"]["code"] == "bad_parameter"
    assert named in document["error"]["message"]
    assert document["error"]["cure"]


async def test_an_unknown_path_is_404_in_json(
    operator: OperatorServer, http: aiohttp.ClientSession
) -> None:
    status, document = await ask(http, operator, "/v2/status")
    assert (status, document["error"]["code"]) == (404, "not_found")
    assert "/v2/status" in document["error"]["message"]


async def test_writing_is_405_in_json(
    operator: OperatorServer, http: aiohttp.ClientSession
) -> None:
    async with http.post(f"http://{operator.address}/v1/status", json={}) as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "GET, HEAD"
        assert (await answer.json())["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7480", "10.0.0.1"])
async def test_a_page_that_made_its_name_resolve_here_gets_nothing(
    operator: OperatorServer, http: aiohttp.ClientSession, host: str
) -> None:
    for path in ("/v1/status", "/v1/watch", "/nothing"):
        status, document = await ask(http, operator, path, headers={"Host": host})
        assert (status, document["error"]["code"]) == (403, "bad_host")


async def test_localhost_is_as_good_as_the_address(
    operator: OperatorServer, http: aiohttp.ClientSession
) -> None:
    status, _ = await ask(http, operator, "/v1/status", headers={"Host": "localhost:7480"})
    assert status == 200


async def test_a_failure_of_ours_is_503_with_its_cure(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.failure = JournalError("disk full", cure="free some space")
    status, document = await ask(http, operator, "/v1/status")
    assert status == 503
    assert document == {
        "error": {"code": "journal_failed", "cure": "free some space", "message": "disk full"}
    }


async def test_a_defect_is_500_and_shows_nothing_of_itself(
    operator: OperatorServer, http: aiohttp.ClientSession, views: FakeViews
) -> None:
    views.failure = RuntimeError("secret inner detail")
    status, document = await ask(http, operator, "/v1/status")
    assert (status, document["error"]["code"]) == (500, "internal")
    assert "secret" not in str(document)
