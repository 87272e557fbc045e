"""Container images per release: only tags that a source shows to exist for the device's
architecture; for the others None.
"""

from __future__ import annotations

from advisor.engines.catalogue import Catalogue


def image(catalogue: Catalogue, version: str, hardware: object = None) -> str | None:
    """The pinned image of a release for a device's vendor (default NVIDIA), or None where its
    existence is not established.

    `archs` of a table lists what its images are built for; a row without `tag` has images for the
    architectures it names only.
    """
    vendor = str(getattr(hardware, "vendor", "nvidia") or "nvidia")
    table = (catalogue.notes.get("images") or {}).get(
        vendor if vendor != "unknown" else "nvidia"
    ) or {}
    row = (table.get("tags") or {}).get(version)
    if not row:
        return None
    arch = str(getattr(hardware, "arch", "") or "")
    if arch and arch not in table.get("archs", (arch,)):
        return None
    tag = row.get(arch, row.get("tag"))
    return f"{table['repository']}:{tag}" if tag else None
