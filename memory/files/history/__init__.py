"""What changed in a workspace that is a folder: kept in git, told, and taken back."""
