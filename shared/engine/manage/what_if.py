"""Answers what a PUT would change, in the form of ARM's what-if operation."""

from __future__ import annotations

from shared.arm.arm_json import answer
from shared.engine.ports import Document
from shared.http import HttpAnswer


def answer_what_if(before: Document | None, after: Document, *, is_same: bool) -> HttpAnswer:
    """
    Answer a change: the resource *before* as a GET shows it, and *after* the PUT.

    *before* is ``None`` if there is no resource, and empty if it can't be read. *is_same* compares
    what is stored, including what an answer hides.

    Source: "Deployments - What If" of Azure Resource Manager, ``WhatIfChange``.
    """
    kind = "Create" if before is None else "NoChange" if is_same else "Modify"
    return answer(200, {"changeType": kind, "before": before, "after": after})
