"""Findings for people, for CI and for other programs.

A finding itself is a value of `bub/base/diagnostics.py`."""
