"""What a file means for one profile: its stages in order, its values, routes and settings.

A plan never fails; what is wrong with it is found by `bub/pipeline/check/`."""
