"""What the steps of a plan do to a world."""

from __future__ import annotations

from collections.abc import Callable

from clusters.model import ServiceKey
from crdt import Origin
from crdt.entries import ADD, stored_of
from replicator.errors import ReplicatorError
from replicator.kinds import ENDPOINT
from replicator.policies import Subject, topic_about
from replicator.simulation.disk import Disk
from replicator.simulation.plan import CHANGE, SERVICES, SETTINGS, Step
from replicator.simulation.process import Process
from replicator.simulation.versions import Release
from replicator.simulation.world import World

_ENDS = ("both", "near", "far")


def perform(world: World, step: Step) -> None:
    """Do one step; what does not apply at the moment does nothing."""
    world.say("step", step)
    _ACTIONS[step.kind](world, step)


def _change(world: World, step: Step) -> None:
    site = world.sites[step.region]
    key = site.bulk(step.amount) if step.kind == "bulk" else site.set(step.other, step.amount)
    for process in world.agents_of(step.region):
        process.reconcile(key, world.now)
        world.settle(process)


def _floor(world: World, step: Step) -> None:
    for process in world.agents_of(step.region):
        own = process.replica.own
        if own.head is not None:
            own.move_floor(max(1, own.head.stamp - step.amount), process.wall_ns(world.now))
            world.settle(process)


def _break(world: World, step: Step) -> None:
    for link in world.network.between(step.region, step.other):
        for pipe in (link.dialler, link.listener):
            pipe.dead = True
        for pipe in (link.dialler, link.listener):
            near = pipe.process.cluster == step.region
            if _ENDS[step.amount] in {"both", "near" if near else "far"}:
                world.gone(pipe)


def _cut(world: World, step: Step) -> None:
    routes = [(step.region, step.other)]
    if step.kind == "partition":
        routes.append((step.other, step.region))
    for route in routes:
        world.network.block(route, dead=step.amount == 1)

    def undo() -> None:
        for route in routes:
            world.resume(world.network.unblock(route))

    world.lasting(step.seconds, undo)


def _slow(world: World, step: Step) -> None:
    routes = [(step.region, step.other), (step.other, step.region)]
    for route in routes:
        world.network.limit(route, step.amount)

    def undo() -> None:
        for route in routes:
            world.hasten(world.network.unlimit(route, step.amount))

    world.lasting(step.seconds, undo)


def _dial(world: World, step: Step) -> None:
    process = world.processes.get(step.region)
    if process is not None:
        world.dial(process, step.other)


def _clock(world: World, step: Step) -> None:
    world.sites[step.region].jump(step.amount)


def _drift(world: World, step: Step) -> None:
    world.sites[step.region].drift(world.now, step.amount)


def _crash(world: World, step: Step) -> None:
    """Kill an agent; a batch being sealed is on disk or not, as ``amount`` is even or odd."""
    process = world.processes.get(step.region)
    if process is None:
        return
    if process.sealed is not None and step.amount % 2 == 0:
        world.store(process)
    process.disk.crash(step.amount)
    world.end(process, silent=step.other == "silent")
    if step.kind == "disk":
        world.monitor.forked.add(step.region)
        world.disks[step.region] = Disk()
    world.lasting(step.seconds, lambda: world.start(step.region))


def _stop(world: World, step: Step) -> None:
    """As the agent shuts down: what is stamped is stored, and with it the exact last stamp."""
    process = world.processes.get(step.region)
    if process is not None and _stopped(world, process):
        world.lasting(step.seconds, lambda: world.start(step.region))


def _stopped(world: World, process: Process) -> bool:
    """End an agent cleanly; False, and nothing done, while a batch is on its way to the disk."""
    if process.sealed is not None or process.stored is not None:
        return False
    own = process.replica.own
    if own.dirty and process.may_publish:
        world.monitor.sealed(process, process.seal(world.now))
        world.store(process)
    process.disk.sync()
    process.disk.clean_stamp = own.clean_stop()
    world.end(process)
    return True


