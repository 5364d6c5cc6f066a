"""Completion in bash, zsh and fish: the scripts they source, and the answer to a Tab.

The answer imports neither Typer nor a plugin: what there is to type is in `vocabulary.json`, which a test holds to the
commands. How a command works is its own module's, in the folder above."""
