"""The calls of tools: what is asked before one runs, who runs it, and what becomes of one that was cut short."""
