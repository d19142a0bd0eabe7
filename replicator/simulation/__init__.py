"""The production core in virtual time, from one seed, with everything that can go wrong."""
