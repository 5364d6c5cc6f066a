"""A plugin with a wrapper of pluggy."""

from bub import hookimpl


@hookimpl(wrapper=True)
def build_prompt(message):
    return (yield)
