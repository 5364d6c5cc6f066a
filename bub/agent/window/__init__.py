"""What fits into a model: how large its window is, how much a request takes, and how room is made before it is full."""
