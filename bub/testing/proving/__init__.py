"""Proving a pipeline: every fault at every point, on virtual time, held against laws that follow from the file.

`proof.py` is the way in. Nothing here knows a hook by its name except those that the agent fires."""
