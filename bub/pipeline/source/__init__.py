"""From text to nodes with places: YAML, `extends`, merging, references.

What the nodes mean is said by `bub/pipeline/plan/`."""
