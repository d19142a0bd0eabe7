"""Runs the handler of one link, whatever it does: the link is closed after it and others go on."""

from __future__ import annotations

import structlog

from replicator.transport.base import FAILED, NORMAL, Link, LinkClosed, OnLink

_log = structlog.get_logger()


async def supervise(on_link: OnLink, link: Link) -> None:
    """Run ``on_link`` and close ``link``: with 1011 if the handler failed, which is logged."""
    code = NORMAL
    try:
        await on_link(link)
    except LinkClosed:
        pass
    except Exception:  # noqa: BLE001 - the supervisor of links: one that fails must not end others
        code = FAILED
        _log.exception("link_handler_failed", peer=link.identity.cluster)
    finally:
        await link.close(code)
