"""The private folders of confined commands: one for temporary files, one in the place of the home folder."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec

from bub.agent.confine.walls import Walls


class Room(msgspec.Struct, frozen=True):
    """The private folders of one session. `settings` is what all show in the place of `/etc`, if that is private."""

    folder: Path
    settings: Path
    placeholders: set[Path]

    @property
    def nothing(self) -> Path:
        """An empty file, to be shown in the place of others."""
        return self.folder / "nothing"

    @property
    def temporary(self) -> Path:
        """The folder for temporary files."""
        return self.folder / "tmp"

    @property
    def home(self) -> Path:
        """The folder in the place of the home folder."""
        return self.folder / "home"

    def copy_settings(self, walls: Walls) -> None:
        """Copy what programs read in `/etc`, once: to show each file by itself would take longer for each command."""
        if self.settings.exists():
            return
        self.settings.mkdir()
        for path in walls.settings:
            with suppress(OSError, shutil.Error):  # what cannot be read is not shown
                _copy(path, self.settings / path.relative_to("/etc"))

    def hold_places(self, walls: Walls) -> None:
        """Put an empty file in each place that is to stay without one, as far as commands may write there."""
        for path in set(walls.missing).intersection(walls.exceptions):
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
                self.placeholders.add(path)

    def link_home(self, walls: Walls) -> None:
        """Make links to what may be used of the real home folder, where it cannot be laid over the private one."""
        real = Path(os.path.realpath(Path.home()))
        for path in (*walls.read, *walls.write):
            if path.is_relative_to(real) and path != real:
                link = self.home / path.relative_to(real)
                with suppress(OSError):
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path)


class Rooms(msgspec.Struct):
    """The rooms of all sessions; `close` removes them, with the empty files that held places."""

    _folder: Path | None = None
    _rooms: dict[str, Room] = msgspec.field(default_factory=dict)
    _placeholders: set[Path] = msgspec.field(default_factory=set)
    _made: int = 0

    def of(self, session_id: str) -> Room:
        """The room of a session. Raises OSError if it cannot be made."""
        if session_id not in self._rooms:
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="bub-"))
            self._made += 1
            room = Room(self._folder / str(self._made), self._folder / "etc", self._placeholders)
            for folder in (room.folder, room.temporary, room.home):
                folder.mkdir()
            room.nothing.touch()
            self._rooms[session_id] = room
        return self._rooms[session_id]

    def leave(self, session_id: str) -> None:
        """Remove the room of a session."""
        room = self._rooms.pop(session_id, None)
        if room is not None:
            shutil.rmtree(room.folder, ignore_errors=True)

    def close(self) -> None:
        """Remove all rooms."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        self._rooms.clear()
        for path in self._placeholders:
            with suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()
        self._placeholders.clear()


def _copy(path: Path, to: Path) -> None:
    """Copy a file, or a folder with its links, as far as everybody may read it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, to, symlinks=True, copy_function=_copy_file, dirs_exist_ok=True)
    else:
        _copy_file(str(path), str(to))


def _copy_file(path: str, to: str) -> str:
    if os.stat(path).st_mode & stat.S_IROTH:  # noqa: PTH116 (as `copytree` calls it)
        shutil.copyfile(path, to)
    return to
