"""Runs the official conformance suite of the Multi-Cluster Services API against our agents."""
