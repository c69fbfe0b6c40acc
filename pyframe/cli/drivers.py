"""What to do where no GPU is found: by system, and by what is missing on this one."""

from __future__ import annotations

import ctypes.util
import os
import platform
import sys
from pathlib import Path
from typing import NamedTuple

VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}  # of PCI
ICDS = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
        "~/.local/share/vulkan/icd.d")  # fmt: skip

# By family of distributions: Vulkan itself with Mesa's drivers (AMD, Intel), and NVIDIA's driver.
PACKAGES = {
    "debian": (
        "sudo apt install libvulkan1 mesa-vulkan-drivers",
        "sudo apt install nvidia-driver (Debian) or sudo ubuntu-drivers install (Ubuntu)",
    ),
    "fedora": (
        "sudo dnf install vulkan-loader mesa-vulkan-drivers",
        "sudo dnf install akmod-nvidia, from RPM Fusion",
    ),
    "arch": (
        "sudo pacman -S vulkan-icd-loader, with vulkan-radeon (AMD) or vulkan-intel (Intel)",
        "sudo pacman -S nvidia-utils",
    ),
    "suse": (
        "sudo zypper install libvulkan1, with libvulkan_radeon (AMD) or libvulkan_intel (Intel)",
        "NVIDIA's driver from its own openSUSE repository: zypper addrepo, then zypper install",
    ),
    "alpine": (
        "sudo apk add vulkan-loader, with mesa-vulkan-ati (AMD) or mesa-vulkan-intel (Intel)",
        "none: NVIDIA's driver needs glibc, so take another distribution",
    ),
    "": (
        "install your distribution's Vulkan loader and Mesa's Vulkan drivers",
        "install NVIDIA's own driver",
    ),
    "nixos": (
        "hardware.graphics.enable = true; in configuration.nix",
        'services.xserver.videoDrivers = [ "nvidia" ]; in configuration.nix',
    ),
}
FAMILIES = {
    "ubuntu": "debian", "linuxmint": "debian", "raspbian": "debian", "rhel": "fedora",
    "centos": "fedora", "rocky": "fedora", "manjaro": "arch", "opensuse": "suse", "sles": "suse",
}  # fmt: skip

NO_WGPU = "wgpu, through which pyframe computes on GPUs, can't be used"
SYSTEMS = {  # where the system itself has all but the driver
    "Darwin": (
        (
            "Metal comes with macOS: each Mac with Apple silicon has it, and Intel Macs of 2012 "
            "and later with macOS 10.13 or newer; there is no driver to install."
        ),
        "A virtual machine or a hosted runner often has no GPU: run Python on the Mac itself.",
    ),
    "Windows": (
        (
            "Install the newest graphics driver from its maker (AMD, Intel or NVIDIA), then start "
            "Python again: 'Microsoft Basic Render Driver' is a CPU that plays a GPU."
        ),
        (
            "In a virtual machine or over Remote Desktop Windows may hide the GPU: run Python at "
            "the computer itself, or give the virtual machine a GPU."
        ),
    ),
}
WSL = (
    "This is WSL: run Python in Windows itself, where wgpu takes D3D12 and needs nothing but the "
    "GPU's driver. Linux here has Vulkan only through Mesa's dzn, which does not pass Vulkan's "
    "conformance tests, so that wgpu hides it."
)


class System(NamedTuple):
    """What was seen of the system that Python runs on."""

    name: str  # "Linux", "Darwin" or "Windows"
    wgpu: str = ""  # why it can't be used; '' where it can
    distributions: tuple[str, ...] = ()  # the own name, then those that it is like
    wsl: bool = False
    container: bool = False
    nodes: tuple[str, ...] = ()  # devices of GPUs
    closed: tuple[str, ...] = ()  # those of them that this user may not open
    vendors: tuple[str, ...] = ()  # of the GPUs on the bus
    loader: bool = True  # libvulkan.so is there
    icds: tuple[str, ...] = ()  # the files that name Vulkan's drivers


