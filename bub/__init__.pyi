from bub.framework import BubFramework as BubFramework
from bub.framework import TurnResult as TurnResult
from bub.hookspecs import hookimpl as hookimpl

__version__: str
