"""All rules: the code in a problem, what the rule requires, its source, and where it is."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """*code*: in problems; *module*: the one that checks it, in this package."""

    code: str
    requires: str
    source: str
    module: str

    def __str__(self) -> str:
        return f"{self.code}: {self.requires} [{self.source}; {self.module}]"


_TEXT = """
reading.folder | Bicep's documentation
    syntax: A file is Bicep, and a JSON file is JSON.
    no-file: Every file that a template names can be read.
    unreachable-file: main.bicep uses every template, directly or not.
    unknown-import: An imported name is exported.
    declared-twice: A name, a member or a decorator is written once.
types.infer | Bicep's documentation
    unknown-name: A name is declared.
    unknown-type: A type is declared.
    unknown-function: A function exists.
    arguments: A call has the right number of arguments.
    type: A value has the expected type.
    value: A value is one of the allowed ones.
    missing: Required members and parameters are set.
    unknown-property: A member that is set exists.
    unknown-member: A member that is read exists.
    read-only: A read-only member is not set.
    write-only: A write-only member is not read.
    may-be-null: A member of a value that may be null is read with .?
    never-equal: Compared values can be equal.
rules.declarations | Bicep's documentation
    unknown-decorator: A decorator exists.
    decorator: A decorator applies to the type of its declaration.
    range: A minimum is not above its maximum.
    secret-default: A secret parameter has no default.
rules.resources | Azure's resource schemas (azmcp)
    resource-type: A resource type exists, with this spelling.
    api-version: An API version is given and exists.
    parent: A child resource has the right parent.
    scope: Resources and modules deploy to a scope that their type allows.
    depends-on: dependsOn lists resources and modules that nothing else implies.
rules.usage | Bicep's compiler and linter
    unused: Every declaration is used.
    cycle: Nothing depends on itself.
    known-too-late: Names, scopes, conditions and loops are known before deployment.
rules.conditions | this project (condition), Bicep's linter (location)
    condition: A value is used where it is set, not where it is empty.
    location: A location is a parameter, or 'global' where Azure requires that.
rules.linter | Bicep's linter
    hard-coded-url: Addresses of one cloud come from environment().
    linter: bicepconfig.json uses levels that exist.
rules.parameters | azd's documentation
    parameters: main.parameters.json sets parameters that exist, each from its variable.
rules.secrets | this project's design: docs/deploy.md, infra/README.md
    secret: Secrets are @secure(), and no output or setting reveals one.
    changes-each-time: Names and defaults are the same at each deployment.
rules.policy | this project's design: docs/deploy.md, infra/README.md
    policy: Encryption, identities, network access and plan are as the project requires.
rules.references | Azure's resource schemas (azmcp)
    reference: An id or address belongs to a resource of the expected type.
rules.naming | Azure's naming rules; azd's documentation
    name: Names are unique and have the length and characters that Azure allows.
    tags: Resources have the tags by which azd finds them.
rules.roles | Azure's built-in roles
    role: The app has the roles that it needs, on the narrowest scope, before it starts.
rules.agreement | the app's code
    setting: Settings are those that code and host read, with values that they accept.
    queue: The queues are those of the code.
    table: The tables are those of the code.
    container: The containers of the code are created.
    function: Functions that are kept ready exist.
    lifecycle: Lifecycle rules delete only payloads, and not before the app is done.
rules.queries | Azure Monitor's documentation; the app's code
    alert: Alerts have metrics, thresholds and receivers that exist and make sense.
    query: Queries name tables, columns, log lines and functions that exist.
    duration: Alerts use windows and frequencies that Azure allows.
    date: A budget starts on the first of a month.
rules.network | Azure's documentation of private endpoints
    network: Private services have endpoints with zones; subnets fit their network.
compiler | the Bicep compiler
    compiler: The compiler answers.
"""


def _rules(text: str) -> list[Rule]:
    found, module, source = [], "", ""
    for line in text.strip().splitlines():
        if line.startswith(" "):
            code, _, requires = line.strip().partition(": ")
            found.append(Rule(code, requires, source, module))
        else:
            module, _, source = line.partition(" | ")
    return found


RULES = tuple(_rules(_TEXT))
"""Problems that the Bicep compiler reports have its codes, such as BCP057."""
