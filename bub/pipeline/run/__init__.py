"""From a plan and plugins to a graph, and from a graph to turns.

No module here knows a hook by its name."""
