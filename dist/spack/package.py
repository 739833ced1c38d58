"""Spack recipe. Put it into a repository of your own as packages/iotide/package.py, with the source archive of
`cargo xtask dist` (iotide-VERSION.tar.gz) in the directory from which `spack install iotide` is run."""

import os

from spack.package import *


class Iotide(Package):
    """Finds the rhythm of an HPC job's I/O, and schedules by it."""

    manual_download = True
    url = f"file://{os.getcwd()}/iotide-0.1.0.tar.gz"
    license("Apache-2.0 OR MIT")

    # Its checksum is in SHA256SUMS beside the archive: `spack checksum iotide` enters it.
    version("0.1.0")

    depends_on("c", type="build")  # SQLite and ring are built by it
    depends_on("rust@1.90:", type="build")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("install", "--locked", "--root", prefix, "--path", "crates/cli")
        iotide = Executable(join_path(prefix.bin, "iotide"))
        iotide("man", prefix.share.man.man1)
        # Beside the program, so that programs load it from here and no user's cache is needed.
        mkdirp(prefix.lib.iotide)
        library = iotide("library", "--library-dir", self.stage.path, output=str).strip()
        install(library, join_path(prefix.lib.iotide, "libiotide.so"))
        for shell, folder, name in (
            ("bash", "bash-completion/completions", "iotide"),
            ("zsh", "zsh/site-functions", "_iotide"),
            ("fish", "fish/vendor_completions.d", "iotide.fish"),
        ):
            mkdirp(join_path(prefix.share, folder))
            with open(join_path(prefix.share, folder, name), "w") as script:
                script.write(iotide("completions", shell, output=str))
