"""Doors for programs: who has a client already reaches the assistant's memory through it."""