def look() -> System:
    """This system."""
    name = platform.system()
    try:
        import wgpu  # noqa: F401

        why = ""
    except (ImportError, OSError) as error:
        why = str(error)
    if name != "Linux":
        return System(name, why)
    nodes = [str(p) for p in Path("/dev/dri").glob("renderD*")] if os.path.isdir("/dev/dri") else []
    nodes += [p for p in ("/dev/nvidia0", "/dev/dxg") if os.path.exists(p)]
    release = platform.uname().release.lower()
    found = {text(p).strip() for p in Path("/sys/class/drm").glob("card*/device/vendor")}
    given = os.environ.get("VK_DRIVER_FILES") or os.environ.get("VK_ICD_FILENAMES")
    files = given.split(os.pathsep) if given else [
        str(path) for folder in ICDS for path in sorted(Path(folder).expanduser().glob("*.json"))
    ]  # fmt: skip
    return System(
        name, why,
        distributions=distributions(text(Path("/etc/os-release"))),
        wsl="microsoft" in release or "wsl" in release,
        container=os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
        or "kubepods" in text(Path("/proc/1/cgroup")) or "container" in os.environ,
        nodes=tuple(sorted(nodes)),
        closed=tuple(p for p in sorted(nodes) if not os.access(p, os.R_OK | os.W_OK)),
        vendors=tuple(sorted(VENDORS[v] for v in found & set(VENDORS))),
        loader=ctypes.util.find_library("vulkan") is not None,
        icds=tuple(os.path.basename(path) for path in files),
    )  # fmt: skip


def text(path: Path) -> str:
    """What a file of the system says; '' where it says nothing."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def distributions(release: str) -> tuple[str, ...]:
    """ID and ID_LIKE of an os-release file."""
    lines = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    names = f"{lines.get('ID', '')} {lines.get('ID_LIKE', '')}".replace('"', "").lower()
    return tuple(dict.fromkeys(names.split()))


def advice(s: System) -> list[str]:
    """What to do so that a GPU is found, the likeliest first."""
    if s.wgpu:
        python = os.path.basename(sys.executable) or "python"
        return [f"{NO_WGPU} ({s.wgpu}): {python} -m pip install wgpu"]
    if s.name in SYSTEMS:
        return list(SYSTEMS[s.name])
    if s.name != "Linux":
        return [f"pyframe looks for Vulkan here ({s.name}): install a Vulkan driver for the GPU."]
    return wsl(s) if s.wsl else linux(s)


def wsl(s: System) -> list[str]:
    """Linux within Windows."""
    out = [WSL]
    if "/dev/dxg" not in s.nodes:
        out.append(
            "WSL shows no GPU either (/dev/dxg is missing): install the GPU's driver in Windows, "
            "not in Linux, and run wsl --update there."
        )
    return out


def linux(s: System) -> list[str]:
    """Vulkan's parts, in the order in which they are needed."""
    families = [FAMILIES.get(name.partition("-")[0], name) for name in s.distributions]
    family = next((f for f in families if f in PACKAGES), "")
    mesa, nvidia = PACKAGES.get(family, PACKAGES[""])
    gpus = [n for n in s.nodes if n != "/dev/dxg"]
    has_nvidia = "NVIDIA" in s.vendors or "/dev/nvidia0" in s.nodes
    out = []
    if not gpus and s.container:
        out.append(
            "This is a container, and no GPU's device is in it. Start it with --device /dev/dri "
            "(AMD, Intel), or with --gpus all -e NVIDIA_DRIVER_CAPABILITIES=all (NVIDIA, with its "
            "Container Toolkit: without 'graphics' among them there is no Vulkan)."
        )
    elif not gpus:
        seen = f"{' and '.join(s.vendors)} on the bus" if s.vendors else "none on the bus"
        out.append(
            f"No GPU's device is there (/dev/dri/renderD*, /dev/nvidia0; {seen}): is there a GPU "
            "(lspci | grep -Ei 'vga|3d|display'), and does the kernel have its driver?"
        )
    if s.closed:
        out.append(
            f"You may not open {', '.join(s.closed)}: sudo usermod -aG render,video $USER, then "
            "log in again" + (" (in a container: --group-add)" if s.container else "") + "."
        )
    if not s.loader:
        out.append(f"Vulkan's loader, libvulkan.so.1, is missing: {mesa}.")
    if has_nvidia and not any("nvidia" in icd for icd in s.icds):
        out.append(
            "NVIDIA's Vulkan driver is missing (no nvidia_icd.json in /usr/share/vulkan/icd.d or "
            "/etc/vulkan/icd.d): "
            + ("start the container with -e NVIDIA_DRIVER_CAPABILITIES=all." if s.container
               else f"{nvidia}.")
        )  # fmt: skip
    mesas = [vendor for vendor in s.vendors if vendor != "NVIDIA"]
    there = [icd for icd in s.icds if not icd.startswith("lvp")]  # that one is software
    if mesas:
        there = [icd for icd in there if "radeon" in icd or "intel" in icd]
    if s.loader and not there and (mesas or not has_nvidia):
        out.append(
            f"Mesa's Vulkan drivers{f' for {mesas[0]}' if mesas else ''} are missing: {mesa}."
        )
    if not out:
        out.append(
            "The parts of Vulkan are there: vulkaninfo --summary (package vulkan-tools) says what "
            f"each driver finds; newer ones come with: {nvidia if has_nvidia else mesa}."
        )
    return out
