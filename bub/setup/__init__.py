"""Setting up: the wizard decides what is asked, the prompter asks it, a script may answer, and changes are made of it.
Removing is the other half: what Bub leaves in its own folder, and how the program was installed.

How the text of a file is changed lies below, in `bub/pipeline/edit/`; a person at a terminal answers in `bub/cli/`."""
