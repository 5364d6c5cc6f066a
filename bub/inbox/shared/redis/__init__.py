"""The inbox in a Redis. Whatever changes something is one script, which checks the lease before it writes.

A stream of each partition has the messages that wait there, in order: what is done with is deleted from it, so a new
owner reads it from its beginning, and finds what the one before it had begun. What changes about a message, such as its
attempts, lies in a hash beside the stream.
"""
