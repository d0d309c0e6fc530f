"""Builds an attribute at its first use."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator
    """
    Make a method an attribute that is built at its first use only, also when two threads use it.

    Each attribute of an object has a lock of its own: the event loop never waits while a thread
    imports what another attribute needs. The lock is the system's, not that of the port `Threads`,
    which the object is not built on: nothing waits for storage or for others while it is held.
    """

    def __init__(self, build: Callable[[Any], T]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...

    @overload
    def __get__(self, of: object, owner: type) -> T: ...

    def __get__(self, of: object | None, owner: type) -> Self | T:
        if of is None:
            return self
        built = of.__dict__  # which has precedence, once the attribute is in it
        with built.setdefault(f"lock of {self._name}", RLock()):
            if self._name not in built:
                built[self._name] = self._build(of)
            found: T = built[self._name]
            return found
