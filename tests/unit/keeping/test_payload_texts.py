"""The texts of deliveries that lie in payload blobs."""

from __future__ import annotations

from pushgrid.testing.memory import START, FakeClock, MemoryPayloads
from shared.engine.keeping.payload_texts import with_texts
from tests.builders import ORIGIN, a_delivery


class Read(MemoryPayloads):
    """Notes which blobs are read."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.names: list[str] = []

    def read(self, name: str) -> tuple[str, ...] | None:
        self.names.append(name)
        return self.blobs.get(name)


def test_each_blob_is_read_once_in_the_order_of_its_deliveries() -> None:
    payloads = Read()
    names = [payloads.write(f"{number:032x}", START, [f"text {number}"]) for number in range(20)]
    origins = [ORIGIN._replace(payload=name) for name in names * 2]

    read = with_texts([a_delivery(0, origin=each, text=None) for each in origins], payloads)

    assert [each.text for each in read] == [f"text {number}" for number in range(20)] * 2
    assert payloads.names == names
