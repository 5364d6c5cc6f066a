"""What can differ in behaviour between two pipelines, one concern a module."""
