"""How agents reach each other: mutual TLS 1.3 and WebSocket, and a twin in memory for tests."""
