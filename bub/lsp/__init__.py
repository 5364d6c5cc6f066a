"""`bub lsp`: what `bub validate`, `explain` and `--fix` know, in an editor, while somebody types.

It speaks the Language Server Protocol 3.17. What is found, explained or repaired is decided in `bub/pipeline/`; here
are only open files, positions, and the shapes that the protocol wants."""
