"""Discriminative dictionary learning for images and signals."""

__version__ = "0.1.0"
