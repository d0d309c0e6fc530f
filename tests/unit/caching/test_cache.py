"""Cache: who reads, what the others get meanwhile, and how long a value is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

import pytest

from pushgrid.testing.memory import FakeClock
from shared.adapters.threads import SystemThreads
from shared.engine.caching import cache as module
from shared.engine.caching.cache import Cache
from shared.errors import StorageUnavailable, UnreadableDocument

KEEP = 5.0
ASK = {"get": Cache.get, "get_within": lambda cache, key, read: cache.get_within(key, read, 30)}


class HeldRead:
    """A read that says when it has begun, and ends when it may."""

    def __init__(self, result: str | Exception) -> None:
        self.times = 0
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self._result = result

    def __call__(self) -> str:
        self.times += 1
        self.begun.set()
        assert self.may_end.wait(30)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cache(clock: FakeClock) -> Cache[str]:
    return Cache(SystemThreads(clock.monotonic), lambda value: KEEP if value else 1.0, most=2)


@pytest.fixture
def held() -> Iterator[HeldRead]:
    read = HeldRead("new")
    yield read
    read.may_end.set()


def later(clock: FakeClock, seconds: float) -> None:
    clock.advance(timedelta(seconds=seconds))


def failing(error: Exception) -> Callable[[], str]:
    def read() -> str:
        raise error

    return read


def always(_: str) -> bool:
    return True


@pytest.mark.parametrize(("value", "seconds"), [("old", KEEP), ("", 1.0)])
@pytest.mark.parametrize("how", ASK)
def test_a_value_is_kept_for_its_time(
    cache: Cache[str], clock: FakeClock, how: str, value: str, seconds: float
) -> None:
    found = [ASK[how](cache, "a", lambda: value)]
    later(clock, seconds - 0.001)
    found.append(ASK[how](cache, "a", lambda: "new"))
    later(clock, 0.001)
    found.append(ASK[how](cache, "a", lambda: "new"))

    assert found == [value, value, "new"]


def test_a_cache_has_what_it_can_return_without_a_read_for_another_moment(
    cache: Cache[str], clock: FakeClock
) -> None:
    has = [cache.has("a")]
    cache.get("a", lambda: "old")
    has.append(cache.has("a"))
    later(clock, KEEP - module.MOMENT - 0.001)
    has.append(cache.has("a"))
    later(clock, 0.001)
    has.append(cache.has("a"))
    assert cache.get("a", lambda: "new") == "old"
    later(clock, module.MOMENT)
    has.append(cache.has("a"))
    cache.get("a", lambda: "new")
    has.append(cache.has("a"))
    cache.forget("a")
    has.append(cache.has("a"))

    assert has == [False, True, True, False, False, True, False]


def test_what_is_being_read_is_not_there_yet(cache: Cache[str], held: HeldRead) -> None:
    assert cache.get_within("a", held, 0) is None
    assert held.begun.wait(30)
    assert not cache.has("a")
    held.may_end.set()

    assert cache.get_within("a", held, 30) == "new"
    assert cache.has("a")


def test_others_get_the_expired_value_they_accept_while_one_reads(
    cache: Cache[str], clock: FakeClock, held: HeldRead
) -> None:
    cache.get("a", lambda: "old")
    later(clock, KEEP)

    with ThreadPoolExecutor(2) as pool:
        reader = pool.submit(cache.get, "a", held)
        assert held.begun.wait(30)
        waiting = pool.submit(cache.get, "a", held, lambda value: value != "old")
        others = [cache.get("a", held, always) for _ in range(3)]
        held.may_end.set()

    assert (others, reader.result(), waiting.result()) == (["old"] * 3, "new", "new")
    assert held.times == 1


@pytest.mark.parametrize("result", ["new", StorageUnavailable(), KeyError("a bug")], ids=repr)
@pytest.mark.parametrize(("how", "waiters"), [("get", 3), ("get_within", 4)])
def test_with_no_value_others_wait_and_share_the_outcome(
    cache: Cache[str],
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    waiters: int,
    result: str | Exception,
) -> None:
    read, comes = HeldRead(result), threading.Semaphore(0)

    class Awaited(module._Reading[str]):
        def result(self, timeout: float | None = None) -> str:
            comes.release()
            return super().result(timeout)

    monkeypatch.setattr(module, "_Reading", Awaited)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ASK[how], cache, "a", read) for _ in range(4)]
        # One that came after the end of a failed read would get a copy of its error.
        came = [comes.acquire(timeout=30) for _ in range(waiters)]
        read.may_end.set()
        got = [each.exception(10) or each.result() for each in waiting]

    assert (all(came), got, read.times) == (True, [result] * 4, 1)


def test_what_has_expired_serves_others_as_long_again_and_then_they_wait(
    cache: Cache[str], clock: FakeClock, held: HeldRead
) -> None:
    cache.get("a", lambda: "old")
    later(clock, KEEP)

    with ThreadPoolExecutor(2) as pool:
        reader = pool.submit(cache.get, "a", held, always)
        assert held.begun.wait(30)
        later(clock, KEEP - 0.001)
        others = [cache.get("a", held, always), cache.known("a")]
        later(clock, 0.001)
        others.append(cache.known("a"))
        waiting = pool.submit(cache.get, "a", held, always)
        wait([waiting], 0.2)  # Were it to get the old value, it would have it by now.
        held.may_end.set()

    assert others == ["old", "old", None]
    assert (reader.result(), waiting.result(), held.times) == ("new", "new", 1)


def test_while_storage_fails_an_accepted_value_serves_as_long_again_and_never_longer(
    cache: Cache[str], clock: FakeClock
) -> None:
    cache.get("a", lambda: "old")
    found = []
    for _ in range(int(20 * KEEP)):
        later(clock, KEEP / 10)
        try:
            found.append(cache.get("a", failing(StorageUnavailable()), always))
        except StorageUnavailable:
            found.append("")

    assert found == ["old"] * 19 + [""] * (len(found) - 19)
    with pytest.raises(StorageUnavailable):
        cache.get("a", failing(StorageUnavailable()), lambda value: value != "old")


def test_whether_a_value_serves_is_judged_when_the_read_has_failed(
    cache: Cache[str], clock: FakeClock
) -> None:
    def hang() -> str:
        later(clock, 11)
        raise StorageUnavailable

    cache.get("a", lambda: "old")
    later(clock, KEEP)

    with pytest.raises(StorageUnavailable):
        cache.get("a", hang, always)


@pytest.mark.parametrize("how", ASK)
def test_a_read_that_has_failed_is_not_repeated_for_a_moment(
    cache: Cache[str], clock: FakeClock, how: str
) -> None:
    reads = []

    def fail() -> str:
        reads.append(clock.monotonic())
        raise UnreadableDocument("why")

    errors = []
    for _ in range(30):
        with pytest.raises(UnreadableDocument, match="why") as raised:
            ASK[how](cache, "a", fail)
        errors.append(raised.value)
        later(clock, module.FAILED_FOR / 10)

    assert len(reads) == 3
    # What is raised again and again would keep the frames of all who raised it.
    assert len({id(each) for each in errors}) == 30
    assert ASK[how](cache, "a", lambda: "new") == "new"
    assert cache.get("b", lambda: "another's") == "another's"


@pytest.mark.parametrize("forget", [Cache.forget, Cache.forget_all])
def test_a_failure_is_forgotten_with_its_key(
    cache: Cache[str], forget: Callable[[Cache[str], str], None]
) -> None:
    with pytest.raises(StorageUnavailable):
        cache.get("a", failing(StorageUnavailable()), always)
    forget(cache, "a")

    assert cache.get("a", lambda: "new") == "new"


def test_the_failures_of_many_keys_are_bounded(
    cache: Cache[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FAILURES", 2)
    for key in "abc":
        with pytest.raises(StorageUnavailable):
            cache.get(key, failing(StorageUnavailable()))

    assert cache.get("a", lambda: "new") == "new"
    with pytest.raises(StorageUnavailable):
        cache.get("b", lambda: "new")


def test_any_other_error_is_not_kept(cache: Cache[str], clock: FakeClock) -> None:
    cache.get("a", lambda: "old")
    later(clock, KEEP)
    with pytest.raises(KeyError):
        cache.get("a", failing(KeyError()), always)
    with pytest.raises(KeyError):
        cache.get_within("a", failing(KeyError()), 10)

    assert cache.get("a", lambda: "new") == "new"


def test_how_long_a_value_serves_may_be_another_time(clock: FakeClock) -> None:
    cache = Cache[str](
        SystemThreads(clock.monotonic), lambda _: KEEP, serve_seconds=lambda _: 100.0
    )
    cache.get("a", lambda: "old")
    later(clock, 99.9)
    found = cache.get("a", failing(StorageUnavailable()), always)
    later(clock, 0.1)

    assert (found, cache.known("a")) == ("old", None)


@pytest.mark.parametrize(
    ("took", "kept", "served"),
    [(2.0, KEEP - 2, 2 * KEEP - 2), (4.5, 1.0, 2 * KEEP - 4.5), (16.0, 1.0, 1.0)],
)
@pytest.mark.parametrize("how", ASK)
def test_a_value_is_as_old_as_the_beginning_of_its_read(
    cache: Cache[str], clock: FakeClock, how: str, took: float, kept: float, served: float
) -> None:
    """What was changed meanwhile may not be in it; those who waited can use it for a second."""

    def read() -> str:
        later(clock, took)
        return "old"

    assert ASK[how](cache, "a", read) == "old"
    later(clock, kept - 0.001)
    found: list[str | None] = [cache.get("a", lambda: "new")]
    later(clock, served - kept)
    found.append(cache.known("a"))
    later(clock, 0.001)
    found.append(cache.known("a"))
    assert found == ["old", "old", None]

    cache.forget("a")
    ASK[how](cache, "a", read)
    later(clock, kept)
    assert cache.get("a", lambda: "new") == "new"


def test_what_is_kept_for_less_than_a_second_is_kept_no_longer_after_a_slow_read(
    clock: FakeClock,
) -> None:
    cache = Cache[str](SystemThreads(clock.monotonic), lambda value: 0.5 if value else 0)

    def read(value: str) -> str:
        later(clock, 16)
        return value

    assert cache.get("a", lambda: read("")) == ""
    assert cache.get("a", lambda: read("old")) == "old"
    later(clock, 0.499)
    assert cache.get("a", lambda: "new") == "old"
    later(clock, 0.001)
    assert cache.get("a", lambda: "new") == "new"


def test_a_change_makes_a_value_no_younger(cache: Cache[str], clock: FakeClock) -> None:
    cache.update("a", lambda _: "nothing to change")
    cache.get("a", lambda: "old")
    later(clock, KEEP - 1)
    cache.update("a", lambda value: f"{value}er")

    assert cache.get("a", lambda: "new") == "older"
    later(clock, 1)
    assert cache.get("a", lambda: "new") == "new"


@pytest.mark.parametrize("forget", [Cache.forget, Cache.forget_all])
def test_a_read_that_began_before_it_was_forgotten_is_not_kept(
    cache: Cache[str], held: HeldRead, forget: Callable[[Cache[str], str], None]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(cache.get, "a", held)
        assert held.begun.wait(30)
        forget(cache, "a")
        held.may_end.set()

    assert reader.result() == "new"
    assert cache.get("a", lambda: "newer") == "newer"


def test_forgetting_goes_by_key_or_by_prefix(cache: Cache[str]) -> None:
    for forget in (cache.forget, cache.forget_all):
        cache.get("a.b", lambda: "old")
        cache.get("b.b", lambda: "old")
        forget("a.b" if forget == cache.forget else "a.")

        assert [cache.get(key, lambda: "new") for key in ("a.b", "b.b")] == ["new", "old"]


def test_the_least_recently_used_value_is_dropped_first(cache: Cache[str]) -> None:
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda: "old")

    assert [cache.get(key, lambda: "new") for key in ("a", "b")] == ["old", "new"]


def test_values_may_have_a_size(clock: FakeClock) -> None:
    cache = Cache[str](SystemThreads(clock.monotonic), lambda _: KEEP, most=5, size=len)
    for key in ("a", "b", "c"):
        cache.get(key, lambda: "xx")
    cache.update("b", lambda _: "xxx")
    cache.forget("c")
    cache.get("d", lambda: "xx")

    assert [cache.has(key) for key in "abcd"] == [False, True, False, True]
    assert cache.get("e", lambda: "larger than all") == "larger than all"
    assert not any(cache.has(key) for key in "abcde")


def test_nobody_waits_for_a_read_that_hangs_and_it_is_not_begun_again(
    cache: Cache[str], clock: FakeClock, held: HeldRead
) -> None:
    first = cache.get_within("a", held, 0)
    assert held.begun.wait(30)
    later(clock, 100)  # since it began: longer than anybody waits for it
    rest = {cache.get_within("a", held, 100) for _ in range(1000)}

    assert (first, rest, held.times) == (None, {None}, 1)
    held.may_end.set()
    assert cache.get_within("a", held, 130) == "new"


def test_a_read_that_gets_no_thread_is_not_under_way(
    cache: Cache[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda _: failing(RuntimeError("no thread"))())
        with pytest.raises(RuntimeError, match="no thread"):
            cache.get_within("a", lambda: "old", 30)

    assert cache.get("a", lambda: "new") == "new"
