"""Commands that a profile lets through without a question: simple ones, by the words that they begin with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Words: TypeAlias = tuple[str, ...]
"""The words of a command, the program first; in an entry, `END` behind them if nothing may follow."""

END = ";"
"""What ends an entry that is a whole command; no word of a command has it."""

READING_GIT = frozenset(
    {
        "blame",
        "cat-file",
        "diff",
        "grep",
        "log",
        "ls-files",
        "ls-tree",
        "merge-base",
        "rev-list",
        "rev-parse",
        "shortlog",
        "show",
        "status",
    }
)
"""The commands of git that change nothing, whatever words follow."""

_LONGEST = 4096
_SPLITS = " \t"
_SIGNS = frozenset(";&|<>$(){}~*?[`\\")
"""What a shell may read as more than a letter; refused in quotes, too, since many programs read these signs again."""

_BEGINS_OPTION = ("-", "+", "@")
"""How an option begins, for some program, or the name of a file that holds options."""

_RUNS_ANYTHING = frozenset(
    {
        *("sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "eval", "exec", "command", "builtin", "source", "."),
        *("env", "sudo", "doas", "su", "nohup", "nice", "time", "timeout", "setsid", "stdbuf", "watch", "xargs"),
        *("parallel", "ssh", "awk", "gawk", "mawk", "sed", "ed", "vi", "vim", "npx", "uvx"),
        *("perl", "python", "python2", "python3", "ruby", "node", "deno", "bun", "php", "lua"),
    }
)
"""Programs that run whatever they are given."""


def read_command(text: str) -> Words | None:
    """Read one simple command, as words; None for whatever a shell could read as anything else."""
    if len(text) > _LONGEST or not _SIGNS.isdisjoint(text):
        return None
    if not all(letter.isprintable() or letter in _SPLITS for letter in text):
        return None
    words = _split(text)
    return words if words and all(words) and "=" not in words[0] else None


def find_beginning(entries: Iterable[Words], words: Words) -> Words:
    """Return the longest entry that a command begins with, if only plain words follow; else no words."""
    if is_git(words) and not READING_GIT.intersection(words[1:2]):
        return ()
    begun = (entry for entry in entries if (*words, END)[: len(entry)] == entry)
    return max((entry for entry in begun if all(map(_is_plain, words[len(entry) :]))), key=len, default=())


def read_entries(unasked: Mapping[str, Any]) -> Iterator[tuple[str, Words]]:
    """Yield the entries of `unasked` that are right, each with its tool; what a variable brings was not checked."""
    for name, entries in unasked.items():
        for entry in map(str, entries or ()):
            words = read_command(entry.rstrip().removesuffix(END))
            if words is not None and explain_entry(entry) is None:
                yield name, (*words, END) if entry.rstrip().endswith(END) else words


def is_git(words: Words) -> bool:
    """Whether the program is git, which a repository can tell to run others."""
    return words[0].rpartition("/")[2] == "git"


def explain_entry(entry: str) -> tuple[str, str] | None:
    """Say what is wrong with an entry of `unasked`, and what to do; None if it is right."""
    is_whole = entry.rstrip().endswith(END)
    words = read_command(entry.rstrip().removesuffix(END))
    if words is None:
        problem = f"no command ever begins with `{entry}`: without a question, Bub runs only one simple command"
        return problem, "write the first words of the command, without signs of the shell, such as `git log`"
    if len(words) == 1 and not is_whole and words[0].rpartition("/")[2] in _RUNS_ANYTHING:
        problem = f"`{entry}` lets every command through, because `{words[0]}` runs any other program"
        return problem, "add the words that follow, such as `python -m pytest`"
    if is_git(words) and (is_whole or words[1:]) and not READING_GIT.intersection(words[1:2]):
        problem = f"no command ever begins with `{entry}`: without a question, Bub runs only commands of git that read"
        return problem, f"these do: {', '.join(sorted(READING_GIT))}"
    return None


def _is_plain(word: str) -> bool:
    return not word.startswith(_BEGINS_OPTION) and "=" not in word


def _split(text: str) -> Words | None:
    """Split a text as a shell does that knows quotes, but no signs; None if a quote is not closed."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    for letter in text:
        if quote:
            if letter == quote:
                quote = ""
            else:
                word = (word or "") + letter
        elif letter in "'\"":
            quote, word = letter, word or ""
        elif letter in _SPLITS:
            words, word = [*words, word] if word is not None else words, None
        elif letter == "#" and word is None:  # a comment
            return None
        else:
            word = (word or "") + letter
    if quote:
        return None
    return (*words, word) if word is not None else tuple(words)
