"""End-to-end tests: real agents as processes against real Kubernetes control planes."""
