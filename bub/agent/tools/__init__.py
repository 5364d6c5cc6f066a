"""The tools that every agent has; the profile says which of them an agent may use."""
