"""The launcher of kt.pyz: unpack the packages once, then run `kt` from there.

Compiled modules cannot be loaded from an archive. They are unpacked to a directory of this build and user, which the
first command of a build makes and all later ones use; removing it is always safe. `KT_PYZ_CACHE` chooses the parent
directory, otherwise it is XDG_CACHE_HOME or ~/.cache.

Commands start further processes with `sys.executable`. These need the same packages, so it becomes the link to this
Python in a virtual environment over the unpacked directory.
"""

import os
import sys

ARCHIVE = os.path.dirname(os.path.abspath(__file__))
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def fail(message):
    sys.stderr.write(f"kt.pyz: {message}\n")
    sys.exit(1)


def main():
    import zipimport
    from importlib.machinery import EXTENSION_SUFFIXES

    archive = zipimport.zipimporter(ARCHIVE)
    build, described, names = archive.get_data("build").decode().splitlines()
    machine, *suffixes = names.split()
    system = os.uname()
    if EXTENSION_SUFFIXES[0] not in suffixes or system.machine != machine:
        here = f"Python {VERSION} on {system.sysname} {system.machine}, with modules named *{EXTENSION_SUFFIXES[0]}"
        fail(f"made for {described}, this is {here}; install kafkatools with pip instead")
    cache = os.environ.get("KT_PYZ_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "kafkatools"
    )
    cache = os.path.abspath(cache)  # links lead there, and other processes have other working directories
    tree = os.path.join(cache, build)
    base = getattr(sys, "_base_executable", None) or sys.executable
    environment = os.path.join(tree, "python" + base.replace(os.sep, "-"))
    python = os.path.join(environment, "bin", "python")
    if not os.path.exists(python):
        try:
            unpack(archive, cache, tree)
            make_environment(tree, environment, base)
        except OSError as error:
            fail(f"cannot unpack to {cache}: {error}; set KT_PYZ_CACHE to a directory that you can write to")
    if os.stat(tree).st_uid != os.getuid():
        fail(f"{tree} belongs to another user; set KT_PYZ_CACHE to a directory of your own")
    sys.executable = python
    sys.path[0] = os.path.join(tree, "site")  # instead of the archive
    from kafkatools.__main__ import main as kt

    kt()


def unpack(archive, cache, tree):
    """Unpack beside the tree and rename the result, so that a command started meanwhile sees all or nothing."""
    import io
    import shutil
    import tempfile
    import zipfile

    if os.path.isdir(tree):
        return
    os.makedirs(cache, mode=0o700, exist_ok=True)
    part = tempfile.mkdtemp(prefix=".unpacking-", dir=cache)
    try:
        with zipfile.ZipFile(io.BytesIO(archive.get_data("site.zip"))) as packages:
            packages.extractall(os.path.join(part, "site"))
        os.rename(part, tree)
    except OSError:
        shutil.rmtree(part, ignore_errors=True)
        if not os.path.isdir(tree):  # another command was faster
            raise


def make_environment(tree, environment, base):
    """Make the virtual environment by hand: what `python -m venv` would make, without pip."""
    import tempfile

    part = tempfile.mkdtemp(prefix=".environment-", dir=tree)
    os.mkdir(os.path.join(part, "bin"))
    os.makedirs(os.path.join(part, "lib", "python" + VERSION))
    os.symlink(os.path.join(tree, "site"), os.path.join(part, "lib", "python" + VERSION, "site-packages"))
    os.symlink(base, os.path.join(part, "bin", "python"))
    with open(os.path.join(part, "pyvenv.cfg"), "w") as file:
        file.write(f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\n")
    try:
        os.rename(part, environment)
    except OSError:  # another command was faster
        import shutil

        shutil.rmtree(part, ignore_errors=True)
        if not os.path.isdir(environment):
            raise


main()
