"""What lives longer than a turn: the loader and its snapshots, the runtime and its views, trust, turns and sessions.

How one turn runs is a matter of `bub/pipeline/run/`, and what Bub answers by itself one of `bub/agent/`."""
