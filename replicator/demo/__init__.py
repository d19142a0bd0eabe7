"""Five regions on one machine: real agents, real mutual TLS, real delays."""
