"""What plugins of the reference use of its builtin plugin."""
