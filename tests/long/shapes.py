"""The shapes of plans that seeds take turns in."""

from __future__ import annotations

from replicator.simulation.dice import Shape

SHAPES = (
    Shape(regions=3, seconds=6.0, steps=60, churn=0.0),
    Shape(regions=2, seconds=10.0, steps=60, churn=0.0),
    Shape(regions=3, seconds=3.0, steps=60, churn=0.0),
    Shape(regions=4, seconds=10.0, steps=60, churn=0.0),
)


def shape_of(seed: int) -> Shape:
    """The shape of a seed's plan."""
    return SHAPES[seed % len(SHAPES)]