def _version(world: World, step: Step) -> None:
    """An agent is replaced by another version; rolled back after a while, unless it stays."""
    former = world.sites[step.region].release
    turn(world, step.region, Release(step.amount))
    if step.seconds:
        world.lasting(step.seconds, lambda: turn(world, step.region, former))


def turn(world: World, region: str, release: Release) -> None:
    """Have a region's agent be of ``release``; it is killed if it cannot be stopped at once."""
    process = world.processes.get(region)
    world.sites[region].release = release
    if process is None or process.release is release:
        return
    if not _stopped(world, process):
        process.disk.crash(0)
        world.end(process)
    world.start(region)


def close_ranks(world: World) -> None:
    """Finish the upgrade of those that are too old for the newest."""
    releases = {site.release for site in world.sites.values()}
    if max(releases) - min(releases) > 1:
        for name, site in world.sites.items():
            if site.release is Release.OLDER:
                turn(world, name, Release.PRESENT)


def _twin(world: World, step: Step) -> None:
    if step.region in world.twins or world.disks[step.region].own is None:
        return
    world.start_twin(step.region)

    def undo() -> None:
        twin = world.twins.get(step.region)
        if twin is not None:
            world.end(twin)

    world.lasting(step.seconds, undo)


def decide(world: World, process: Process, decision: str, cluster: str) -> None:
    """An operator at an agent forgets or admits a cluster; nothing when it is so already."""
    now = process.site.monotonic(world.now)
    cell = process.replica.members.decide(decision, cluster, now).cell
    if cell is not None:
        process.decided.decide(cluster, cell)
        news = {cluster: cell}
        world.act(process, process.replica.learn(news, now, process.wall_ns(world.now)))


def _member(world: World, step: Step) -> None:
    process = world.processes.get(step.region)
    if process is not None:
        decide(world, process, step.kind, step.other)


def _policy(world: World, step: Step) -> None:
    """What is refused, since the cluster is forgotten or the service not known, does nothing."""
    process = world.processes.get(step.region)
    if process is None:
        return
    at, number = divmod(step.amount, len(SETTINGS))
    what, setting = SETTINGS[number]
    key = ServiceKey("steps", SERVICES[at - 1]) if at else ServiceKey("", "")
    subject = Subject(what, step.other, key.namespace, key.name)
    try:
        cell = process.replica.steering.decide(subject, setting)
    except ReplicatorError as refused:
        world.say("refused", process.name, refused.code)
        return
    if cell is not None:
        topic = topic_about(subject)
        process.decided.steer(topic, cell)
        world.act(process, process.replica.steer({topic: cell}, process.wall_ns(world.now)))


def _rot(world: World, step: Step) -> None:
    """What an endpoint's readiness was; a peer that notices asks, so that it is looked at."""
    process, origin = world.processes.get(step.region), Origin(step.other)
    remote = None if process is None else process.replica.remotes.get(origin)
    if process is None or remote is None:
        return
    found = sorted(row for row in remote.elements.live() if row[0][1] == ENDPOINT)
    if found:
        element, stamp, value = found[step.amount % len(found)]
        rotten = stored_of(stamp, ADD, value[:1] + bytes((value[1] ^ 1,)) + value[2:])
        remote.elements._entries[element] = rotten  # noqa: SLF001 - nothing else makes it rot
        world.monitor.rotten.add((process.name, origin))
        process.replica.repairs.auditor.suspect(origin)


_ACTIONS: dict[str, Callable[[World, Step], None]] = {
    CHANGE: _change,
    "bulk": _change,
    "floor": _floor,
    "break": _break,
    "partition": _cut,
    "oneway": _cut,
    "slow": _slow,
    "dial": _dial,
    "clock": _clock,
    "drift": _drift,
    "crash": _crash,
    "disk": _crash,
    "stop": _stop,
    "twin": _twin,
    "forget": _member,
    "admit": _member,
    "policy": _policy,
    "rot": _rot,
    "version": _version,
}
