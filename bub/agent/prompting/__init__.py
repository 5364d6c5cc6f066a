"""What a model reads: the system prompt and its template, what comes with a message, and that requests only grow.

Skills have a module of their own beside this folder; how each API writes a request is in `models/`.
"""
