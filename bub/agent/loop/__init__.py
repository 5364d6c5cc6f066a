"""The agent's loop: asks the model, runs the tools it calls, and asks again; `steps` says which step comes next."""
