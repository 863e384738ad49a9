"""Every word that is sent to a model and that no human typed."""

from nacre.prompts.rendering import PromptError, quoted, render, variables

__all__ = ["PromptError", "quoted", "render", "variables"]
