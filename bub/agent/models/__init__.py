"""Talking to a model: which `endpoint` is meant, the one `client` to share, and `chat`, the answer as a stream."""
