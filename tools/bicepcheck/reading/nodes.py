"""The syntax tree of a Bicep file, independent of the parser that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from typing import TypeVar

from tools.bicepcheck.immutable import Immutable


class Node(Immutable):
    """The base of all nodes."""

    line: int  # from 1

    @cached_property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly within this one."""
        values = (getattr(self, field.name) for field in fields(self))
        return tuple(node for value in values for node in _nodes(value))

    @cached_property
    def tree(self) -> tuple[Node, ...]:
        """This node and all within it, outer ones first."""
        return (self, *(node for child in self.children for node in child.tree))


Kind = TypeVar("Kind", bound=Node)


def walk(node: Node | None, kind: type[Kind]) -> Iterator[Kind]:
    """Yield the nodes of a kind among *node* and all within it; without a node, nothing."""
    return (one for one in (node.tree if node else ()) if isinstance(one, kind))


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from _nodes(one)


class Literal(Node):
    value: str | int | bool | None


class Interpolation(Node):
    """A string with expressions in it."""

    parts: tuple[str | Node, ...]


class Name(Node):
    name: str


class Member(Node):
    """``of.name``, or ``of.?name`` when safe."""

    of: Node
    name: str
    safe: bool = False


class Index(Node):
    of: Node
    at: Node
    safe: bool = False


class ArrayType(Node):
    """``of[]``"""

    of: Node


class UnionType(Node):
    of: tuple[Node, ...]


class NestedAccess(Node):
    """``of::name``, a resource declared within another."""

    of: Node
    name: str


class Invocation(Node):
    """``name(…)`` or ``of.name(…)``."""

    name: str
    of: Node | None
    args: tuple[Node, ...]


class Lambda(Node):
    params: tuple[str, ...]
    body: Node


class Unary(Node):
    op: str
    of: Node


class Binary(Node):
    op: str
    left: Node
    right: Node


class Ternary(Node):
    """``test ? yes : no``"""

    test: Node
    yes: Node
    no: Node


class Array(Node):
    items: tuple[Node, ...]


class Property(Node):
    """A member of an object or of an object type; the key of ``*: string`` is ``*``."""

    key: str | Interpolation
    value: Node
    decorators: tuple[Invocation, ...] = ()


class Object(Node):
    properties: tuple[Property, ...]
    resources: tuple[ResourceDeclaration, ...] = ()

    def get(self, key: str) -> Property | None:
        """Return the member of that name, if there is one."""
        return next((one for one in self.properties if one.key == key), None)

    def without(self, *keys: str) -> Object:
        """Return the object without some members and without nested resources."""
        kept = tuple(one for one in self.properties if one.key not in keys)
        return Object(line=self.line, properties=kept)


class For(Node):
    item: str
    index: str | None
    source: Node
    body: Node


class If(Node):
    test: Node
    body: Node


class Declaration(Node):
    name: str
    decorators: tuple[Invocation, ...] = ()

    def has(self, decorator: str) -> bool:
        """Return whether the declaration has a decorator of that name."""
        return any(one.name == decorator for one in self.decorators)


class Param(Declaration):
    type: Node
    default: Node | None


class Var(Declaration):
    value: Node
    type: Node | None = None


class Output(Declaration):
    type: Node
    value: Node


class TypeAlias(Declaration):
    """``type name = type``"""

    type: Node


class Deployable(Declaration):
    """A resource or a module."""

    value: Node

    @property
    def loop(self) -> For | None:
        """The loop around the body."""
        return self.value if isinstance(self.value, For) else None

    @property
    def test(self) -> Node | None:
        """The condition under which it is deployed."""
        inner = self.loop.body if self.loop else self.value
        return inner.test if isinstance(inner, If) else None

    @property
    def body(self) -> Node:
        """The value within the loop and the condition: an object, unless the file is wrong."""
        inner = self.loop.body if self.loop else self.value
        return inner.body if isinstance(inner, If) else inner

    def property(self, key: str) -> Property | None:
        """Return a member of the body."""
        return self.body.get(key) if isinstance(self.body, Object) else None


class ResourceDeclaration(Deployable):
    """A resource."""

    type: str  # includes the version, except for nested ones: ``'secrets'``
    existing: bool

    @property
    def nested(self) -> tuple[ResourceDeclaration, ...]:
        """The resources declared within this one."""
        return self.body.resources if isinstance(self.body, Object) else ()


class Module(Deployable):
    path: str


class Import(Node):
    """Names from another file."""

    path: str
    names: tuple[tuple[str, str], ...]  # name there, name here; empty with a wildcard
    wildcard: str | None  # x of ``* as x``


class Metadata(Declaration):
    value: Node


class TargetScope(Node):
    value: Node
