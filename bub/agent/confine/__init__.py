"""Confining commands to what a profile's `reach` lists: what this machine can do, and how a command is begun then.

What `reach` says, and what follows from it, lives in `bub/base/confinement/`."""
