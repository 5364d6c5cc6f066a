"""A plugin that implements nothing."""
