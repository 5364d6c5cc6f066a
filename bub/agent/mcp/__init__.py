"""Servers of the Model Context Protocol whose tools the agent uses; what Bub itself serves is elsewhere."""
