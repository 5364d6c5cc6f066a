"""A message's way: taken in, kept, answered, and its replies delivered.

What a channel is lies below, in `bub/channels/`; how a turn runs, in `bub/pipeline/run/`."""
