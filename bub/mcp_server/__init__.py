"""Serves a profile to programs that speak MCP: a turn and its tools as tools, tapes as resources.

It imports the official SDK (the extra `mcp`), so only `bub mcp serve` imports it. The command line decides where the
streams lead and which profile is served; what a call may do, the turn decides that each call is.
"""
