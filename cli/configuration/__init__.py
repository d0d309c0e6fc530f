"""Brings a deployment to what one file says: reads it, plans the changes, carries them out."""

from cli.configuration.configuration_file import read_configuration
from cli.configuration.execute import carry_out
from cli.configuration.planning import Action, Change, plan, refuse_to_delete_all
from cli.configuration.resources import Configuration

__all__ = [
    "Action",
    "Change",
    "Configuration",
    "carry_out",
    "plan",
    "read_configuration",
    "refuse_to_delete_all",
]
