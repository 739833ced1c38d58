"""Packs a wheel around a module that cargo has built already.

    python wheel.py MODULE.so FOLDER [PLATFORM]

With a platform, as manylinux2014_x86_64, it is a release: compressed, and the same to the byte for the same files and SOURCE_DATE_EPOCH.

maturin would ask cargo for this package alone, which chooses other features of the crates below than a build of the workspace, and so builds all of
them again. The metadata of the wheel are maturin's.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Iterator, Tuple

PACKAGE = Path(__file__).resolve().parent


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


def pack(module: Path, folder: Path, platform: str = "") -> Path:
    """Writes the wheel; returns its path."""
    files = list(contents(module))
    info = next(name for name, _ in files if name.endswith("/METADATA")).rsplit("/", 1)[0]
    meta = next(data for name, data in files if name == f"{info}/WHEEL").decode()
    tag = re.findall(r"^Tag: (.*)$", meta, re.M)[0]
    if platform:
        own = tag.rsplit("-", 1)[0]
        tag = f"{own}-{platform}"
        # The name of the file has all tags in one.
        each = "\n".join(f"Tag: {own}-{one}" for one in platform.split("."))
        meta = re.sub(r"^Tag: .*$", each, meta, flags=re.M)
        files = [(name, meta.encode() if name == f"{info}/WHEEL" else data) for name, data in files]
    record = []
    for name, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
    record.append(f"{info}/RECORD,,\n")
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{info.removesuffix('.dist-info')}-{tag}.whl"
    made = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "315532800")))[:6]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in [*files, (f"{info}/RECORD", "".join(record).encode())]:
            entry = zipfile.ZipInfo(name, made)
            entry.external_attr = 0o644 << 16
            # One that is not a release is installed once, here.
            entry.compress_type = zipfile.ZIP_DEFLATED if platform else zipfile.ZIP_STORED
            archive.writestr(entry, data)
    return wheel


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:4]))
