"""The images of the operators and of their Prometheus, of our builds, under the names that their
manifests ask for: nothing can be fetched where they run."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil

import image_archive

USER = "65534:65534"
JETSTACK = "quay.io/jetstack/cert-manager"
CERT_MANAGER_TAG = "v1.21.2"
PROMETHEUS_OPERATOR = "quay.io/prometheus-operator"
KUEUE = "us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue"


@dataclasses.dataclass(frozen=True)
class Image:
    name: str
    program: str  # in the operators' bin/
    path: str  # where the manifests expect it
    part: str = ""  # the program's first argument


IMAGES = (
    Image(f"{KUEUE}:release-0.17", "kueue", "/manager"),
    *(Image(f"{JETSTACK}-{part}:{CERT_MANAGER_TAG}", "cert-manager", "/cert-manager", part)
      for part in ("controller", "webhook", "cainjector")),
    Image(f"{PROMETHEUS_OPERATOR}/prometheus-operator:v0.85.0", "operator", "/bin/operator"),
    Image(f"{PROMETHEUS_OPERATOR}/prometheus-config-reloader:v0.85.0",
           "prometheus-config-reloader", "/bin/prometheus-config-reloader"),
    # The one that this operator asks for by itself.
    Image("quay.io/prometheus/prometheus:v3.5.0", "prometheus", "/bin/prometheus"),
)


def make_one(image: Image, programs: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Its archive, in `folder`."""
    name = image.part or image.program
    program = folder / name / image.path.lstrip("/")
    program.parent.mkdir(parents=True)
    shutil.copy2(programs / image.program, program)
    archive = folder / f"{name}.tar"
    image_archive.write(folder / name, image.name, archive, user=USER,
                        entrypoint=[image.path, *([image.part] if image.part else [])])
    shutil.rmtree(folder / name)
    return archive


def make(operators: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """Archives in `folder`. `operators`: what operators.sh has built."""
    return [make_one(image, operators / "bin", folder) for image in IMAGES]
