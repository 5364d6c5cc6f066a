"""The agent: what the builtin plugin does at each step of a turn, its loop, its models, tools and skills.

When a turn takes place is decided in `bub/inbox/`, and in which order its steps run, by the pipeline file.
"""
