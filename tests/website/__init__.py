"""The site of the documentation: Sphinx makes it as `conf.py` says, `links.py` looks at what was made (`make docs`)."""
