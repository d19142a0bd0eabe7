"""Hypothesis strategies for what agents say to each other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from crdt import Base, Head, Origin, Version
from crdt.buckets import DEPTH_LIMIT, nodes_limit
from replicator import messages as m

INT63 = 2**63 - 1

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
numbers = st.integers(0, INT63) | st.sampled_from([0, 1, 127, 128, 2**32, INT63 - 1, INT63])
texts = st.text(max_size=40)
blobs = st.binary(max_size=40)
roots = st.binary(max_size=32)
origins = st.builds(Origin, labels, numbers)
versions = st.builds(Version, numbers, numbers)
heads = st.builds(
    Head,
    origin=origins,
    epoch=numbers,
    base=st.none() | st.builds(Base, numbers, numbers, roots),
    stamp=numbers,
    floor=numbers,
    count=numbers,
    root=roots,
    issued_at=numbers,
    observed_at=numbers,
    key_id=blobs,
    signature=blobs,
).map(lambda head: replace(head, floor=min(head.floor, head.stamp)))
records = st.builds(m.Record, origins, blobs, st.lists(blobs, min_size=1, max_size=8).map(tuple))


@st.composite
def transfers(draw: st.DrawFn) -> m.Transfer:
    """A chunk whose parts fit each other."""
    start, to = sorted([draw(numbers), draw(numbers)])
    origin, epoch = draw(origins), draw(numbers)
    entries: tuple[tuple[bytes, int, int, bytes], ...] = ()
    if start < to:
        entry = st.tuples(blobs, st.integers(start + 1, to), st.integers(0, 1), blobs)
        entries = tuple(draw(st.lists(entry, max_size=5)))
    head = draw(st.none() | heads)
    if head is not None:
        floor = min(head.floor, to)
        head = replace(head, origin=origin, epoch=epoch, stamp=to, floor=floor)
    return m.Transfer(origin, epoch, draw(st.booleans()), start, to, entries, head)


depths = st.integers(0, DEPTH_LIMIT)
indexes = depths.flatmap(lambda depth: st.integers(1 << 4 * depth, (2 << 4 * depth) - 1))


@st.composite
def buckets(draw: st.DrawFn) -> m.Buckets:
    """Any bytes that are short enough for their depth."""
    depth = draw(depths)
    nodes = draw(st.binary(max_size=min(200, nodes_limit(depth))))
    return m.Buckets(draw(heads), depth, nodes)


@st.composite
def bucket_entries(draw: st.DrawFn) -> m.BucketEntries:
    """A chunk whose parts fit each other."""
    part = draw(transfers())
    last = draw(st.booleans())
    return m.BucketEntries(part.origin, part.epoch, part.start, part.to, part.entries, last)


reaches = st.none() | st.builds(m.Reach, versions, numbers)
adverts = st.builds(m.Advert, origins, versions, numbers, st.binary(max_size=8), reaches)
flags = st.booleans()
messages = st.one_of(
    st.builds(
        m.Hello, numbers, texts, texts, texts, texts, numbers, texts, texts, numbers, flags, flags
    ),
    records,
    st.builds(m.Heads, st.lists(adverts, max_size=5).map(tuple)),
    st.builds(m.Want, origins, versions, st.booleans()),
    st.builds(m.Stop, origins),
    transfers(),
    st.builds(m.Beat, numbers, numbers, numbers, roots),
    st.builds(m.Reject, texts, texts),
    st.builds(m.Skew, origins, labels, numbers),
    st.builds(m.Admission, st.integers(0, 2**62), st.integers(0, 2**62), labels),
    st.builds(m.GetBuckets, origins, depths),
    buckets(),
    st.builds(
        *(m.GetBucketEntries, origins, versions),
        st.lists(indexes, min_size=1, max_size=5).map(tuple),
    ),
    bucket_entries(),
    st.builds(m.Unknown, st.integers(16, INT63)),
)
