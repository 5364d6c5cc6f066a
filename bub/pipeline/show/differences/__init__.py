"""What can differ in behaviour between two pipelines, one concern a module.

Which sides are compared, and in which order the changes are shown, is decided in `bub/pipeline/show/compare.py`."""
