"""Packs a wheel around a module that cargo has built already.

    python wheel.py MODULE.so FOLDER

maturin would ask cargo for this package alone, which chooses other features of the crates below than a build of the workspace, and so builds all of
them again. The metadata of the wheel are maturin's.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Iterator, Tuple

PACKAGE = Path(__file__).resolve().parents[1]


def contents(module: Path) -> Iterator[Tuple[str, bytes]]:
    """The files of the wheel but for its record."""
    for path in sorted((PACKAGE / "python").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(PACKAGE / "python").as_posix(), path.read_bytes()
    yield "iotide/_iotide.abi3.so", module.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        command = ["maturin", "pep517", "write-dist-info", "--metadata-directory", folder]
        manifest = ["--manifest-path", str(PACKAGE / "Cargo.toml")]
        subprocess.run([sys.executable, "-m", *command, *manifest], check=True, stdout=subprocess.DEVNULL)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and path.name != "RECORD":
                yield path.relative_to(folder).as_posix(), path.read_bytes()


def pack(module: Path, folder: Path) -> Path:
    """Writes the wheel; returns its path."""
    files = list(contents(module))
    info = next(name for name, _ in files if name.endswith("/METADATA")).rsplit("/", 1)[0]
    tag = next(line.split(": ")[1] for _, data in files if b"Root-Is-Purelib" in data for line in data.decode().splitlines() if line.startswith("Tag: "))
    record = []
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    record.append(f"{info}/RECORD,,\n")
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{info.removesuffix('.dist-info')}-{tag}.whl"
    # Not compressed: it is installed once, here.
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, data in [*files, (f"{info}/RECORD", "".join(record).encode())]:
            archive.writestr(name, data)
    return wheel


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), Path(sys.argv[2])))
