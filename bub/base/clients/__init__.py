"""Programs that ask Bub as they would ask a model: what they bring."""
