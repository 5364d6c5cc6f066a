"""What a pipeline is and does, for people: explanations, drawings, differences.

Nothing here changes a file or runs a plugin."""
