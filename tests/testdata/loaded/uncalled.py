"""A plugin with a gate for a hook that its pipeline leaves out."""

from bub import hookimpl


@hookimpl
def tool_gate(tool):
    return False
