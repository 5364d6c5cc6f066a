"""What a profile says its commands may reach: the value that checks, explanations and the agent share.

How it is enforced lives in `bub/agent/confine/`."""
