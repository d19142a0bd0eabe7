"""Specs of the suite and how they ended, from the JSON reports that ginkgo writes.

Pure: reports come as parsed JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_NEEDS_PODS = frozenset({"DNS", "Connectivity"})
_EXECUTES_UNLABELLED = "Connectivity to a service that is not exported"
"""Executes in pods without a label that says so; it passes with whatever pods do."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec, or one step around the specs."""

    name: str
    labels: frozenset[str]
    state: str
    """``passed``, ``failed``, ``skipped`` ... as ginkgo says."""
    seconds: float = 0.0
    message: str = ""
    is_spec: bool = True

    @property
    def needs_pods(self) -> bool:
        """Whether it executes something in pods, which clusters without kubelets cannot do."""
        return bool(self.labels & _NEEDS_PODS) or _EXECUTES_UNLABELLED in self.name


def specs_of(report: Iterable[dict[str, Any]]) -> list[Spec]:
    """All entries of a report, in its order."""
    entries = (one for suite in report for one in suite.get("SpecReports") or ())
    return [_spec(one) for one in entries]


def _spec(entry: dict[str, Any]) -> Spec:
    texts = [*(entry.get("ContainerHierarchyTexts") or ()), entry.get("LeafNodeText") or ""]
    labels = {x for each in entry.get("ContainerHierarchyLabels") or () for x in each or ()}
    failure = entry.get("Failure") or {}
    return Spec(
        name=" ".join(text for text in texts if text),
        labels=frozenset(labels | set(entry.get("LeafNodeLabels") or ())),
        state=entry["State"],
        seconds=entry.get("RunTime", 0) / 1e9,
        message=" ".join(str(failure.get("Message", "")).split()),
        is_spec=entry.get("LeafNodeType") == "It",
    )


def chosen(listed: Iterable[Spec], *, pods: bool, focus: str = "") -> list[Spec]:
    """The specs of a dry run that are to be run; ``focus`` is a pattern over names and labels."""
    return [
        one
        for one in listed
        if one.is_spec
        and one.state == "passed"
        and (pods or not one.needs_pods)
        and re.search(focus, f"{one.name} {' '.join(sorted(one.labels))}")
    ]


def shares(specs: Iterable[Spec], count: int) -> list[list[Spec]]:
    """Specs in as many shares of about the same length as asked for; none of them is empty."""
    costs = [0.0] * count
    made: list[list[Spec]] = [[] for _ in range(count)]
    for one in sorted(specs, key=lambda spec: (-_cost(spec), spec.name)):
        least = costs.index(min(costs))
        made[least].append(one)
        costs[least] += _cost(one)
    return [share for share in made if share]


def _cost(spec: Spec) -> float:
    """About how many seconds it takes: connections are tried until they are refused."""
    return 60.0 if "onnectivity" in " ".join((spec.name, *spec.labels)) else 8.0


def focus_of(specs: Sequence[Spec]) -> str:
    """An expression by which ginkgo runs just these."""
    return "|".join(f"{_escaped(one.name)}$" for one in specs)


def _escaped(text: str) -> str:
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)


def outcome(wanted: Iterable[Spec], ended: Iterable[Spec]) -> list[Spec]:
    """How each wanted spec ended, with what failed around them; a spec nobody ran is ``lost``."""
    reported = list(ended)
    by_name = {one.name: one for one in reported if one.is_spec and _counts(one)}
    found = [
        by_name.get(one.name) or Spec(one.name, one.labels, "lost", message="it is in no report")
        for one in wanted
    ]
    around = [one for one in reported if not one.is_spec and one.state not in _GOOD]
    return [*found, *around]


_GOOD = ("passed", "skipped")


def _counts(spec: Spec) -> bool:
    """Whether a spec was really run: what was only filtered out is skipped without a word."""
    return spec.state != "skipped" or bool(spec.message)


def passed(specs: Sequence[Spec]) -> bool:
    """Whether there are specs, and all of them passed."""
    return bool(specs) and all(one.state == "passed" for one in specs)


def table(specs: Sequence[Spec]) -> str:
    """One line a spec, those that did not pass with why, and the sum."""
    lines = []
    for one in sorted(specs, key=lambda spec: (sorted(spec.labels), spec.name)):
        lines.append(
            f"{one.state:8} {one.seconds:6.1f} s  [{','.join(sorted(one.labels))}] {one.name}"
        )
        if one.state != "passed":
            lines.append(f"         {one.message[:300]}")
    good = sum(one.state == "passed" for one in specs)
    return "\n".join([*lines, f"{good} of {len(specs)} passed"])
