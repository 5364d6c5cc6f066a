"""The markers and the contract of hooks."""

from bub_reference.hooks.specs import BUB_HOOK_NAMESPACE as BUB_HOOK_NAMESPACE
from bub_reference.hooks.specs import BubHookSpecs as BubHookSpecs
from bub_reference.hooks.specs import hookimpl as hookimpl
from bub_reference.hooks.specs import hookspec as hookspec
