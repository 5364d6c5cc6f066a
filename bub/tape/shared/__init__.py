"""Tapes that several gateways share: they lie in one Redis, and who lost a session cannot write its tape."""
