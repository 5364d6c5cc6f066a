"""Finding and loading plugins, and their typed sections of the settings.

What a hook is lies below, in `bub/hooks/`; what plugins do in a pipeline, above, in `bub/pipeline/run/`."""
