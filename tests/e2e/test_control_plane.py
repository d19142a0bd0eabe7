"""The test bed itself: what the replication tests take for granted about the control planes."""

from __future__ import annotations

import asyncio

import pytest

from .conftest import Planes
from .kube.api import ApiError
from .kube.control_plane import ControlPlane
from .objects import (
    MANAGER_LABEL,
    NAMESPACE,
    PODS,
    SERVICES,
    SLICES,
    endpoint,
    endpoint_slice,
    local,
    pod,
    readiness,
    running,
    service,
    versions,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="session"),
    # What a test waits for has its own deadlines, which explain themselves; this one does not.
    pytest.mark.timeout(600, func_only=True),
]


async def test_three_control_planes_are_separate(planes: Planes, name: str) -> None:
    await planes["a"].admin.create(SERVICES, service(name))

    created = await planes["a"].admin.get(f"{SERVICES}/{name}")
    assert created["spec"]["clusterIP"].startswith("10.200.")
    for other in ("b", "c"):
        with pytest.raises(ApiError, match="404"):
            await planes[other].admin.get(f"{SERVICES}/{name}")


async def test_the_version_asked_for_is_the_one_that_answers(planes: Planes) -> None:
    for plane in planes.values():
        answer = await plane.admin.get("/version")
        assert answer["gitVersion"] == f"v{plane.built.version}"


async def test_the_controller_manager_follows_pods_with_slices(planes: Planes, name: str) -> None:
    api = planes["a"].admin
    await api.create(SERVICES, service(name, selects_pods=True))
    await api.create(PODS, pod(name, name))
    await api.patch(f"{PODS}/{name}/status", running("10.1.0.1"))

    made = await api.wait_for(
        SLICES,
        lambda slices: readiness(slices) == {"10.1.0.1": True},
        what="the pod is an endpoint",
        query=local(name),
    )
    assert made[0]["metadata"]["labels"][MANAGER_LABEL] == "endpointslice-controller.k8s.io"

    await api.patch(f"{PODS}/{name}/status", running("10.1.0.1", ready=False))
    await api.wait_for(
        SLICES,
        lambda slices: readiness(slices) == {"10.1.0.1": False},
        what="the pod is an endpoint that is not ready",
        query=local(name),
    )

    await api.delete(f"{SERVICES}/{name}")
    await api.wait_for(
        SLICES,
        lambda slices: not slices,
        what="the garbage collector removed the slices with their Service",
        query=local(name),
    )


@pytest.mark.parametrize(
    ("program", "how"),
    [
        ("apiserver", "stopped"),
        ("apiserver", "killed"),
        ("etcd", "killed"),
        ("controller_manager", "stopped"),
    ],
)
async def test_a_program_restarts_with_its_data(
    planes: Planes, name: str, program: str, how: str
) -> None:
    plane = planes["b"]
    await plane.admin.create(SERVICES, service(name))
    await plane.admin.create(SLICES, endpoint_slice(name, name, [endpoint("10.1.0.2")]))
    before = versions(await plane.admin.wait_for(SLICES, bool, what="it", query=local(name)))

    await getattr(plane, program).restart(kill=how == "killed")

    after = await plane.admin.wait_for(SLICES, bool, what="it is still there", query=local(name))
    assert versions(after) == before


async def test_waiting_goes_on_over_a_restart_of_the_api_server(planes: Planes, name: str) -> None:
    plane = planes["c"]
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            plane.admin.wait_for(SLICES, bool, what="the slice", query=local(name))
        )
        await plane.apiserver.restart()
        await plane.admin.create(SLICES, endpoint_slice(name, name, [endpoint("10.1.0.3")]))

    assert readiness(waiting.result()) == {"10.1.0.3": True}


async def test_a_condition_that_never_holds_is_told_with_what_was_there(
    planes: Planes, name: str
) -> None:
    await planes["c"].admin.create(SERVICES, service(name))

    with pytest.raises(AssertionError, match=rf'(?s)a thousand of it.*"name": "{name}"'):
        await planes["c"].admin.wait_for(
            SERVICES, lambda found: len(found) > 1_000, what="a thousand of it", seconds=0.5
        )


async def test_the_audit_log_counts_the_writes_of_one_user(
    planes: Planes, name: str, agent_account: str
) -> None:
    plane = planes["a"]
    namespace, account = agent_account.split("/")
    user = f"system:serviceaccount:{namespace}:{account}"
    mark = await plane.mark()
    async with await plane.service_account_api(namespace, account) as api:
        await api.create(SLICES, endpoint_slice(name, name, [endpoint("10.1.0.4")]))
        await api.get(f"{SLICES}/{name}")
        await api.patch(f"{SLICES}/{name}", {"metadata": {"labels": {"x": "y"}}})
        await api.delete(f"{SLICES}/{name}")
        with pytest.raises(ApiError, match="403"):
            await api.create(SERVICES, service(name))

    calls = await plane.calls_since(mark, user)

    writes = [(call.verb, call.resource, call.name, call.code) for call in calls if call.is_write]
    assert writes == [
        ("create", "endpointslices", name, 201),
        ("patch", "endpointslices", name, 200),
        ("delete", "endpointslices", name, 200),
        ("create", "services", "", 403),
    ]
    assert [call.verb for call in calls if not call.is_write] == ["get"]


async def test_the_agents_account_may_read_endpoints_and_nothing_private(
    planes: Planes, agent_account: str
) -> None:
    async with await planes["a"].service_account_api(*agent_account.split("/")) as api:
        for path in (
            "/api/v1/endpoints",
            "/api/v1/namespaces",
            "/api/v1/namespaces/kube-system",
            "/api/v1/services",
            "/apis/discovery.k8s.io/v1/endpointslices",
        ):
            await api.get(path)
        for path in (
            "/api/v1/secrets",
            "/api/v1/pods",
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
        ):
            with pytest.raises(ApiError, match="403"):
                await api.get(path)


async def test_nothing_is_left_running_after_a_control_plane_is_left(
    planes: Planes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("plane")
    async with ControlPlane("d", 9, planes["a"].built, folder) as plane:
        ended = list(plane.programs)
        assert all(program.running for program in ended)

    assert not any(program.running for program in ended)
