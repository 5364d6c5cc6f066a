"""The packages of bub-contrib, each installed and tried in a real turn: `make compat`. Nothing of theirs is in here.

`trials/` says for each package what it is tried with, one small module each; `services/` holds the fakes they talk to;
`world.py` is the machine of one trial, `environments.py` its Python, `inside/` what is switched within its processes.
"""
