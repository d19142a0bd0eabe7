"""Certificates and bundles that change while agents run (cases C59 and C62)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from replicator.errors import PkiError
from replicator.identity import PeerIdentity
from replicator.pem import certificates_pem, key_pem
from replicator.pki import Authority, Issued
from replicator.transport.base import Link
from replicator.transport.dialer import TlsDialer
from replicator.transport.identity_files import Credentials
from replicator.transport.reload import POLL_SECONDS, LiveTls
from replicator.transport.server import TlsListener
from tests.support.certificates import authority, changed_authority, now, pair, soon, write
from tests.support.clock import FakeClock
from tests.support.network import (
    DIAL_SECONDS,
    echo,
    eventually,
    identity,
    live_tls,
    tls_files,
    url_of,
)


class Pair:
    """fjord and mesa, each with a listener; a round is a link and a frame in each direction."""

    def __init__(self, folder: Path, ca: Authority) -> None:
        self.folder = folder
        self.live = {name: live_tls(folder / name, ca, name) for name in ("fjord", "mesa")}
        self.listeners = {
            name: TlsListener("127.0.0.1", 0, live) for name, live in self.live.items()
        }

    async def start(self) -> None:
        for listener in self.listeners.values():
            await listener.start(echo)

    async def stop(self) -> None:
        for listener in self.listeners.values():
            await listener.stop(1.0)

    def put(self, cluster: str, **files: bytes) -> None:
        names = {"certificate": "tls.crt", "key": "tls.key", "bundle": "ca.crt"}
        for name, data in files.items():
            (self.folder / cluster / names[name]).write_bytes(data)

    def check(self) -> None:
        for live in self.live.values():
            live.check()

    async def dial(self, by: str, to: str) -> Link:
        dialer = TlsDialer(self.live[by], now)
        return await dialer.dial(url_of(self.listeners[to]), to, DIAL_SECONDS)

    async def round(self) -> dict[str, bytes]:
        """Link both ways; returns the certificate each cluster showed to the other."""
        shown = {}
        for by, to in (("fjord", "mesa"), ("mesa", "fjord")):
            link = await self.dial(by, to)
            await link.send(b"hello")
            assert await link.receive() == b"hello"
            shown[to] = link.peer_certificate
            await link.close()
        return shown


@pytest.fixture
async def ca() -> Authority:
    return authority()


@pytest.fixture
async def clusters(tmp_path: Path, ca: Authority) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        both = Pair(tmp_path, ca)
        await both.start()
        stack.push_async_callback(both.stop)
        yield both


def pem(*issued: Issued | Authority) -> bytes:
    return certificates_pem([item.certificate for item in issued])


async def test_a_half_rotated_pair_serves_the_old_one_until_both_halves_are_there(
    clusters: Pair, ca: Authority
) -> None:
    """C59: no handshake fails meanwhile, one error is counted, and both directions switch."""
    old, new = await clusters.round(), pair(ca, "mesa")
    mesa = clusters.live["mesa"]
    clusters.put("mesa", certificate=pem(new))
    with capture_logs() as logs:
        for _ in range(3):
            assert not mesa.check()
    assert [entry["event"] for entry in logs] == ["tls_reload_failed"]
    assert mesa.reload_errors == 1
    assert mesa.last_error is not None
    assert mesa.last_error.code == "key_mismatch"
    assert mesa.last_error.cure
    assert await clusters.round() == old
    clusters.put("mesa", key=key_pem(new.key))
    assert mesa.check()
    assert (mesa.reloads, mesa.last_error) == (1, None)
    assert (await clusters.round())["mesa"] == mesa.credentials.chain_der[0] != old["mesa"]
    seen = await seen_by(clusters, "fjord", "mesa")
    assert seen == mesa.credentials.chain_der[0]


async def seen_by(clusters: Pair, listening: str, dialling: str) -> bytes:
    """The certificate a listener sees of who dials it."""
    links: list[Link] = []

    async def keep(link: Link) -> None:
        links.append(link)

    listener = TlsListener("127.0.0.1", 0, clusters.live[listening])
    await listener.start(keep)
    dialer = TlsDialer(clusters.live[dialling], now)
    link = await dialer.dial(url_of(listener), listening, DIAL_SECONDS)
    await eventually(lambda: bool(links))
    await link.close()
    await listener.stop(1.0)
    return links[0].peer_certificate


async def test_links_that_exist_outlive_a_rotation(clusters: Pair, ca: Authority) -> None:
    link = await clusters.dial("fjord", "mesa")
    new = pair(ca, "mesa")
    clusters.put("mesa", certificate=pem(new), key=key_pem(new.key))
    assert clusters.live["mesa"].check()
    await link.send(b"still")
    assert await link.receive() == b"still"
    await link.close()


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ({"certificate": b""}, "bad_certificate"),
        ({"certificate": b"-----BEGIN CERTIFICATE-----\nMIIB"}, "bad_certificate"),
        (
            {"key": b"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----"},
            "bad_certificate",
        ),
        ({"bundle": b"nothing here"}, "bad_certificate"),
    ],
)
async def test_a_damaged_file_changes_nothing(
    clusters: Pair, damage: dict[str, bytes], code: str
) -> None:
    before = await clusters.round()
    clusters.put("fjord", **damage)
    fjord = clusters.live["fjord"]
    assert not fjord.check()
    assert fjord.last_error is not None
    assert fjord.last_error.code == code
    assert str(clusters.folder / "fjord") in fjord.last_error.message
    assert await clusters.round() == before


async def test_a_missing_file_changes_nothing_and_coming_back_clears_the_error(
    clusters: Pair,
) -> None:
    path = clusters.folder / "fjord" / "tls.crt"
    content = path.read_bytes()
    path.unlink()
    fjord = clusters.live["fjord"]
    assert not fjord.check()
    assert not fjord.check()
    assert fjord.reload_errors == 1
    path.write_bytes(content)
    assert not fjord.check()
    assert (fjord.last_error, fjord.reloads) == (None, 0)
    await clusters.round()


async def test_a_pair_of_another_cluster_or_authority_does_not_go_live(
    clusters: Pair, ca: Authority
) -> None:
    fjord = clusters.live["fjord"]
    for issued, code in (
        (pair(ca, "tundra"), "identity_mismatch"),
        (pair(authority(), "fjord"), "untrusted_chain"),
    ):
        clusters.put("fjord", certificate=pem(issued), key=key_pem(issued.key))
        assert not fjord.check()
        assert fjord.last_error is not None
        assert fjord.last_error.code == code
    assert fjord.reload_errors == 2
    await clusters.round()


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_trust_moves_to_another_authority_in_any_order_without_a_failed_round(
    clusters: Pair, ca: Authority, order: tuple[int, ...]
) -> None:
    """C62: bundles overlap, certificates follow, the old authority goes; file by file."""
    new_ca = authority()
    mesa, fjord = pair(new_ca, "mesa"), pair(new_ca, "fjord")
    steps: list[list[tuple[str, dict[str, bytes]]]] = [
        [("fjord", {"bundle": pem(ca, new_ca)})],
        [
            ("mesa", {"certificate": pem(mesa)}),
            ("mesa", {"key": key_pem(mesa.key)}),
            ("mesa", {"bundle": pem(ca, new_ca)}),
        ],
        [
            ("fjord", {"bundle": pem(new_ca)}),
            ("fjord", {"certificate": pem(fjord)}),
            ("fjord", {"key": key_pem(fjord.key)}),
        ],
    ]
    for step in steps:
        for number in [index for index in order if index < len(step)]:
            cluster, files = step[number]
            clusters.put(cluster, **files)
            clusters.check()
            await clusters.round()
    for live in clusters.live.values():
        assert live.credentials.roots[-1] == new_ca.certificate
        assert live.last_error is None
    assert clusters.live["fjord"].credentials.roots == (new_ca.certificate,)


async def test_an_ended_authority_beside_a_good_one_does_no_harm(
    clusters: Pair, ca: Authority
) -> None:
    """C62, last step: what is left of the old authority in the bundle may end."""
    ended = changed_authority(authority(), start=soon(-48), end=soon(-24))
    clusters.put("fjord", bundle=pem(ended, ca))
    assert clusters.live["fjord"].check()
    await clusters.round()


@pytest.mark.parametrize(
    "quirk",
    [
        lambda text: text.rstrip(b"\n"),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"Subject: CN=prod\nsome words\n" + text,
        lambda text: text + text,
        lambda text: text.rstrip(b"\n") + text,
    ],
    ids=["no final newline", "crlf", "text before", "twice", "joined without newline"],
)
async def test_a_bundle_may_be_written_carelessly(
    clusters: Pair, ca: Authority, quirk: object
) -> None:
    text = quirk(pem(authority(), ca))  # type: ignore[operator]
    clusters.put("mesa", bundle=text, certificate=pem(pair(ca, "mesa")))
    new = pair(ca, "mesa")
    clusters.put("mesa", certificate=quirk(pem(new)), key=key_pem(new.key))  # type: ignore[operator]
    assert clusters.live["mesa"].check(), clusters.live["mesa"].last_error
    await clusters.round()


async def test_a_leaf_in_the_bundle_is_refused_with_its_subject(
    clusters: Pair, ca: Authority
) -> None:
    clusters.put("mesa", bundle=pem(ca, pair(ca, "tundra")))
    mesa = clusters.live["mesa"]
    assert not mesa.check()
    assert mesa.last_error is not None
    assert "CN=tundra" in mesa.last_error.message
    assert "ca.crt" in mesa.last_error.message
    assert mesa.last_error.code == "not_an_authority"


async def test_an_authority_as_certificate_is_refused(clusters: Pair, ca: Authority) -> None:
    clusters.put("mesa", certificate=pem(ca), key=key_pem(ca.key))
    mesa = clusters.live["mesa"]
    assert not mesa.check()
    assert mesa.last_error is not None
    assert mesa.last_error.code == "authority_as_certificate"


def test_an_agent_does_not_start_with_what_its_peers_would_refuse(tmp_path: Path) -> None:
    ca = authority()
    write(tmp_path, pair(ca, "fjord"), [authority().certificate])
    with pytest.raises(PkiError) as caught:
        LiveTls(tls_files(tmp_path), identity("fjord"), now)
    assert caught.value.code == "untrusted_chain"
    assert "the trust bundle" in caught.value.message
    write(tmp_path, pair(ca, "fjord"), [ca.certificate])
    with pytest.raises(PkiError, match="spiffe://other/cluster/fjord"):
        LiveTls(tls_files(tmp_path), PeerIdentity("other", "fjord"), now)


async def test_the_files_are_compared_every_ten_seconds(tmp_path: Path) -> None:
    ca, clock = authority(), FakeClock()
    changes: list[Credentials] = []
    issued = pair(ca, "fjord")
    write(tmp_path, issued, [ca.certificate])
    live = LiveTls(tls_files(tmp_path), identity("fjord"), now, changes.append)
    task = asyncio.create_task(live._poll(clock))
    new = pair(ca, "fjord")
    (tmp_path / "tls.crt").write_bytes(pem(new))
    await clock.run_for(POLL_SECONDS * 1.5)
    assert live.reload_errors == 1
    (tmp_path / "tls.key").write_bytes(key_pem(new.key))
    await clock.run_for(POLL_SECONDS)
    task.cancel()
    assert changes == [live.credentials]
    assert live.credentials.chain == (new.certificate,)


async def test_a_secret_swapped_by_its_symlink_is_seen_at_once(tmp_path: Path) -> None:
    """Mounted secrets change by renaming a symlink to a folder; no polling is needed to notice."""
    ca, clock = authority(), FakeClock()
    for name in ("one", "two"):
        write(tmp_path / name, pair(ca, "fjord"), [ca.certificate])
    (tmp_path / "current").symlink_to("one")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"current/{name}")
    changed = asyncio.Event()
    live = LiveTls(tls_files(tmp_path), identity("fjord"), now, lambda _: changed.set())
    task = asyncio.create_task(live.run(clock))
    await eventually(lambda: live.watching is True)
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "current")
    async with asyncio.timeout(DIAL_SECONDS):
        await changed.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert live.reloads == 1


async def test_without_a_watch_polling_goes_on(tmp_path: Path) -> None:
    ca, clock = authority(), FakeClock()
    write(tmp_path / "gone", pair(ca, "fjord"), [ca.certificate])
    live = LiveTls(tls_files(tmp_path / "gone"), identity("fjord"), now)
    (tmp_path / "gone").rename(tmp_path / "moved")
    task = asyncio.create_task(live.run(clock))
    await eventually(lambda: clock.sleepers == 2 and live.watching is False)
    await clock.run_for(POLL_SECONDS)
    assert live.reload_errors == 1
    (tmp_path / "moved").rename(tmp_path / "gone")
    await clock.run_for(POLL_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert live.last_error is None
