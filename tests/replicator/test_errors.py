"""Every error carries a code, a message and a cure, and belongs to the one family."""

from __future__ import annotations

import inspect

import pytest

from replicator import errors
from replicator.errors import ReplicatorError

FAMILY = sorted(
    (kind for _, kind in inspect.getmembers(errors, inspect.isclass)), key=lambda k: k.__name__
)


@pytest.mark.parametrize("kind", FAMILY)
def test_an_error_reads_as_its_message_and_its_cure(kind: type[ReplicatorError]) -> None:
    error = kind("x is wrong", cure="write y")
    assert issubclass(kind, ReplicatorError)
    assert (str(error), error.message, error.cure) == (
        "x is wrong; write y",
        "x is wrong",
        "write y",
    )
    assert str(kind("x is wrong")) == "x is wrong"


@pytest.mark.parametrize("kind", FAMILY)
def test_the_code_is_the_class_s_unless_given(kind: type[ReplicatorError]) -> None:
    assert kind("x").code == kind.code
    assert kind("x", code="mine").code == "mine"
    assert kind("x").code == kind.code


def test_codes_are_distinct() -> None:
    assert len({kind.code for kind in FAMILY}) == len(FAMILY)
