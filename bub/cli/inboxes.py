"""The inbox that commands beside a gateway work on: a file of this machine, or what several gateways share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from bub.base.locate import bub_home
from bub.cli.options import Options, workspace_of
from bub.cli.shared_store import find_shared_store
from bub.inbox.file import inbox_file
from bub.inbox.shared.desk import SharedDesk
from bub.inbox.sqlite import SqliteInbox

Inbox: TypeAlias = SqliteInbox | SharedDesk


@contextmanager
def open_inbox(options: Options, *, make: bool = False) -> Iterator[Inbox]:
    """Open the inbox of the workspace; if there is no file, one is made only if something is to be kept in it."""
    address = find_shared_store(options)
    if address is not None:
        yield SharedDesk(address, workspace_of(options))
        return
    with open_local_inbox(options, make=make) as inbox:
        yield inbox


@contextmanager
def open_local_inbox(options: Options, *, make: bool = False) -> Iterator[SqliteInbox]:
    """Open the inbox of this machine, whatever gateways share."""
    path = inbox_file(bub_home(os.environ))
    inbox = SqliteInbox(path if make or path.exists() else None, workspace_of(options))
    inbox.open()
    try:
        yield inbox
    finally:
        inbox.close()
