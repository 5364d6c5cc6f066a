"""Packages with plugins: what one would bring is read without running it, then it is installed whole or not at all.

How a plugin gets into a file, and what is asked about it, is decided by the wizard, in the folder above.
"""
