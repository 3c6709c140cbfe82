"""Trained models outside Python: one list of operations, and what is written from it."""
