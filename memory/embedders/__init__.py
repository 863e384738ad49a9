"""Local embedding models, one file each."""
