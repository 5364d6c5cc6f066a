"""The API that speaks as OpenAI's does, below `/v1`: each profile of a client is a model."""
