"""A Redis that several processes share: its address, the names of what lies there, the connection, and leases.

What an inbox and a tape keep there is theirs to say; nothing here knows of messages.
"""
