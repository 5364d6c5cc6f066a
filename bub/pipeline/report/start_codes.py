"""Which codes a check of the file alone does not find, or not in every case: they need what a start loads."""

from __future__ import annotations

_OF_PLUGINS = frozenset(
    (
        *("B200", "B201", "B202", "B203", "B204", "B205", "B206", "B207", "B208", "B209", "B210", "B213"),
        *("B214", "B215", "B216", "B217", "B218", "B219", "B220", "B221", "B222", "B223", "B224", "B240", "B250"),
    )
)
"""What plugins implement, bring and return."""

_PARTLY = frozenset(("B189", "B211", "B212", "B239", "B243", "B247"))
"""What the file alone may show, and what is found in every case only if it is known what the plugins bring."""

_NEVER_CHECKED = frozenset(("B225", "B226", "B227", "B228", "B229", "B237"))
"""What only a start finds in the user's own file or on the machine, and what only a proof finds."""


def needs_plugins(code: str) -> bool:
    """Whether a check without the plugins may miss a finding with this code."""
    return code in _OF_PLUGINS or code in _PARTLY or code in _NEVER_CHECKED


def is_never_checked(code: str) -> bool:
    """Whether a check misses a finding with this code even if it loads the plugins."""
    return code in _NEVER_CHECKED
