"""The command line: one command a module, each imported only when it is called.

A command asks and prints. What it decides lies in the folders below: `pipeline/`, `runtime/`, `setup/`, `doctor/`."""
