"""What knows nothing of turns: findings as values, durations, text for terminals, files, waiting.

A module that knows a hook, a stage or a plugin is at home higher up."""
