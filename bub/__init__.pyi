from bub.framework import BubFramework as BubFramework
from bub.framework import TurnResult as TurnResult
from bub.hookspecs import hookimpl as hookimpl
from bub.plugins.section import Settings as Settings
from bub.tools import tool as tool

__version__: str
