"""An inbox that several gateways share: who works on which part of it, and how messages and replies find their way."""
