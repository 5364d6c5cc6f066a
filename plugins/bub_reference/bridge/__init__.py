"""Makes a plugin of Bub out of one of the reference: `adopting.py` is its face.

Everything here runs where the plugin runs, and hands Bub what any plugin with `runtime: asyncio` would.
"""
