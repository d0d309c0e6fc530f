"""What a Bicep file says: its tree, free of the parser that read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """*line* counts from 1."""

    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal(Node):
    value: str | int | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    """A string with expressions in it."""

    parts: tuple[str | Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Node):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(Node):
    """``of.name``, or ``of.?name`` when *safe*."""

    of: Node
    name: str
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Node):
    of: Node
    at: Node
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Around(Node):
    of: Node


class Sure(Around):
    """``of!``, which is there."""

    __slots__ = ()


class Spread(Around):
    """``...of`` in a list; in an object it is a property under the key ``...``."""

    __slots__ = ()


class ArrayOf(Around):
    """``of[]``"""

    __slots__ = ()


class Nullable(Around):
    """``of?``"""

    __slots__ = ()


class Parentheses(Around):
    """What stands in parentheses, while the tree is made."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested(Node):
    """``of::name``, a resource declared within another."""

    of: Node
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    """``name(…)`` or ``of.name(…)``."""

    name: str
    of: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lambda(Node):
    params: tuple[str, ...]
    body: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Node):
    op: str
    of: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Node):
    """``test ? yes : no``."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Property(Node):
    """A member of an object or of an object type; the key of ``*: string`` is ``*``."""

    key: str | Text
    value: Node
    decorators: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Node):
    properties: tuple[Property, ...]
    resources: tuple[Resource, ...] = ()

    def get(self, key: str) -> Property | None:
        """Return the member of that name, if there is one."""
        return next((one for one in self.properties if one.key == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class For(Node):
    item: str
    index: str | None
    source: Node
    body: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class If(Node):
    test: Node
    body: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf(Node):
    of: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(Node):
    name: str
    decorators: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Param(Declaration):
    type: Node
    default: Node | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Var(Declaration):
    value: Node
    type: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output(Declaration):
    type: Node
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeOf(Declaration):
    """``type name = type``."""

    type: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Declaration):
    params: tuple[tuple[str, Node], ...]
    returns: Node
    body: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Declaration):
    """*type* holds the version, but for nested ones: ``'secrets'``."""

    type: str
    existing: bool
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Module(Declaration):
    path: str
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Node):
    """*names*: name there, name here; of ``* as x`` *wildcard* is x and *names* is empty."""

    path: str
    names: tuple[tuple[str, str], ...]
    wildcard: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata(Declaration):
    value: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetScope(Node):
    value: Node


def children(node: Node) -> Iterator[Node]:
    """Yield what stands directly within *node*."""
    for field in fields(node):
        yield from _nodes(getattr(node, field.name))


def walk(node: Node) -> Iterator[Node]:
    """Yield *node* and all within, outer ones first."""
    yield node
    for child in children(node):
        yield from walk(child)


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _nodes(one)


def loop_parts(value: Node) -> tuple[For | None, Node | None, Node]:
    """Return the loop, the condition and the body of a resource's or a module's value."""
    loop = value if isinstance(value, For) else None
    inner = loop.body if loop else value
    if isinstance(inner, If):
        return loop, inner.test, inner.body
    return loop, None, inner
