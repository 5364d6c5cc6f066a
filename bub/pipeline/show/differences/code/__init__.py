"""Which code runs for a profile: plugins that are imported, servers that are started."""
