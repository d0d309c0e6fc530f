"""All rules: the code in a problem, what the rule requires, its source, and where it is."""

from __future__ import annotations

from typing import NamedTuple

_BICEP = "Bicep's documentation"
_SCHEMAS = "Azure's resource schemas (azmcp)"
_LINTER = "Bicep's linter"
_CODE = "the app's code"
_DESIGN = "this project's design: docs/deploy.md, infra/README.md"


class Rule(NamedTuple):
    """*code*: in problems; *module*: the one that checks it, in this package."""

    code: str
    requires: str
    source: str
    module: str

    def __str__(self) -> str:
        return f"{self.code}: {self.requires} [{self.source}; {self.module}]"


def _rules(module: str, source: str, **rules: str) -> list[Rule]:
    return [Rule(code.replace("_", "-"), text, source, module) for code, text in rules.items()]


RULES: tuple[Rule, ...] = (
    *_rules(
        "reading.folder",
        _BICEP,
        syntax="A file is Bicep, and a JSON file is JSON.",
        no_file="Every file that a template names can be read.",
        unreachable_file="main.bicep uses every template, directly or not.",
        unknown_import="An imported name is exported.",
        declared_twice="A name, a member or a decorator is written once.",
    ),
    *_rules(
        "types.infer",
        _BICEP,
        unknown_name="A name is declared.",
        unknown_type="A type is declared.",
        unknown_function="A function exists.",
        arguments="A call has the right number of arguments.",
        type="A value has the expected type.",
        value="A value is one of the allowed ones.",
        missing="Required members and parameters are set.",
        unknown_property="A member that is set exists.",
        unknown_member="A member that is read exists.",
        read_only="A read-only member is not set.",
        write_only="A write-only member is not read.",
        may_be_null="A member of a value that may be null is read with .?",
        never_equal="Compared values can be equal.",
    ),
    *_rules(
        "rules.declarations",
        _BICEP,
        unknown_decorator="A decorator exists.",
        decorator="A decorator applies to the type of its declaration.",
        range="A minimum is not above its maximum.",
        secret_default="A secret parameter has no default.",  # noqa: S106 - a rule's sentence
    ),
    *_rules(
        "rules.resources",
        _SCHEMAS,
        resource_type="A resource type exists, with this spelling.",
        api_version="An API version is given and exists.",
        parent="A child resource has the right parent.",
        scope="Resources and modules deploy to a scope that their type allows.",
        depends_on="dependsOn lists resources and modules that nothing else implies.",
    ),
    *_rules(
        "rules.usage",
        _LINTER,
        unused="Every declaration is used.",
        cycle="Nothing depends on itself.",
        known_too_late="Names, scopes, conditions and loops are known before deployment.",
    ),
    *_rules(
        "rules.conditions",
        _LINTER,
        condition="A value is used where it is set, not where it is empty.",
        location="A location is a parameter, or 'global' where Azure requires that.",
    ),
    *_rules(
        "rules.linter",
        _LINTER,
        hard_coded_url="Addresses of one cloud come from environment().",
        linter="bicepconfig.json uses levels that exist.",
    ),
    *_rules(
        "rules.parameters",
        "azd's documentation",
        parameters="main.parameters.json sets parameters that exist, each from its variable.",
    ),
    *_rules(
        "rules.secrets",
        _DESIGN,
        secret="Secrets are @secure(), and no output or setting reveals one.",  # noqa: S106
        changes_each_time="Names and defaults are the same at each deployment.",
    ),
    *_rules(
        "rules.policy",
        _DESIGN,
        policy="Encryption, identities, network access and plan are as the project requires.",
    ),
    *_rules(
        "rules.references",
        _SCHEMAS,
        reference="An id or address belongs to a resource of the expected type.",
    ),
    *_rules(
        "rules.naming",
        "Azure's naming rules; azd's documentation",
        name="Names are unique and have the length and characters that Azure allows.",
        tags="Resources have the tags by which azd finds them.",
    ),
    *_rules(
        "rules.roles",
        "Azure's built-in roles",
        role="The app has the roles that it needs, on the narrowest scope, before it starts.",
    ),
    *_rules(
        "rules.agreement",
        _CODE,
        setting="Settings are those that code and host read, with values that they accept.",
        queue="The queues are those of the code.",
        table="The tables are those of the code.",
        container="The containers of the code are created.",
        function="Functions that are kept ready exist.",
        lifecycle="Lifecycle rules delete only payloads, and not before the app is done.",
    ),
    *_rules(
        "rules.queries",
        "Azure Monitor's documentation; " + _CODE,
        alert="Alerts have metrics, thresholds and receivers that exist and make sense.",
        query="Queries name tables, columns, log lines and functions that exist.",
        duration="Alerts use windows and frequencies that Azure allows.",
        date="A budget starts on the first of a month.",
    ),
    *_rules(
        "rules.network",
        "Azure's documentation of private endpoints",
        network="Private services have endpoints with zones; subnets fit their network.",
    ),
    *_rules("compiler", "the Bicep compiler", compiler="The compiler answers."),
)
"""Problems that the Bicep compiler reports have its codes, such as BCP057."""
