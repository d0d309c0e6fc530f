"""How long answers of name servers are believed, by a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from shared.adapters.http.resolver import NameServers
from testbed.name_server import FOUND, NXDOMAIN, SERVFAIL, Answer, running_name_server
from tests.integration.push.late import eventually, open_files
from tests.integration.push.on_loop import PATIENCE, begin, run

EMPTY = Answer(())
UNKNOWN = Answer((), code=NXDOMAIN)
FAULT = Answer((), code=SERVFAIL)
ONLY_IPV6 = Answer(("::1",))


class Names:
    """A name server, what it says of names, and a lookup with a clock that the test moves."""

    def __init__(self) -> None:
        self.says: Callable[[str], Answer | None] = lambda _: FOUND
        self.questions: list[str] = []
        self.now = 0.0
        self.lookup: NameServers

    def answer(self, name: str) -> Answer | None:
        self.questions.append(name)
        return self.says(name)

    def say(self, answer: Answer) -> None:
        self.says = lambda _: answer

    def find(self, host: str = "shop.test") -> list[str]:
        """Look *host* up; return nothing if it has no address."""
        try:
            return [str(each) for each in run(self.lookup(host))]
        except TimeoutError:
            raise
        except OSError:
            return []


@contextmanager
def running_names() -> Iterator[Names]:
    made = Names()
    with running_name_server(made.answer) as port:
        made.lookup = NameServers([f"127.0.0.1:{port}"], clock=lambda: made.now)
        try:
            yield made
        finally:
            run(made.lookup.close())


@pytest.fixture
def names() -> Iterator[Names]:
    with running_names() as made:
        yield made


@pytest.mark.parametrize("none", [EMPTY, UNKNOWN])
def test_a_name_that_had_no_address_is_asked_again_after_seconds(
    names: Names, none: Answer
) -> None:
    """Its servers let the second answer be kept for an hour, and c-ares keeps both as long."""
    names.say(none)
    assert [names.find(), names.find()] == [[], []]
    names.say(FOUND)
    asked = len(names.questions)
    names.now = 4.9
    assert names.find() == []
    assert len(names.questions) == asked
    names.now = 5.0

    assert names.find() == ["127.0.0.1"]


@pytest.mark.parametrize("none", [EMPTY, UNKNOWN])
def test_a_name_that_loses_its_address_is_asked_again_at_once(names: Names, none: Answer) -> None:
    """Of the latest five seconds there is nothing to keep."""
    names.find("other.test")
    names.now = 5.0
    names.say(none)
    assert names.find() == []
    names.say(FOUND)

    assert names.find() == ["127.0.0.1"]


@pytest.mark.parametrize("none", [EMPTY, UNKNOWN])
def test_a_name_without_address_costs_others_no_question(names: Names, none: Answer) -> None:
    """Nor has c-ares to learn again which name server is dead, for three seconds each time."""
    names.says = lambda name: none if name == "gone.test" else Answer(ttl=300)
    names.find("shop.test")
    asked = names.questions.count("shop.test")
    for _ in range(10):
        names.now += 5.0
        assert names.find("gone.test") == []
        assert names.find("shop.test") == ["127.0.0.1"]

    assert names.questions.count("shop.test") == asked


def test_a_name_that_has_its_address_again_is_asked_with_the_others_after_a_minute(
    names: Names,
) -> None:
    names.say(EMPTY)
    names.find()
    names.say(Answer(ttl=300))
    names.now = 60.0
    assert names.find() == ["127.0.0.1"]
    asked = len(names.questions)
    names.now = 119.9

    assert (names.find(), len(names.questions)) == (["127.0.0.1"], asked)


def test_a_family_that_had_no_address_is_asked_again_within_a_minute(names: Names) -> None:
    """A host without IPv6 can't reach what is left."""
    names.say(ONLY_IPV6)
    assert names.find() == ["::1"]
    names.say(Answer(("127.0.0.1", "::1")))
    names.now = 60.0

    assert sorted(names.find()) == ["127.0.0.1", "::1"]


def test_an_answer_with_addresses_is_kept_for_its_time_to_live(names: Names) -> None:
    names.say(Answer(("127.0.0.1",), ttl=2))
    assert names.find() == ["127.0.0.1"]
    names.say(Answer(("127.0.0.2",), ttl=300))

    assert eventually(lambda: names.find() == ["127.0.0.2"])
    asked = len(names.questions)
    names.now = 59.9
    names.say(FOUND)
    assert {tuple(names.find()) for _ in range(100)} == {("127.0.0.2",)}
    assert len(names.questions) == asked


def test_a_failure_of_the_name_server_is_not_kept(names: Names) -> None:
    names.say(FAULT)
    assert names.find() == []
    names.say(FOUND)

    assert names.find() == ["127.0.0.1"]


def test_a_lookup_under_way_is_answered_though_others_ask_anew(names: Names) -> None:
    """It asks a second time after three seconds."""
    names.says = lambda name: FOUND if name == "quick.test" else None
    waiting = begin(names.lookup("slow.test"))
    assert eventually(lambda: "slow.test" in names.questions)
    names.now = 60.0
    assert names.find("quick.test") == ["127.0.0.1"]
    names.say(FOUND)

    assert [str(each) for each in waiting.result(PATIENCE)] == ["127.0.0.1"]


def test_closing_ends_also_lookups_that_began_before_others_asked_anew(names: Names) -> None:
    names.says = lambda name: FOUND if name == "quick.test" else None
    waiting = begin(names.lookup("slow.test"))
    assert eventually(lambda: "slow.test" in names.questions)
    names.now = 60.0
    names.find("quick.test")
    run(names.lookup.close())

    assert isinstance(waiting.exception(PATIENCE), MemoryError)


def test_asking_anew_holds_no_descriptors(names: Names) -> None:
    names.say(EMPTY)
    for _ in range(2):  # on the channel of all names, then on that of names without address
        names.find()
    before = open_files()
    for _ in range(20):
        names.now += 5.0
        names.find()

    assert eventually(lambda: open_files() <= before)
