"""Searching the file of tapes beside those who write. How queries look for a text, each store knows itself."""
