"""Setting up: the wizard decides what is asked, the prompter asks it, a script may answer, and changes are made of it.

How the text of a file is changed lies below, in `bub/pipeline/edit/`; a person at a terminal answers in `bub/cli/`."""
