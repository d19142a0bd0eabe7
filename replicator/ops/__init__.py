"""What operators and machines ask of a running agent: HTTP API, health, metrics, and its client."""
