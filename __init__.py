"""Nacre: an agent runtime whose memory is plain Markdown."""
