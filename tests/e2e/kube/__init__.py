"""Real Kubernetes control planes on loopback: built once, started by a test run, gone with it."""
