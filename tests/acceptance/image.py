"""The root file system of the emulated machine: Debian, Slurm, Open MPI, and slurm_topo installed in it.

Everything lies under ``build/acceptance`` and is kept from run to run: Debian's packages as long as their
list does not change, the image as long as no file of the project does.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
CACHE = PROJECT / "build" / "acceptance"
GUEST = Path(__file__).resolve().parent / "guest"
SUITE = "bookworm"
SLURM = ("munge", "slurmd", "slurmctld", "slurmdbd", "slurm-client", "slurm-wlm-basic-plugins")
ACCOUNTING = ("slurm-wlm-mysql-plugin", "mariadb-server")
SYSTEM = ("netbase", "iproute2", "procps", "kmod", "numactl", "hwloc-nox", "openmpi-bin", "python3")
PACKAGES = (*SLURM, *ACCOUNTING, *SYSTEM)
KERNEL = "linux-image-cloud-amd64"
USERS = {"alice": 2001, "bob": 2002}
# Nodes talk by TCP. Components that nothing here needs are not loaded: that takes long under emulation.
OPENMPI = """btl = tcp,vader,self
btl_tcp_if_include = eth0
btl_vader_single_copy_mechanism = none
pml = ob1
io = ^romio321
osc = rdma,pt2pt
coll = basic,libnbc,tuned,self,sm,inter
"""
IMAGE_MIB = 2048
# Raised when the recipe below changes, so that kept folders are not taken for new ones.
RECIPE = 1


def run(*argv: str | Path, **options: object) -> str:
    """Standard output of a command.

    Raises
    ------
    RuntimeError
        It failed; with the end of what it said.
    """
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise RuntimeError(f"{' '.join(str(a) for a in argv)}: exit code {done.returncode}\n{said}")
    return str(done.stdout)


def build_image() -> tuple[Path, Path]:
    """Image of the root disk and the kernel that boots it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    kernel, veth = _kernel()
    root = _debian()
    image = CACHE / f"root-{_digest_of_project()}.ext4"
    if not image.exists():
        for old in CACHE.glob("root-*.ext4*"):
            old.unlink()
        tree = CACHE / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        run("cp", "-al", root, tree)
        _configure(tree, veth)
        _install_project(tree)
        partial = image.with_suffix(".ext4.partial")
        run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, partial, f"{IMAGE_MIB}M")
        partial.rename(image)
    return image, kernel


def _kernel() -> tuple[Path, Path]:
    """Debian's kernel for virtual machines (NVMe and ext4 built in) and its module for pairs of links."""
    folder = CACHE / "kernel"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        depends = run("apt-cache", "depends", "--important", KERNEL)
        found = re.search(r"Depends: (linux-image-\S+)", depends)
        if not found:
            raise RuntimeError(f"{KERNEL}: apt knows no kernel of that name; run apt-get update")
        run("apt-get", "download", "-qq", found[1], cwd=folder)
        run("dpkg", "-x", next(folder.glob("*.deb")), folder)
        (folder / "done").touch()
    return next(folder.glob("boot/vmlinuz-*")), next(folder.glob("lib/modules/*/kernel/drivers/net/veth.ko"))


def _debian() -> Path:
    """Folder with Debian and its packages, as debootstrap makes it."""
    recipe = f"{RECIPE} {SUITE} {' '.join(PACKAGES)}"
    root = CACHE / f"debian-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    if not root.exists():
        partial, archives = CACHE / "debian.partial", CACHE / "archives"
        shutil.rmtree(partial, ignore_errors=True)
        archives.mkdir(exist_ok=True)
        # Daemons of the packages must not start here: debootstrap sees to that itself.
        run("debootstrap", "--variant=minbase", f"--cache-dir={archives}", f"--include={','.join(PACKAGES)}",
            SUITE, partial)  # fmt: skip
        for user, uid in USERS.items():
            run("chroot", partial, "useradd", "-m", "-u", str(uid), "-s", "/bin/bash", user)
        # srun --mpi=pmix opens the library under the name that only the -dev package brings.
        library = partial / "usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so.2"
        (library.parent / "libpmix.so").symlink_to("libpmix.so.2")
        shutil.rmtree(partial / "var/cache/apt/archives", ignore_errors=True)
        partial.rename(root)
    return root


def _digest_of_project() -> str:
    """Changes with every file that goes into the image."""
    digest = hashlib.sha256(f"{RECIPE} {IMAGE_MIB} {PACKAGES}".encode())
    folders = ("slurm_topo", "job_submit", "spank", "conf", "tests/acceptance/guest")
    files = [PROJECT / "pyproject.toml", PROJECT / "Makefile", Path(__file__)]
    files += [f for folder in folders for f in sorted((PROJECT / folder).rglob("*")) if f.is_file()]
    for file in files:
        if "__pycache__" not in file.parts and file.suffix != ".so":
            digest.update(str(file.relative_to(PROJECT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _put(tree: Path, name: str, text: str, mode: int = 0o644) -> None:
    """Write a file anew: the old one is one with the kept folder's."""
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _configure(tree: Path, veth: Path) -> None:
    """What makes the folder a machine: process 1, names, the MPI program of the cases."""
    _put(tree, "init.sh", (GUEST / "init.sh").read_text(), 0o755)
    hosts = "127.0.0.1 localhost\n192.0.2.1 head\n192.0.2.11 n1\n192.0.2.12 n2\n192.0.2.13 n3\n"
    _put(tree, "etc/hosts", hosts)
    _put(tree, "etc/hostname", "head\n")
    _put(tree, "etc/openmpi/openmpi-mca-params.conf", OPENMPI)
    (tree / "usr/lib/modules").mkdir(exist_ok=True)
    shutil.copyfile(veth, tree / "usr/lib/modules/veth.ko")
    run(
        "mpicc",
        "-std=gnu11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-o",
        tree / "usr/local/bin/ranks",
        GUEST / "ranks.c",
    )


def _install_project(tree: Path) -> None:
    """As an administrator does it: ``make install``, then the lines of README.md in Slurm's configuration."""
    install = ("make", "-s", "-C", PROJECT, "install", f"DESTDIR={tree}", "PREFIX=/usr", "SYSCONFDIR=/etc")
    # Without what the `make` above it, if any, was told.
    run("env", "-u", "MAKEFLAGS", *install)
    # Translated by the guest's own Python: under emulation a launch cannot afford it.
    run("chroot", tree, "python3", "-m", "compileall", "-q", "-x", "/tests?/", "/usr/lib/slurm-topo/python")
