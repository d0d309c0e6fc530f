"""Checks a folder of templates: loads it, then applies all rules."""

from __future__ import annotations

from pathlib import Path

from tools.bicepcheck.evaluation.scenarios import deployments
from tools.bicepcheck.problems import ProblemReport
from tools.bicepcheck.reading.folder import Folder
from tools.bicepcheck.rules import (
    agreement,
    conditions,
    names_in_code,
    naming,
    network,
    parameters,
    policy,
    queries,
    references,
    resources,
    roles,
    secrets,
    usage,
)

LIMITS = (
    "what the Bicep compiler reports and no rule here needs: build the templates with it",
    "what only Azure knows: regions, quotas, names that are taken, the deployer's permissions",
    "the results of queries: they are read for names, not run",
    "values that Azure computes, in expressions that use them",
    "in azure.yaml everything except the service's name",
)
"""What this checker never checks."""

_OF_FILES = (usage.check, conditions.check, secrets.check_declarations)
_OF_DEPLOYMENTS = (
    secrets.check,
    policy.check,
    references.check,
    naming.check,
    roles.check,
    agreement.check,
    queries.check,
    network.check,
)


def check(root: Path) -> ProblemReport:
    """
    Return the problems of the templates in *root*, which contains `main.bicep`.

    Each step, and each set of parameters, needs that the one before has no problem.
    """
    report = ProblemReport(unchecked=set(LIMITS))
    folder = Folder(root, report)
    for rule in _OF_FILES:
        report.problems.update(rule(folder))
    if not report.problems:
        report.problems.update(parameters.check(folder))
        names = names_in_code.of_folder(folder.root)
        for deployment in deployments(folder):
            report.problems.update(resources.check(deployment))
            for of_deployment in () if report.problems else _OF_DEPLOYMENTS:
                report.problems.update(of_deployment(deployment, names))
            if report.problems:
                break
    if report.problems:
        report.unchecked.add("the rest of the deployment: the problems above come first")
    return report
