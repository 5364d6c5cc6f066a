"""The schedules of a file: what they say, and the moments they mean."""
