"""The tools with which the agent makes schedules of its own."""
