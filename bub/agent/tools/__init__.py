"""The tools that every agent has; which of them one may use, its profile says."""
