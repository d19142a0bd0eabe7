"""The command ``replicator``: one module for each group of commands."""
