"""What a lock beside a pipeline file says of the names in it: told without importing a plugin."""
