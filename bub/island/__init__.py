"""An asyncio loop in a thread of its own, and how calls cross between it and trio. It knows no plugin and no hook.

`island.py` is its face. What adapts to it has the name `islands.py` in its own folder: implementations of hooks in
`bub/hooks/`, tape stores in `bub/tape/`, channels in `bub/channels/`, tools and what a plugin is handed in
`bub/plugins/`; `bub/runtime/hosts/` puts these together. Nobody else knows of islands.
"""
