"""guid() and uniqueString() give Azure's own texts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from cli.configuration.template.unique_names import guid, unique_string
from tests import bicep

#: Texts and what Bicep's compiler answers for them: guid() and uniqueString().
TABLE = Path(__file__).parents[3] / "data/configuration/unique_names.json"
KNOWN: list[list[Any]] = json.loads(TABLE.read_text("utf-8"))
_LETTERS = "abcxyz0189-/ ~\t'${}ÄñжЖ中日한\u00a0\u0301\u200d\ufeff🙂🚀"
_TEMPLATE = """
var rows = loadJsonContent('texts.json')
var answers = map(rows, r => length(r) == 1
  ? [guid(r[0]), uniqueString(r[0])]
  : length(r) == 2
      ? [guid(r[0], r[1]), uniqueString(r[0], r[1])]
      : [guid(r[0], r[1], r[2]), uniqueString(r[0], r[1], r[2])])
resource all 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'all'
  location: 'local'
  tags: any({ answers: answers })
}
"""


def names(texts: list[str]) -> list[str]:
    return [guid(*texts), unique_string(*texts)]


def test_the_names_are_azures() -> None:
    assert [[texts, *names(texts)] for texts, *_ in KNOWN] == KNOWN


def test_the_table_has_texts_of_every_kind() -> None:
    joined = [len("-".join(row[0]).encode()) for row in KNOWN]

    assert len(KNOWN) == 60
    assert {len(row[0]) for row in KNOWN} == {1, 2, 3}
    assert {length % 8 for length in joined} == set(range(8))
    assert (min(joined), max(joined) > 1000) == (0, True)
    assert sum(not "".join(row[0]).isascii() for row in KNOWN) > 10


@bicep.needs_compiler
def test_the_compiler_answers_the_same_for_any_texts(tmp_path: Path) -> None:
    chance = random.Random()
    made = [
        ["".join(chance.choices(_LETTERS, k=chance.randrange(40))) for _ in range(1 + count % 3)]
        for count in range(200)
    ]
    rows = [row[0] for row in KNOWN] + made
    (tmp_path / "texts.json").write_text(json.dumps(rows))
    (tmp_path / "all.bicep").write_text(_TEMPLATE)
    parameters = tmp_path / "all.bicepparam"
    parameters.write_text("using 'all.bicep'\n")

    (found,) = bicep.snapshot(parameters)["predictedResources"]

    answers = found["tags"]["answers"]
    assert [row[1:] for row in KNOWN] == answers[: len(KNOWN)]
    assert [(row, names(row)) for row in rows] == list(zip(rows, answers, strict=True))
