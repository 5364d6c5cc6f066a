"""Webhooks: what a signed request means, how its answer is given, and where late replies go."""
