"""Tests of dcadl.features."""
