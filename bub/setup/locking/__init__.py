"""Making the lock beside a pipeline file: what is installed, what plugins bring, what servers offer.

Reading and comparing it lies below, in `bub/plugins/lock/`.
"""
