"""The memory of an agent for programs that speak the Model Context Protocol."""
