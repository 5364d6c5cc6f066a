"""The command line: one command a module, each imported only when it is called."""
