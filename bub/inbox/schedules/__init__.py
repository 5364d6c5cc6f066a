"""Schedules in a gateway: which moment is due, what was missed, and what the store keeps of it."""
