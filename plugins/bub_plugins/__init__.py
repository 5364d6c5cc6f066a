"""The plugins that ship with Bub: one module each, or one folder for a plugin of several ideas.

They use Bub's public names only, as anybody's plugin does. The builtin plugin is part of the agent, in `bub/agent/`.
"""
