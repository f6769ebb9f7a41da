"""Assignors of consumer groups (KIP-54, KIP-881): a Problem in, an owner per partition out."""
