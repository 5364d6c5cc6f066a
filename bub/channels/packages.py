"""What is raised if the packages of the web server are not there; importing it loads no server."""

from __future__ import annotations

from bub.base.installing.extras import install_command
from bub.errors import BubError


def lack_packages(who: str) -> BubError:
    """Return what to raise if the packages of the web server are not installed, which `who` needs."""
    problem = f"{who} needs the packages of the extra `web`, which are not installed"
    return BubError(problem, help=f"run `{install_command('web')}`")
