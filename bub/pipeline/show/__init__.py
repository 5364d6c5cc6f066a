"""What a pipeline comes to, for people: explanations, drawings, differences.

Nothing here changes a file or runs a plugin."""
