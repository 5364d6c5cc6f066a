"""Finding lines in the files of a folder, as a program of its own: a pattern that never comes to an end is stopped."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

# No import of Bub: the program starts without the packages of Bub, in a few hundredths of a second.

DEEPEST = 64
_LARGEST = 5_000_000
_LONGEST_LINE = 400
_SKIPPED = ".git"
_KEYS = ".env"
_EXAMPLES = (".example", ".sample", ".template", ".dist")
_SECRET_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube")
_SECRET_FILES = (".netrc", "_netrc", ".git-credentials", ".pgpass")
_SSH_KEYS = ("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk")
SECRETS = frozenset((*_SECRET_FOLDERS, *_SECRET_FILES, *_SSH_KEYS))
"""How files and folders are called that likely hold secrets."""


def holds_keys(name: str) -> bool:
    """Whether a file of this name holds keys: `.env`, or one such as `.env.local`, but not its `.env.example`."""
    name = name.casefold()
    return name == _KEYS or (name.startswith(f"{_KEYS}.") and not name.endswith(_EXAMPLES))


def is_likely_secret(name: str) -> bool:
    """Whether a file or folder of this name likely holds a secret that is not Bub's: `.ssh`, `.netrc`, `id_ed25519`."""
    return name.casefold() in SECRETS


def walk(folder: int, kept: Sequence[tuple[int, int]]) -> Iterator[tuple[str, list[str], list[str], int]]:
    """Everything below an opened folder, sorted: the path so far, folders, files, and that folder opened.

    Links are not followed. `.git`, folders that `kept` names by device and number, and what lies too deep are left out.
    """
    for top, folders, files, here in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        found = os.fstat(here)
        if (found.st_dev, found.st_ino) in kept or top.count("/") >= DEEPEST:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if name != _SKIPPED)
        yield top.removeprefix(".").removeprefix("/"), folders, sorted(files), here


def fits(path: str, glob: str) -> bool:
    """Whether a path fits a glob: one without `/` is held against the name, `**/` stands for any folders or none."""
    if "/" not in glob:
        return fnmatchcase(path.rpartition("/")[2], glob)
    return fnmatchcase(path, glob) or fnmatchcase(path, glob.replace("**/", ""))


def lines_in(
    folder: int, name: str, pattern: re.Pattern[str], kept: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a file that has the pattern; none of a binary file or of a `kept` one."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) in kept:
            return
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            data = file.read(_LARGEST)
    except OSError:
        return
    if b"\0" in data[:8192]:
        return
    for number, line in enumerate(data.decode("utf-8", errors="replace").split("\n"), 1):
        match = pattern.search(line)
        if match is not None:
            begin = max(0, match.start() - _LONGEST_LINE // 2) if len(line) > _LONGEST_LINE else 0
            yield number, line[begin : begin + _LONGEST_LINE].rstrip("\r")


def main() -> None:
    """Do one search: what is wanted comes as JSON, the folder opened already; each find is one line of JSON."""
    wanted = json.loads(sys.argv[1])
    folder = wanted["folder"]
    try:
        pattern = re.compile(wanted["pattern"], re.IGNORECASE if wanted["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        sys.exit(str(error))
    kept = [tuple(identity) for identity in wanted["kept"]]
    if wanted["name"] is not None:
        found = ((wanted["name"], *line) for line in lines_in(folder, wanted["name"], pattern, kept))
    else:
        found = (
            (path, *line)
            for top, _, files, here in walk(folder, kept)
            for name in files
            if not holds_keys(name) and not any(map(is_likely_secret, (*top.split("/"), name)))
            if fits(path := f"{top}/{name}" if top else name, wanted["glob"])
            for line in lines_in(here, name, pattern, kept)
        )
    for count, find in enumerate(found, 1):
        # At once: what was found is told also where the rest takes too long.
        sys.stdout.write(json.dumps(find) + "\n")
        sys.stdout.flush()
        if count == wanted["limit"]:
            break


if __name__ == "__main__":
    main()
