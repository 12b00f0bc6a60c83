"""Turns rendered containers into command lines of this machine, as the kubelet would into processes."""

import pathlib
import re
import subprocess

import chart
import pending
from processes import PATIENCE_SECONDS


def expand(text, env):
    """$(NAME) by the container's own environment; unknown names stay, as the kubelet leaves them."""
    return re.sub(r"\$\(([A-Za-z_][A-Za-z0-9_]*)\)", lambda match: env.get(match.group(1), match.group(0)), text)


def environment(container, pod_name, cpus=2):
    """{name: value} of a container of the pod; what the API would fill in is made up."""
    index = pod_name.rpartition("-")[2]
    fields = {
        "metadata.name": pod_name, "metadata.uid": f"uid-{pod_name}",
        "metadata.labels['apps.kubernetes.io/pod-index']": index,
    }
    result = {}
    for item in container.get("env") or []:
        if "value" in item:
            result[item["name"]] = expand(item["value"], result)
        elif "fieldRef" in item["valueFrom"]:
            result[item["name"]] = fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        else:
            assert item["valueFrom"]["resourceFieldRef"]["resource"] == "limits.cpu", item
            result[item["name"]] = str(cpus)
    return result


def files_of(objects, pod):
    """{path inside the container: text} of the ConfigMaps that the pod's main container mounts."""
    maps = {
        volume["name"]: objects.one("ConfigMap", volume["configMap"]["name"])["data"]
        for volume in pod["spec"]["volumes"] if "configMap" in volume
    }
    return {
        f"{mount['mountPath']}/{name}": text
        for mount in chart.main_container(pod)["volumeMounts"]
        for name, text in maps.get(mount["name"], {}).items()
    }


def write_files(files, folder):
    """Writes them below the folder, which stands for the container's root."""
    for path, text in files.items():
        target = pathlib.Path(f"{folder}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def in_folder(word, folder):
    """A flag whose value is a path of the container, moved below the folder."""
    return re.sub(r"^(--[a-z-]+=)?(?=/(etc|var|tmp|data)/)", lambda match: (match.group(1) or "") + str(folder), word)


_HELP = {}


def help_text(program, *words):
    """What PROGRAM WORDS --help prints."""
    key = (str(program), *words)
    if key not in _HELP:
        done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
        _HELP[key] = done.stdout
    return _HELP[key]


def known_flags(program, *words):
    return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*)", help_text(program, *words).partition("Examples:")[0]))


def without_pending(program, args, report):
    """The arguments less those that the list allows the program not to know; report(text) tells of each.

    A server that knows no TLS is told --insecure instead: else it would rightly refuse to listen.
    """
    known = known_flags(program)
    kept = []
    for word in args:
        match = re.match(r"--([a-z-]+)", word)
        allowed = pending.PENDING_FLAGS.get(program.name, [])
        if match and match.group(1) not in known and match.group(1) in allowed:
            report(f"{program.name} does not know --{match.group(1)} yet")
            if match.group(1) == "tls-cert" and "insecure" in known:
                kept.append("--insecure")
        else:
            kept.append(word)
    return kept


def subcommands(dslide):
    return re.findall(r"^  ([a-z-]+) ", help_text(dslide).partition("Subcommands:")[2], re.MULTILINE)


def is_pending(dslide, container, report):
    """Whether the container runs a subcommand that the list allows the program not to have yet."""
    command = next(word for word in container["args"] if not word.startswith("-"))
    waits = command not in subcommands(dslide) and command in pending.PENDING_COMMANDS
    if waits:
        report(f"dslide has no subcommand {command} yet")
    return waits


def bin_dir(arguments):
    """The folder after --bin-dir, taken out of the arguments; None when it holds no programs."""
    folder = chart.ROOT / "build" / "bin"
    if "--bin-dir" in arguments:
        place = arguments.index("--bin-dir")
        folder = pathlib.Path(arguments[place + 1]).resolve()
        del arguments[place : place + 2]
    return folder if (folder / "dslide-shard").exists() else None
