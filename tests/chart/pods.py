"""Turns rendered containers into command lines of this machine, as the kubelet would."""

import functools
import pathlib
import re
import subprocess

import chart
from chart import Object, Objects
from processes import PATIENCE_SECONDS, bin_dir


def expand(text: str, env: dict[str, str]) -> str:
    """$(NAME) by the container's own environment; unknown names stay, as with the kubelet."""
    return re.sub(r"\$\(([A-Za-z_]\w*)\)", lambda match: env.get(match[1], match[0]), text)


def environment(container: Object, pod_name: str) -> dict[str, str]:
    """{name: value} of a container of the pod; what the API would fill in is made up."""
    fields = {
        "metadata.name": pod_name, "metadata.uid": f"uid-{pod_name}",
        "metadata.labels['apps.kubernetes.io/pod-index']": pod_name.rpartition("-")[2],
    }
    result: dict[str, str] = {}
    for item in container.env or []:
        if "value" in item:
            result[item.name] = expand(item.value, result)
        elif item.valueFrom.fieldRef:
            result[item.name] = fields[item.valueFrom.fieldRef.fieldPath]
        else:
            assert item.valueFrom.resourceFieldRef.resource == "limits.cpu", item
            result[item.name] = "2"
    return result


def write_files(objects: Objects, pod: Object, root: pathlib.Path) -> None:
    """The ConfigMaps that the pod's main container mounts, below `root`, its own."""
    maps = {volume.name: objects.one("ConfigMap", volume.configMap.name).data
            for volume in pod.spec.volumes if volume.configMap}
    for mount in chart.main_container(pod).volumeMounts:
        for name, text in maps.get(mount.name, {}).items():
            target = pathlib.Path(f"{root}{mount.mountPath}/{name}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def in_folder(word: str, folder: pathlib.Path) -> str:
    """A flag whose value is a path of the container, moved below the folder."""
    return re.sub(r"^(--[a-z-]+=)?(?=/(etc|var|tmp|data)/)",
                  lambda match: f"{match[1] or ''}{folder}", word)


@functools.cache
def help_text(program: str, *words: str) -> str:
    """What PROGRAM WORDS --help prints."""
    return subprocess.run([bin_dir() / program, *words, "--help"], capture_output=True, text=True,
                          timeout=PATIENCE_SECONDS, check=True).stdout


def known_flags(program: str, *words: str) -> set[str]:
    text = help_text(program, *words).partition("Examples:")[0]
    return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", text))


def subcommands() -> list[str]:
    """Those of dslide."""
    listed = help_text("dslide").partition("Subcommands:")[2]
    return re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)


def run_certs(*words: str | pathlib.Path) -> None:
    """Runs `dslide certs`."""
    subprocess.run([bin_dir() / "dslide", "certs", *words], check=True, capture_output=True,
                   timeout=PATIENCE_SECONDS)


def tls_files(certificates: pathlib.Path, role: str) -> dict[str, bytes]:
    """{name: content} of the role's Secret, from a folder of `dslide certs dev`."""
    names = {"tls.crt": f"{role}.crt", "tls.key": f"{role}.key", "ca.crt": "ca.crt"}
    return {name: (certificates / source).read_bytes() for name, source in names.items()}
