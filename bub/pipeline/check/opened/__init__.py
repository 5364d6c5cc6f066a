"""Pipelines that are being written, in an editor or on a page; neither is known here."""
