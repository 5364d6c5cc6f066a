"""The ways on which strangers can make an agent leak: who can write to it, what its tools do, and what cuts them."""
