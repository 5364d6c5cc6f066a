"""Serving a runtime: signals, reloads, health and metrics.

What becomes of a message is decided in `bub/inbox/`."""
