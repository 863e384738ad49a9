"""Which folders lie on file systems that tell nobody what another machine changed there.

The kernel notices only changes that are made through itself. On a network drive, or a folder that a virtual
machine shares with its host, the other side's changes are seen by looking alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS_FILE = Path("/proc/self/mountinfo")
"""Linux's list of what is mounted where; other systems have none, and folders count as local there."""

_REMOTE_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "davfs", "lustre", "glusterfs"}
    | {"vboxsf", "vmhgfs", "virtiofs", "prl_fs", "drvfs", "fakeowner", "ncpfs", "coda", "orangefs"}
)
_ESCAPED = re.compile(r"\\([0-7]{3})")


def remote_file_system(folder: Path) -> str:
    """The type of the remote file system that a folder is on (`nfs4`, `fuse.sshfs`); `""` for a local one."""
    try:
        mounts = MOUNTS_FILE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    return remote_type(Path(os.path.realpath(folder)), mounts)


def remote_type(folder: Path, mounts: str) -> str:
    """As `remote_file_system`, for a real path and the text of `/proc/self/mountinfo` (man 5 proc)."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        place, mounted = left.split(" ")[4:5], right.split(" ")[:1]
        if not place or not mounted:
            continue
        point = Path(_ESCAPED.sub(lambda found: chr(int(found[1], 8)), place[0]))
        # A later mount on the same folder hides the earlier one.
        if len(point.parts) >= longest and folder.is_relative_to(point):
            longest, kind = len(point.parts), mounted[0]
    return kind if kind in _REMOTE_TYPES or kind.startswith("fuse.") else ""
