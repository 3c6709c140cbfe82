"""Tests of dcadl.data."""
