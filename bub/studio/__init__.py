"""The page `bub studio`: what a runtime does, seen and answered from a browser by whoever has its token.

What the page shows is computed in `views/`, its files for browsers are in `page/`. Nothing of this is imported unless
somebody asks for the page.
"""
