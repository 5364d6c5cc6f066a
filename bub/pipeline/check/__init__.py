"""What is wrong with a file, told without a plugin: the schema's findings, rules, variables.

What only loaded plugins can tell is found by `bub/pipeline/run/compiler.py`."""
