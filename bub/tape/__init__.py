"""Tapes: the append-only record of each session, and what is asked of it."""

from __future__ import annotations
