"""The APIs that models are asked through: how each writes a request, and reads an answer. What they share is above."""
