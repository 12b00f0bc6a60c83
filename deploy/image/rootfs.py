"""Makes the root file system of the image: programs, the libraries that they load, and their records.

usage: rootfs.py --output DIR --license FILE PROGRAM...

Run in a Debian of the release that the programs were compiled for. For every package that a library
comes from, its licence goes to usr/share/doc/PACKAGE/copyright and its dpkg record to
var/lib/dpkg/status.d/PACKAGE, where vulnerability scanners look in an image without a package
manager. Errors name the library that cannot be found or that no package owns.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

# base-files says which release this is; of ca-certificates are the authorities of object stores.
BASE_PACKAGES = ("base-files", "ca-certificates")
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
USER = 10001
ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/:/nonexistent\n"
                  f"dslide:x:{USER}:{USER}:dslide:/tmp:/nonexistent\n",
    "etc/group": f"root:x:0:\ndslide:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def fail(message):
    sys.exit(f"rootfs: {message}")


def libraries(ldd_output):
    """The paths of the libraries in the output of ldd, loader included.

    Raises ValueError for a library that was not found.
    """
    missing = re.findall(r"^\s*(\S+) => not found", ldd_output, re.MULTILINE)
    if missing:
        raise ValueError(f"not found: {', '.join(missing)}; install the packages that hold them")
    return sorted(set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", ldd_output, re.MULTILINE)))


def names(path):
    """Under which a file may be recorded: a path below /lib with or without /usr."""
    real = str(pathlib.Path(path).resolve())
    return real, real.removeprefix("/usr") if real.startswith("/usr/lib") else f"/usr{real}"


def owners(paths):
    """{path: package} of files, asked for at once: dpkg reads the lists of all packages each time."""
    asked = subprocess.run(
        ["dpkg-query", "--search", *(name for path in paths for name in names(path))],
        capture_output=True, text=True)
    recorded = {}
    for line in asked.stdout.splitlines():
        packages, _, name = line.partition(": ")
        if not packages.startswith("diversion by "):
            recorded[name] = packages.split(",")[0].split(":")[0]
    found = {path: next((recorded[name] for name in names(path) if name in recorded), "")
             for path in paths}
    for path, package in found.items():
        if not package:
            fail(f"no package owns {path}")
    return found


def copy(source, root, name=None):
    """Copies a file with its mode to the same place, or to `name`, below the root."""
    target = root / (name or str(source).lstrip("/"))
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(source.stat().st_mode & 0o755 | 0o444)


def copy_library(path, root):
    """Copies what a library's name leads to under that name, so that no links are needed.

    Libraries are looked for in /lib and /usr/lib, which are one folder.
    """
    copy(pathlib.Path(path).resolve(), root, f"usr/{path.lstrip('/').removeprefix('usr/')}")


def record(package, root):
    """Keeps a package's dpkg record and licence."""
    stanza = subprocess.run(["dpkg-query", "--status", package], capture_output=True, text=True,
                            check=True).stdout
    # With several architectures the first is as good as any: licence and version are the same.
    target = root / "var/lib/dpkg/status.d" / package
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(stanza.split("\n\n")[0].rstrip("\n") + "\n", encoding="utf-8")
    licence = pathlib.Path("/usr/share/doc", package, "copyright")
    if not licence.exists():
        fail(f"{package} has no {licence}")
    copy(licence.resolve(), root, str(licence).lstrip("/"))


def lay_out(root):
    """The folders and files that programs expect of any system."""
    (root / "usr").mkdir(parents=True)
    for name in ("lib", "lib64", "bin"):
        (root / name).symlink_to(f"usr/{name}")
    for name in ("usr/bin", "usr/lib", "usr/lib64", "etc/dslide/tls", "run", "var/lib"):
        (root / name).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    for name, text in ACCOUNTS.items():
        (root / name).write_text(text, encoding="ascii")
    copy(pathlib.Path("/etc/os-release").resolve(), root, "etc/os-release")
    copy(pathlib.Path("/etc/debian_version"), root)
    copy(AUTHORITIES, root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=pathlib.Path, required=True, help="must not exist")
    parser.add_argument("--license", type=pathlib.Path, required=True)
    parser.add_argument("programs", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    root = options.output
    if root.exists():
        fail(f"--output {root} exists; give a path that does not")
    lay_out(root)
    needed = set()
    for program in options.programs:
        shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        try:
            needed.update(libraries(shown))
        except ValueError as error:
            fail(f"{program}: {error}")
        copy(program, root, f"usr/bin/{program.name}")
    for path in sorted(needed):
        copy_library(path, root)
    for package in sorted({*owners(needed).values(), *BASE_PACKAGES}):
        record(package, root)
    copy(options.license, root, "usr/share/doc/dslide/copyright")
    print(f"rootfs: {len(options.programs)} programs, {len(needed)} libraries")


if __name__ == "__main__":
    main()
