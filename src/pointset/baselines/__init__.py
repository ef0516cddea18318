"""Peers: what others do with the same graphs."""
