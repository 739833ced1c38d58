-- Environment module (Lmod) for the tarball of `cargo xtask dist`, unpacked on a file system that all nodes share.
-- Put it there as modulefiles/iotide/VERSION.lua and name the place:
local root = "/opt/iotide/" .. myModuleVersion()

help("iotide finds the rhythm of an HPC job's I/O: `iotide run -- PROGRAM` begins.")
whatis("Name: iotide")
whatis("Version: " .. myModuleVersion())

prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share/man"))
prepend_path("XDG_DATA_DIRS", pathJoin(root, "share"))
-- All ranks load the library from here; a package of the system may have another version.
setenv("IOTIDE_LIBRARY", pathJoin(root, "lib/iotide/libiotide.so"))
