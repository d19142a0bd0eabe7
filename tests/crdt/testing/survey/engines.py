"""Adapters of packages whose states are kept by an engine: documents with text, maps and sets.

A state cannot be copied by Python, so each adapter says how: a new document with the same peer
takes the whole update of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

from crdt.testing import At, Crdt, Delta, Form, in_place, operation
from crdt.testing.meanings import add_wins, total

LETTERS = st.sampled_from("xy")
PLACES = st.integers(0, 3)


def _insert(text: Any, length: int, place: int, letter: str) -> None:
    text.insert(min(place, length), letter)


def pycrdt_types() -> Iterator[Crdt[Any]]:
    """Text, Array and Map of Yrs, by its pycrdt bindings; deltas by state vector."""
    pycrdt = import_module("pycrdt")

    def made(kind: str, operations: dict[str, Any], view: Callable[[Any], object]) -> Crdt[Any]:
        def new(client: int) -> Any:
            return pycrdt.Doc({"it": getattr(pycrdt, kind)()}, client_id=client)

        def twin(doc: Any) -> Any:
            fresh = new(doc.client_id)
            fresh.apply_update(doc.get_update())
            return fresh

        def load(written: tuple[int, bytes]) -> Any:
            fresh = new(written[0])
            fresh.apply_update(written[1])
            return fresh

        return Crdt(
            name=kind,
            new=lambda name: new(ord(name)),
            copy=twin,
            merge=in_place(lambda doc, other: doc.apply_update(other.get_update())),
            operations=operations,
            view=view,
            delta=Delta(
                make=lambda doc, known: doc.get_update(known),
                apply=in_place(lambda doc, update: doc.apply_update(update)),
                summary=lambda doc: doc.get_state(),
            ),
            form=Form(dump=lambda doc: (doc.client_id, doc.get_update()), load=load),
        )

    def insert(doc: Any, _: At, place: int, letter: str) -> None:
        _insert(doc["it"], len(doc["it"]), place, letter)

    def delete(doc: Any, _: At) -> None:
        if len(doc["it"]):
            del doc["it"][0]

    def put(doc: Any, _: At, key: str, value: str) -> None:
        doc["it"][key] = value

    def drop(doc: Any, _: At, key: str) -> None:
        doc["it"].pop(key, None)

    edits = {
        "insert": operation(in_place(insert), PLACES, LETTERS),
        "delete": operation(in_place(delete)),
    }
    puts = {
        "put": operation(in_place(put), st.just("k"), LETTERS),
        "drop": operation(in_place(drop), st.just("k")),
    }
    yield made("Text", edits, lambda doc: str(doc["it"]))
    yield made("Array", edits, lambda doc: list(doc["it"]))
    yield made("Map", puts, lambda doc: dict(doc["it"].to_py()))


def y_py_types() -> Iterator[Crdt[Any]]:
    """Text of Yrs, by its older y-py bindings."""
    y_py = import_module("y_py")

    def twin(doc: Any) -> Any:
        fresh = y_py.YDoc(client_id=doc.client_id)
        y_py.apply_update(fresh, y_py.encode_state_as_update(doc))
        return fresh

    def insert(doc: Any, _: At, place: int, letter: str) -> None:
        text = doc.get_text("it")
        with doc.begin_transaction() as turn:
            text.insert(turn, min(place, len(text)), letter)

    def delete(doc: Any, _: At) -> None:
        text = doc.get_text("it")
        if len(text):
            with doc.begin_transaction() as turn:
                text.delete(turn, 0)

    yield Crdt(
        name="YText",
        new=lambda name: y_py.YDoc(client_id=ord(name)),
        copy=twin,
        merge=in_place(lambda doc, o: y_py.apply_update(doc, y_py.encode_state_as_update(o))),
        operations={
            "insert": operation(in_place(insert), PLACES, LETTERS),
            "delete": operation(in_place(delete)),
        },
        view=lambda doc: str(doc.get_text("it")),
        delta=Delta(
            make=y_py.encode_state_as_update,
            apply=in_place(y_py.apply_update),
            summary=y_py.encode_state_vector,
        ),
    )


def loro_types() -> Iterator[Crdt[Any]]:
    """Text and map of Loro, exchanged as snapshots."""
    loro = import_module("loro")

    def written(doc: Any) -> bytes:
        doc.commit()
        return bytes(doc.export(loro.ExportMode.Snapshot()))

    def new(peer: int) -> Any:
        doc = loro.LoroDoc()
        doc.peer_id = peer
        return doc

    def twin(doc: Any) -> Any:
        fresh = new(doc.peer_id)
        fresh.import_(written(doc))
        return fresh

    def insert(doc: Any, _: At, place: int, letter: str) -> None:
        text = doc.get_text("it")
        text.insert(min(place, text.len_unicode), letter)
        doc.commit()

    def delete(doc: Any, _: At) -> None:
        text = doc.get_text("it")
        if text.len_unicode:
            text.delete(0, 1)
            doc.commit()

    def put(doc: Any, _: At, value: str) -> None:
        doc.get_map("it").insert("k", value)
        doc.commit()

    def made(name: str, operations: dict[str, Any], view: Callable[[Any], object]) -> Crdt[Any]:
        return Crdt(
            name=name,
            new=lambda name: new(ord(name)),
            copy=twin,
            merge=in_place(lambda doc, other: doc.import_(written(other))),
            operations=operations,
            view=view,
        )

    edits = {
        "insert": operation(in_place(insert), PLACES, LETTERS),
        "delete": operation(in_place(delete)),
    }
    yield made("LoroText", edits, lambda doc: doc.get_text("it").to_string())
    puts = {"put": operation(in_place(put), LETTERS)}
    yield made("LoroMap", puts, lambda doc: doc.get_map("it").get_deep_value())


def nexus_types() -> Iterator[Crdt[Any]]:
    """Register, set and text of nexus-crdt, exchanged as frames."""
    nexus = import_module("nexus")

    def made(name: str, view: Callable[[Any], object], **more: Any) -> Crdt[Any]:
        return Crdt(
            name=name,
            new=nexus.NexusMap,
            merge=in_place(lambda mine, theirs: mine.merge(theirs.encode())),
            view=view,
            form=Form(
                dump=lambda mine: (mine.actor, mine.encode()),
                load=lambda written: nexus.NexusMap.decode(written[1], written[0]),
            ),
            **more,
        )

    def insert(held: Any, _: At, place: int, letter: str) -> None:
        held.text_insert("it", min(place, held.text_length("it")), letter)

    def delete(held: Any, _: At) -> None:
        if held.text_length("it"):
            held.text_delete("it", 0, 1)

    sets = {
        "add": operation(in_place(lambda held, _, e: held.or_set_add("it", e)), LETTERS),
        "remove": operation(in_place(lambda held, _, e: held.or_set_remove("it", e)), LETTERS),
    }
    texts = {
        "insert": operation(in_place(insert), PLACES, LETTERS),
        "delete": operation(in_place(delete)),
    }
    registers = {"set": operation(in_place(lambda held, _, v: held.set("it", v)), LETTERS)}
    yield made("register", lambda held: held.get("it"), operations=registers)
    yield made(
        "OR-Set",
        lambda held: frozenset(held.or_set_values_of("it")),
        operations=sets,
        meaning=add_wins,
    )
    yield made("text", lambda held: held.text_value("it"), operations=texts)


def crdt_merge_types() -> Iterator[Crdt[Any]]:
    """The plain types of crdt-merge, which take times and names from the caller."""
    made = import_module("crdt_merge")

    def form(kind: Any) -> Form[Any]:
        return Form(dump=lambda state: state.to_dict(), load=kind.from_dict)

    def count(sign: str) -> Any:
        return in_place(lambda state, at, by: getattr(state, sign)(at.replica, by))

    def merge(a: Any, b: Any) -> Any:
        return a.merge(b)

    def value(state: Any) -> object:
        return state.value

    amounts = st.integers(1, 3)
    yield Crdt(
        name="GCounter",
        new=lambda _: made.GCounter(),
        merge=merge,
        operations={"increment": operation(count("increment"), amounts)},
        view=value,
        form=form(made.GCounter),
        meaning=total,
    )
    both = {sign: operation(count(sign), amounts) for sign in ("increment", "decrement")}
    yield Crdt(
        name="PNCounter",
        new=lambda _: made.PNCounter(),
        merge=merge,
        operations=both,
        view=value,
        form=form(made.PNCounter),
        meaning=total,
    )
    yield Crdt(
        name="LWWRegister",
        new=lambda _: made.LWWRegister(),
        merge=merge,
        operations={
            "set": operation(in_place(lambda s, at, v: s.set(v, at.time, at.replica)), LETTERS)
        },
        view=value,
        form=form(made.LWWRegister),
    )
    yield Crdt(
        name="ORSet",
        new=lambda _: made.ORSet(),
        merge=merge,
        operations={
            "add": operation(in_place(lambda s, _, e: s.add(e)), LETTERS),
            "remove": operation(in_place(lambda s, _, e: s.remove(e)), LETTERS),
        },
        view=lambda s: frozenset(s.value),
        form=form(made.ORSet),
        meaning=add_wins,
    )
    yield Crdt(
        name="LWWMap",
        new=lambda _: made.LWWMap(),
        merge=merge,
        operations={
            "set": operation(
                in_place(lambda s, at, v: s.set("k", v, at.time, at.replica)), LETTERS
            ),
            "delete": operation(in_place(lambda s, at: s.delete("k", at.time))),
        },
        view=value,
        form=form(made.LWWMap),
    )
