"""The pipeline file: read with places, merged, checked, compiled and run."""
