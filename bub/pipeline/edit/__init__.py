"""Changing the text of a pipeline file, and beginning one.

What is to change is decided by the commands and by `bub/setup/`."""
