"""The kinds as code, one a module: how the implementations of one hook point are called, and their results.

What is only a fact about a kind, and needs no code, is in `bub/hooks/facts.py`."""
