"""Tapes on their way from one store to another: what each store gives and takes, and the mark of a half copy."""
