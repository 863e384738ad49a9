"""The folder that a new owner gets: copied once by `nacre.memory.workspace.workspace`, never overwritten."""
