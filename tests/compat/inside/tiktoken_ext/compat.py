"""An encoding for tiktoken whose tokens are bytes: those that it knows by name are files on the internet."""

from __future__ import annotations

ENCODING_CONSTRUCTORS = {
    "compat_bytes": lambda: {
        "name": "compat_bytes",
        "pat_str": r"[\s\S]",
        "mergeable_ranks": {bytes([each]): each for each in range(256)},
        "special_tokens": {},
    }
}
