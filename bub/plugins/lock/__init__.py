"""The lock beside a pipeline file: what it holds, reading it, and what has drifted since it was made.

What makes it lies above, in `bub/setup/locking/`. `bub validate` reads it, so nothing here is expensive to import.
"""
