"""YAML text as a tree that remembers its lines, so that an error can name one.

Scalars are read as YAML 1.2 reads them: ``on`` and ``1:30`` are texts, ``010`` is ten.  Stricter
than YAML where leniency hides mistakes: a key twice is an error, so are keys that are no text, tags
of any other type, and aliases that contain themselves.  One document; texts with a byte order mark
or CRLF line ends are fine.

Everything wrong raises :class:`~replicator.errors.ConfigError` naming the source and the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from replicator.errors import ConfigError

SIZE_LIMIT = 1 << 18
_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _STR = (_TAG + n for n in ("null", "bool", "int", "float", "str"))
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_PATTERNS = {
    _NULL: re.compile(r"(?:~|null|Null|NULL|)\Z"),
    _BOOL: re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    _INT: re.compile(r"[-+]?[0-9]{1,18}\Z", re.ASCII),
    _FLOAT: re.compile(r"[-+]?(?:[0-9]{0,18}\.[0-9]{1,18}|[0-9]{1,18}\.)\Z", re.ASCII),
}
_CURE = "correct the YAML there"

Value = None | bool | int | float | str | list["Tree"] | dict[str, "Tree"]


@dataclass(frozen=True, slots=True)
class Tree:
    """A value and the line (from 1) where it begins."""

    value: Value
    line: int


class _Loader(yaml.SafeLoader):
    """Resolves plain scalars by the patterns above.

    The pure Python loader on purpose: deep nesting ends in a RecursionError, not in a crash.
    """


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in _PATTERNS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, None)


def parse_tree(data: bytes, source: str) -> Tree:
    """The one document in ``data``, null if there is none; ``source`` names it in errors."""
    if len(data) > SIZE_LIMIT:
        message = f"{source}: {len(data)} bytes are no configuration"
        raise ConfigError(message, cure=f"keep it below {SIZE_LIMIT} bytes")
    text = _decode(data, source)
    try:
        node = _Loader(text).get_single_node()
        return Tree(None, 1) if node is None else _Walk(source).tree(node)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _fault(source, line, "a character that YAML does not allow") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        detail = " ".join(str(error.problem or error.context).split())[:160]
        raise _fault(source, line, f"broken YAML: {detail}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _fault(source, 1, "YAML that cannot be read, or nested too deeply") from error


def _fault(source: str, line: int, what: str, cure: str = _CURE) -> ConfigError:
    return ConfigError(f"{source}:{line}: {what}", cure=cure, code="bad_yaml")


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _fault(source, line, "not UTF-8", "save the file as UTF-8") from error


class _Walk:
    """From PyYAML's nodes to trees; a node that several aliases name is walked once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._done: dict[int, Tree] = {}
        self._above: list[int] = []

    def tree(self, node: yaml.Node) -> Tree:
        """The tree of ``node``, which lives as long as its document."""
        line = node.start_mark.line + 1
        if id(node) in self._above:
            raise _fault(self._source, line, "an alias that contains itself")
        if id(node) not in self._done:
            self._above.append(id(node))
            self._done[id(node)] = Tree(self._value(node, line), line)
            self._above.pop()
        return self._done[id(node)]

    def _value(self, node: yaml.Node, line: int) -> Value:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node.tag, node.value, line)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.tree(item) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node)
        what = f"the tag {node.tag[:80]!r} is not allowed"
        raise _fault(self._source, line, what, "leave the tag out")

    def _scalar(self, tag: str, text: str, line: int) -> Value:
        if tag == _STR:
            return text
        pattern = _PATTERNS.get(tag)
        if pattern is None or pattern.match(text) is None:
            what = f"{text[:80]!r} with the tag {tag[:80]!r} is not allowed"
            raise _fault(self._source, line, what, "leave the tag out")
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return _BOOLS[text]
        return int(text) if tag == _INT else float(text)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Tree]:
        found: dict[str, Tree] = {}
        for key_node, value_node in node.value:
            key = self.tree(key_node)
            if not isinstance(key.value, str):
                cure = "write keys as plain words"
                raise _fault(self._source, key.line, "a key that is no text", cure)
            if key.value in found:
                what = f"the key {key.value[:80]!r} stands here twice"
                cure = f"remove one; the first one's value is on line {found[key.value].line}"
                raise _fault(self._source, key.line, what, cure)
            found[key.value] = self.tree(value_node)
        return found
