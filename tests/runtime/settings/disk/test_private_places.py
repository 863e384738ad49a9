"""What lies in the state folder is the owner's alone, whatever the umask, and however it was before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import ScriptedModel, says
from tests.runtime.agents import opened, said


def modes(folder: Path) -> dict[str, str]:
    """All that others may do with something below, by its name."""
    found = [folder, *folder.rglob("*")]
    return {str(path): oct(path.lstat().st_mode) for path in found if path.lstat().st_mode & 0o077}


@pytest.mark.parametrize("umask", [0o000, 0o022])
@pytest.mark.covers("PART-22", "ATT-6")
async def test_all_that_is_private_is_the_owners_alone(tmp_path: Path, umask: int) -> None:
    """Transcripts, index, endings, locks and the state folder, made anew or found open to everybody."""
    state = tmp_path / "state"
    before = os.umask(umask)
    try:
        async with opened(state, ScriptedModel(says("One."))) as agent:
            await agent.respond(said("Hello."))
            workspace = agent.workspace
        assert not {path: mode for path, mode in modes(state).items() if str(workspace) not in path}
        for path in [state, *state.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        async with opened(state, ScriptedModel(says("Two."))) as agent:
            await agent.respond(said("And now?"))
    finally:
        os.umask(before)
    assert not {path: mode for path, mode in modes(state).items() if str(workspace) not in path}
